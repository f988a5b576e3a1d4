"""Date arithmetic: a schedule of tasks that begin at local times, or some hours after another."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta, timezone
from typing import Final, NamedTuple, TypeAlias

from training.tasks.difficulty import Difficulty, distractors, task_name
from training.tasks.writing import TaskFiles, generator, insert, words

HEADER: Final = "task,begin,end\n"
OFFSETS: Final = (-570, -300, -210, 120, 330, 345, 540, 660)
"""Minutes of local time before UTC."""
WEEKDAYS: Final = words("Monday Tuesday Wednesday Thursday Friday Saturday Sunday")

INSTRUCTION: Final = """\
# Work a schedule out

Each file `/app/plan/NAME.task` is one task. It has a line `hours = N`, how long it takes, and

- either a line `begin = TIME`, such as `2024-02-27T22:30:00+05:30` (with the offset from UTC),
- or the lines `after = OTHER` and `pause = N`: it begins N hours after the task OTHER has ended.

Lines that begin with `#` are comments. Write three files, each line ended by a newline:

1. `/app/schedule.csv`: first the line `task,begin,end`, then a line for each task, in byte order of
   the names: its name, when it begins and when it ends, both in UTC, as `2024-02-27T17:00:00Z`.
2. `/app/last.txt`: one line, the task that ends last, one space, the English name of the weekday
   (such as `Monday`) on which it ends, in UTC.
