"""Rollouts that a page must cope with: long, hostile, short, unrecorded."""

from __future__ import annotations

import random

from depgpo_jax.traces import Trace
from tests.helpers import Json, command, lines, step, trace, whole

EVIL = "/app/<script>alert(\"1\")</script> & 'quoted'\n\u202enew line\x1b[31m"


def long_rollout(num_commands: int, *, seed: int = 0, trace_id: str = "long") -> Trace:
    """Edits, builds and looks at a few files, with texts, as agents write them."""
    rng = random.Random(seed)
    files = [f"/app/src/module_{k}.py" for k in range(8)] + ["/app/config.toml", "/app/out/report"]
    steps: list[Json] = []
    commands: list[Json] = []
    while len(commands) < num_commands:
        number = len(commands)
        file = rng.choice(files)
        roll = rng.random()
        stdout = sorted({number - 1 - rng.randrange(8) for _ in range(rng.choice((0, 0, 1)))})
        reuse = [producer for producer in stdout if producer >= 0]
        if roll < 0.3:
            first = rng.randrange(1, 60)
            edit = command(
                text=f"sed -i '{first},{first + 4}s/before/after/' {file}",
                reads=[file],
                writes=[lines(file, (first, first + 4))],
                stdout_from=reuse,
            )
        elif roll < 0.4:
            edit = command(
                text=f"cat > {file} <<'EOF'\nimport os\n\nprint(os.getcwd())\nEOF",
                writes=[whole(file)],
                stdout_from=reuse,
            )
        elif roll < 0.55:
            edit = command(
                text=f"python {file} --out /app/out/report --config /app/config.toml",
                reads=[file, "/app/config.toml"],
                writes=[whole("/app/out/report"), whole("/app/out/log")],
                exit_code=rng.choice((0, 0, 1)),
            )
        else:
            edit = command(
                text=f"grep -n import {file} | head -20", reads=[file], stdout_from=reuse
            )
        commands.append(edit)
        if rng.random() < 0.8:
            steps.append(step(rng.randrange(20, 900), edit))
        else:
            steps[-1:] = (
                [{**steps[-1], "commands": [*steps[-1]["commands"], edit]}]
                if steps
                else [step(50, edit)]
            )
    return trace(
        *steps,
        verifier=["/app/out/report", "/app/config.toml", "/app/missing"],
        trace_id=trace_id,
        reward=1.0,
        group_id="long-group",
        tests=[{"name": "test_report", "passed": True}, {"name": "test_log", "passed": False}],
    )


def hostile_rollout() -> Trace:
    """Names and texts that would break a page that trusted them."""
    return trace(
        step(10, command(text="cat data | head\n" * 40, reads=[EVIL, "/data" * 60])),
        step(
            20,
            command(
                text=f"echo '</script><script>document.title=\"owned\"</script>' > '{EVIL}'",
                writes=[whole(EVIL), lines("/app/" + "very-long-name" * 20, (1, 2), (5, 9))],
                stdout_from=[0],
                exit_code=-9,
            ),
        ),
        step(5, command(recorded=False, unrecorded_reason="<b>timed out</b> & lost")),
        step(7),
        verifier=[EVIL, "/nowhere/{{ 7 * 7 }}"],
        trace_id="evil </title><script>alert(2)</script> \"'&",
        group_id="</script><img src=x onerror=alert(3)>",
        invalid="<i>no reward</i>",
        tests=[{"name": "test <script>", "passed": False}],
    )
