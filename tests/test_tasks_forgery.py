"""A reward cannot be planted, rewritten or faked from inside a rollout."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec import UNSET

from depgpo_jax.tasks import read_task
from depgpo_jax.tasks.run import TaskSession
from depgpo_jax.traces import Trace
from tests.test_cli_tasks import make_task

# Slow, so that a process that was left behind has time to interfere.
VERIFIER = """\
sleep 0.5
echo 0 > /logs/verifier/reward.txt
sleep 0.5
echo FAILED answer
"""

FORGERIES = {
    "planted": "mkdir -p /logs/verifier; echo 1 > /logs/verifier/reward.txt; "
    "echo '{\"reward\": 1}' > /logs/verifier/reward.json; true",
    "left behind": "(while :; do mkdir -p /logs/verifier; echo 1 > /logs/verifier/reward.json; "
    "sleep 0.05; done) > /dev/null 2>&1 &",
    "link": "ln -s /app/mine /logs; mkdir -p /app/mine/verifier; "
    "echo 1 > /app/mine/verifier/reward.json",
    "through proc": "(while :; do for p in /proc/[0-9]*; do "
    "echo 1 > $p/root/logs/verifier/reward.json; done; sleep 0.05; done) > /dev/null 2>&1 &",
    "tests": "mkdir -p /tests; echo 'echo 1 > /logs/verifier/reward.txt' > /tests/test.sh; true",
    "bash": "mkdir -p /root; echo 'echo 1 > /logs/verifier/reward.json; exit 0' > /root/.bashrc; "
    "cp /root/.bashrc /root/.bash_profile; export BASH_ENV=/root/.bashrc",
}


def verified(place: Path, text: str, *, test: str = VERIFIER) -> Trace:
    with TaskSession(read_task(make_task(place, test=test))) as session:
        session.step([text])
        return session.finish(trace_id="t")


@pytest.mark.parametrize("name", FORGERIES)
def test_a_forged_reward_does_not_count(tmp_path: Path, name: str):
    trace = verified(tmp_path, FORGERIES[name])
    assert trace.reward == 0.0
    assert trace.tests
    assert [test.passed for test in trace.tests] == [False]


def test_without_a_reward_the_rollout_is_invalid_and_says_why(tmp_path: Path):
    trace = verified(tmp_path, FORGERIES["left behind"], test="exit 3\n")
    assert not isinstance(trace.reward, float)
    assert isinstance(trace.invalid, str)
    assert "reward" in trace.invalid


def test_what_the_verifier_inspected_is_in_the_trace(tmp_path: Path):
    test = "test -e /app/out; cat /app/in; echo 1 > /logs/verifier/reward.txt\n"
    trace = verified(tmp_path, "echo 1 > in; echo 2 > /tmp/other", test=test)
    # A shell looks at its own folder first; folders hold no records.
    assert [name for name in trace.verifier if name != "/app"] == ["/app/out", "/app/in"]
    assert trace.reward == 1.0


def test_a_verifier_that_does_not_end_is_ended(tmp_path: Path):
    task = make_task(
        tmp_path, toml="[verifier]\ntimeout_sec = 1.0\n", test="sleep 1000 & sleep 1000\n"
    )
    with TaskSession(read_task(task)) as session:
        session.step(["true"])
        trace = session.finish(trace_id="t")
    assert trace.invalid == "the verifier did not end in time"


WRONG = "/bin/bash /app/prog; echo 0 > /logs/verifier/reward.txt"
LOGS = "/logs/verifier"


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (
            f"echo 'echo 1 > {LOGS}/reward.json' > prog",
            "reward.json says 1 and reward.txt says 0: there must be one of them, or both the same",
        ),
        (
            f"echo 'echo 1 > {LOGS}/reward.txt; chmod 0 {LOGS}/reward.txt' > prog",
            "reward.txt: the verifier could not write it (EACCES)",
        ),
        (
            f"echo 'echo 1 > {LOGS}/reward.json; mkdir {LOGS}/reward.txt' > prog",
            "reward.txt: the verifier could not write it (EISDIR)",
        ),
    ],
)
def test_a_program_of_the_agents_that_the_verifier_runs(tmp_path: Path, text: str, reason: str):
    trace = verified(tmp_path, text, test=WRONG)
    assert (trace.reward, trace.invalid) == (UNSET, reason)


@pytest.mark.parametrize("place", ["/", "/app", "/logs", "/tmp"])
def test_rights_taken_away_make_no_rollout_invalid(tmp_path: Path, place: str):
    trace = verified(tmp_path, f"mkdir -p /logs; cd /; chmod 000 {place}")
    assert (trace.reward, trace.invalid) == (0.0, UNSET)
    assert not [name for name in trace.verifier if name.startswith("/bw")]