3. `/app/span.txt`: one line `minutes=N`, from the earliest begin of all to the latest end of all.
"""

CHECKS: Final = """\
check schedule same /app/schedule.csv /tests/schedule.csv
check last same /app/last.txt /tests/last.txt
check span same /app/span.txt /tests/span.txt
"""


class Step(NamedTuple):
    """One task: when it begins, or how long after which other one; and how long it takes."""

    name: str
    begin: datetime | None
    after: str
    pause: int
    hours: int


Times: TypeAlias = dict[str, tuple[datetime, datetime]]
"""Begin and end, by name."""


def make(seed: int, difficulty: Difficulty) -> TaskFiles:
    """The task of a seed; a link of its chain is a task that begins after another."""
    rng = generator("date_arithmetic", seed)
    steps = _steps(rng, difficulty.depth)
    while not _is_telling(steps, difficulty.depth):
        steps = _steps(rng, difficulty.depth)
    times = _times(steps)
    commands = _commands(steps[: difficulty.depth + 1], times)
    return TaskFiles(
        name=task_name("date_arithmetic", seed, difficulty),
        description="Work a schedule out over time zones",
        instruction=INSTRUCTION,
        files={f"plan/{step.name}.task": _text(step) for step in sorted(steps)}
        | distractors("date_arithmetic", seed, difficulty, _old_step),
        checks=CHECKS,
        expected=dict(zip(("schedule.csv", "last.txt", "span.txt"), _answers(times), strict=True)),
        commands=commands,
        wasteful=_wasteful(commands, steps[-1].name),
        wrong=_wrong(steps[: difficulty.depth + 1]),
    )


def _steps(rng: random.Random, depth: int) -> list[Step]:
    """The chain, then tasks that stand alone."""
    names = [f"t{number}" for number in rng.sample(range(1000, 10_000), depth + rng.randint(6, 9))]
    steps = []
    for number, name in enumerate(names):
        hours = rng.randint(40, 90) if number <= depth else rng.randint(2, 30)
        if 0 < number <= depth:
            steps.append(Step(name, None, names[number - 1], rng.randint(1, 20), hours))
            continue
        zone = timezone(timedelta(minutes=rng.choice(OFFSETS)))
        minutes = rng.randint(0, 4 * 24 * 12) * 5
        begin = datetime(2024, 2, 26, tzinfo=zone) + timedelta(minutes=minutes)
        steps.append(Step(name, begin, "", 0, hours))
    return steps


def _times(steps: list[Step]) -> Times:
    """When everything begins and ends; a task stands behind the one that it waits for."""
    times: Times = {}
    for step in steps:
        if step.begin is None:
            begin = times[step.after][1] + timedelta(hours=step.pause)
        else:
            begin = step.begin.astimezone(UTC)
        times[step.name] = (begin, begin + timedelta(hours=step.hours))
    return times


def _is_telling(steps: list[Step], depth: int) -> bool:
    """Whether the chain ends last, and no answer is right by chance if offsets are forgotten."""
    times = _times(steps)
    pairs = zip(_answers(times), _answers(_as_if_utc(steps)), strict=True)
    last = max(times, key=lambda name: times[name][1])
    return last == steps[depth].name and all(right != wrong for right, wrong in pairs)


def _as_if_utc(steps: list[Step]) -> Times:
    return _times(
        [s if s.begin is None else s._replace(begin=s.begin.replace(tzinfo=UTC)) for s in steps]
    )


def _answers(times: Times) -> tuple[str, str, str]:
    """Schedule, last task and span, as files."""
    rows = [f"{name},{_utc(begin)},{_utc(end)}\n" for name, (begin, end) in sorted(times.items())]
    last = max(times, key=lambda name: times[name][1])
    latest = times[last][1]
    weekday = WEEKDAYS[latest.weekday()]
    span = latest - min(begin for begin, _ in times.values())
    minutes = int(span.total_seconds()) // 60
    return HEADER + "".join(rows), f"{last} {weekday}\n", f"minutes={minutes}\n"


def _utc(time: datetime) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ")


def _text(step: Step) -> str:
    if step.begin is None:
        return f"# waits\nafter = {step.after}\npause = {step.pause}\nhours = {step.hours}\n"
    return f"# stands alone\nbegin = {step.begin.isoformat()}\nhours = {step.hours}\n"


def _old_step(rng: random.Random, number: int) -> tuple[str, str]:
    """A task of another year, in another folder."""
    begin = datetime(2019, 2, rng.randint(1, 28), tzinfo=timezone(timedelta(hours=2)))
    step = Step(f"t{rng.randint(1000, 9999)}-{number}", begin, "", 0, rng.randint(2, 90))
    return f"plan-2019/{step.name}.task", _text(step)


ROOTS: Final = "grep -l '^begin' plan/*.task > /tmp/roots.txt"
TABLE: Final = (
    "while read -r name begin end; do "
    'echo "$name,$(date -u -d "@$begin" +%FT%TZ),$(date -u -d "@$end" +%FT%TZ)"; '
    "done < /tmp/sorted.txt > /tmp/rows.csv"
)
SORTING: Final = "LC_ALL=C sort /tmp/times.txt > /tmp/sorted.txt"
SCHEDULE: Final = "{ echo task,begin,end; cat /tmp/rows.csv; } > schedule.csv"


def _alone(date: str) -> str:
    """The command that writes name, begin and end in seconds, for tasks that stand alone."""
    return (
        'while read -r file; do name=${file##*/}; begin=$(sed -n "s/^begin = //p" "$file"); '
        f'begin=$(date -u -d "{date}" +%s); hours=$(sed -n "s/^hours = //p" "$file"); '
        'echo "${name%.task} $begin $((begin + hours * 3600))"; '
        "done < /tmp/roots.txt > /tmp/times.txt"
    )


def _link(step: Step, end: int) -> str:
    """The command that adds a task that waits, from the end that was printed, and prints it."""
    return (
        f'echo "{step.name} $(({end} + {step.pause} * 3600)) '
        f'$(({end} + {step.pause + step.hours} * 3600))" | tee -a /tmp/times.txt'
    )


def _commands(chain: list[Step], times: Times) -> list[str]:
    ends = [int(times[step.name][1].timestamp()) for step in chain]
    begin = int(min(begin for begin, _ in times.values()).timestamp())
    return [
        "head -n 5 plan/*.task",
        ROOTS,
        _alone("$begin"),
        f"grep '^{chain[0].name} ' /tmp/times.txt",
        *(_link(step, end) for step, end in zip(chain[1:], ends, strict=False)),
        SORTING,
        TABLE,
        SCHEDULE,
        "sort -k 3,3n /tmp/times.txt | tail -n 1",
        f'echo "{chain[-1].name} $(LC_ALL=C date -u -d @{ends[-1]} +%A)" > last.txt',
        "sort -k 2,2n /tmp/times.txt | head -n 1",
        f"echo minutes=$((({ends[-1]} - {begin}) / 60)) > span.txt",
        "cat schedule.csv last.txt span.txt",
    ]


def _wasteful(commands: list[str], name: str) -> list[str]:
    return insert(
        commands,
        (1, "ls plan"),
        (1, "grep -h '^hours' plan/*.task > /tmp/hours.txt"),
        (2, "wc -l < /tmp/roots.txt"),
        (2, _alone("${begin%[+-]*}")),
        (2, "sort -k 3,3n /tmp/times.txt > schedule.csv"),
        (3, f"cat plan/{name}.task"),
        (4, "cat /tmp/hours.txt"),
    )


def _wrong(chain: list[Step]) -> list[str]:
    """Forgets the offsets from UTC."""
    return [
        "head -n 5 plan/*.task",
        ROOTS,
        _alone("${begin%[+-]*}"),
        *(
            f"end=$(grep '^{step.after} ' /tmp/times.txt | cut -d ' ' -f 3); "
            f'echo "{step.name} $((end + {step.pause} * 3600)) '
            f'$((end + {step.pause + step.hours} * 3600))" >> /tmp/times.txt'
            for step in chain[1:]
        ),
        SORTING,
        TABLE,
        SCHEDULE,
        'read -r name begin end <<< "$(sort -k 3,3n /tmp/times.txt | tail -n 1)"; '
        'echo "$name $(LC_ALL=C date -u -d "@$end" +%A)" > last.txt',
        "begin=$(sort -k 2,2n /tmp/times.txt | head -n 1 | cut -d ' ' -f 2); "
        'echo "minutes=$(((end - begin) / 60))" > span.txt',
    ]
