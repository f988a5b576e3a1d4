"""Tasks in the Harbor format, run without Docker. No JAX.

==============  =================================================================
`errors`        TaskError: what is wrong with a task, by file and line
`settings`      task.toml: time-outs, sizes, variables
`task`          a task's directory as one `Task`
`lines`         a Dockerfile's text: continuations, comments, quotes, variables
`plan`          Plan: the steps that make a task's files
`dockerfile`    the honoured subset of a Dockerfile, as a `Plan`
`copying`       files into a tree that nothing can lead out of
`build`         a plan's steps, carried out; `build_run`: its RUN steps, in a sandbox
`reward`        the reward that a verifier left, or why there is none
`results`       its single tests
`run`           TaskSession: one rollout, then the verifier (Linux only)
`agreement`     how far a replay agrees with its recording
`replay`        a recorded run's texts, executed again (Linux only)
`catalogue`     the task that a trajectory was recorded on
`replay_many`   many trajectories, in two passes; `replay_pool`: their worker processes,
                `replay_store`: what is finished of them
==============  =================================================================
"""

from depgpo_jax.tasks.build import build
from depgpo_jax.tasks.copying import Limits
from depgpo_jax.tasks.dockerfile import parse_dockerfile
from depgpo_jax.tasks.errors import TaskError
from depgpo_jax.tasks.plan import Copy, Plan, Run, Workdir
from depgpo_jax.tasks.results import read_test_results
from depgpo_jax.tasks.reward import Reward, read_reward
from depgpo_jax.tasks.settings import Settings
from depgpo_jax.tasks.task import Task, read_task

__all__ = [
    "Copy",
    "Limits",
    "Plan",
    "Reward",
    "Run",
    "Settings",
    "Task",
    "TaskError",
    "Workdir",
    "build",
    "parse_dockerfile",
    "read_reward",
    "read_task",
    "read_test_results",
]
