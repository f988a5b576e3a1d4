"""Log summary: errors of logs whose entries have several lines, and what caused the first one."""

from __future__ import annotations

import random
from itertools import pairwise
from typing import Final, NamedTuple

from training.tasks.difficulty import Difficulty, distractors, task_name
from training.tasks.stored import gzip_stored
from training.tasks.writing import TaskFiles, generator, insert, words

PARTS: Final = words(
    "api_gate cart_sync disk_pool feed_pump lock_keeper mail_relay pay_core rate_guard stock_view "
    "token_mint"
)
HEADER: Final = "component,errors,first\n"

INSTRUCTION: Final = """\
# Summarise an application's errors

The folder `/app/logs` holds a log for each day; those of the earlier days are packed with gzip. An
entry begins with a line such as

    2024-05-03T10:12:33Z ERROR some_component req=q1234x connection lost

(time in UTC, level, component, request, message). The lines after it that begin with a space belong
to it, too. Only the level makes an entry an error: the word ERROR may also stand in messages.

Write three files, each line ended by a newline:

1. `/app/errors.csv`: first the line `component,errors,first`, then a line for each component that
   has errors, in byte order of its name: the name, how many error entries it has, and the time of
   the earliest of them.
2. `/app/worst.txt`: one line, the component with the most errors.
3. `/app/cause.txt`: one line, a request and the component of its entry, with one space between.
   Begin with the earliest error of that worst component. A line ` caused by REQUEST` in an entry
   names the request of another entry (each entry has a request of its own): go there,
   {hops}, and write down where you arrive.
"""

CHECKS: Final = """\
check errors same /app/errors.csv /tests/errors.csv
check worst same /app/worst.txt /tests/worst.txt
check cause same /app/cause.txt /tests/cause.txt
"""


class Entry(NamedTuple):
    """One entry of a log."""

    time: str
    level: str
    part: str
    request: str
    message: str


def make(seed: int, difficulty: Difficulty) -> TaskFiles:
    """The task of a seed; a link of its chain is the cause of an entry."""
    rng = generator("log_summary", seed)
    parts = rng.sample(PARTS, rng.randint(5, 7))
    entries = _entries(rng, parts, rng.randint(260, 340))
    errors = [entry for entry in entries if entry.level == "ERROR"]
    worst = parts[0]
    first = next(entry for entry in errors if entry.part == worst)
    causes = _causes(rng, entries, first)
    chain = _chain(entries, causes, first, difficulty.depth)

    rows = {
        part: (len(own), own[0].time)
        for part in sorted(parts)
        if (own := [entry for entry in errors if entry.part == part])
    }
    hops = "once" if difficulty.depth == 1 else f"{difficulty.depth} times"
    commands = _commands(rows[worst], chain)
    return TaskFiles(
        name=task_name("log_summary", seed, difficulty),
        description="Count errors in packed logs and follow one to its cause",
        instruction=INSTRUCTION.format(hops=hops),
        files=_logs(entries, causes) | distractors("log_summary", seed, difficulty, _old_log),
        checks=CHECKS,
        expected={
            "errors.csv": HEADER + "".join(f"{p},{n},{time}\n" for p, (n, time) in rows.items()),
            "worst.txt": f"{worst}\n",
            "cause.txt": f"{chain[-1].request} {chain[-1].part}\n",
        },
        commands=commands,
        wasteful=_wasteful(commands, parts[1]),
        wrong=_wrong(),
    )


def _entries(rng: random.Random, parts: list[str], count: int) -> list[Entry]:
    """Entries in order of time. The first part has the most errors, the second most mentions."""
    seconds = sorted(rng.sample(range(5 * 86_400), count))
    numbers = rng.sample(range(1000, 10_000), count)
    # Kinds: of the first parts a fixed number, of the others few enough.
    kinds = [(parts[0], "ERROR")] * 16 + [(parts[1], "ERROR")] * 11
    kinds += [(part, "ERROR") for part in parts[2:] for _ in range(rng.randint(2, 9))]
    kinds += [(parts[1], "MENTION")] * 20
    kinds += [(rng.choice(parts), rng.choice(("INFO", "WARN"))) for _ in range(count - len(kinds))]
    rng.shuffle(kinds)
    entries = []
    for second, number, (part, kind) in zip(seconds, numbers, kinds, strict=True):
        day, rest = divmod(second, 86_400)
        clock = f"{rest // 3600:02}:{rest // 60 % 60:02}:{rest % 60:02}"
        level = "INFO" if kind == "MENTION" else kind
        message = {
            "MENTION": "recovered from the last ERROR of its peer",
            "ERROR": "gave up",
            "WARN": "slow answer",
            "INFO": "done",
        }[kind]
        request = f"q{number}{rng.choice('bdfhkmx')}"
        entries.append(Entry(f"2024-05-0{day + 1}T{clock}Z", level, part, request, message))
    return entries


def _causes(rng: random.Random, entries: list[Entry], first: Entry) -> dict[str, str]:
    """From a request to the one that caused it; from the first entry on it never comes back."""
    others = [entry.request for entry in entries if entry != first]
    rng.shuffle(others)
    path = [first.request, *others]
    # Beyond the longest chain there are some causes, too, so that its end does not show.
    causes = dict(pairwise(path[:13]))
    return causes | {key: rng.choice(path) for key in path[13:60]}


def _chain(entries: list[Entry], causes: dict[str, str], first: Entry, depth: int) -> list[Entry]:
    by_request = {entry.request: entry for entry in entries}
    chain = [first]
    for _ in range(depth):
        chain.append(by_request[causes[chain[-1].request]])
    return chain


def _text(entry: Entry, cause: str | None) -> str:
    text = f"{entry.time} {entry.level} {entry.part} req={entry.request} {entry.message}\n"
    if entry.level != "INFO":
        text += f"   at {entry.part} ERROR handler\n"
    return text if cause is None else f"{text} caused by {cause}\n"


def _logs(entries: list[Entry], causes: dict[str, str]) -> dict[str, str | bytes]:
    """A file a day, those of the first three packed."""
    days: dict[str, str] = {f"2024-05-0{day}": "" for day in range(1, 6)}
    for entry in entries:
        days[entry.time[:10]] += _text(entry, causes.get(entry.request))
    files: dict[str, str | bytes] = {}
    for number, (day, text) in enumerate(days.items()):
        packed = number < 3
        files[f"logs/app-{day}.log{'.gz' * packed}"] = (
            gzip_stored(text.encode()) if packed else text
        )
    return files


def _old_log(rng: random.Random, number: int) -> tuple[str, str]:
    """A log of another year, in another folder."""
    entries = _entries(rng, list(PARTS[:5]), 120)[:12]
    text = "".join(_text(entry, None) for entry in entries).replace("2024-05", "2019-05")
    return f"logs-2019/app-{number + 1:02}.log", text


TABLE: Final = "{ echo component,errors,first; cat /tmp/rows.csv; } > errors.csv"
WORST: Final = "sort -t , -k 2,2nr /tmp/rows.csv | head -n 1"


def _counting(source: str, target: str) -> str:
    """The command that writes a row a component: name, entries, earliest time."""
    return (
        "awk '{ n[$3]++; if (!($3 in t) || $1 < t[$3]) t[$3] = $1 } "
        'END { for (k in n) printf "%s,%d,%s\\n", k, n[k], t[k] }\' '
        f"{source} | LC_ALL=C sort > {target}"
    )


def _entry(request: str) -> str:
    """The command that prints an entry."""
    return f"sed -n '/ req={request} /,/^[^ ].* req=[^ ]* /p' /tmp/all.log | head -n 4"


def _commands(worst: tuple[int, str], chain: list[Entry]) -> list[str]:
    first, last = chain[0], chain[-1]
    return [
        "ls logs",
        "zcat -f logs/* > /tmp/all.log",
        "wc -l /tmp/all.log",
        "awk '!/^ / && $2 == \"ERROR\"' /tmp/all.log > /tmp/errors.txt",
        _counting("/tmp/errors.txt", "/tmp/rows.csv"),
        TABLE,
        WORST,
        f"echo {first.part} > worst.txt",
        f"grep -A 3 '^{worst[1]} ERROR {first.part} ' /tmp/all.log",
        *(_entry(entry.request) for entry in chain[1:]),
        f"echo '{last.request} {last.part}' > cause.txt",
        "head errors.csv worst.txt cause.txt",
    ]


def _wasteful(commands: list[str], part: str) -> list[str]:
    return insert(
        commands,
        (1, "ls -l logs > /tmp/sizes.txt"),
        (2, "head -n 12 /tmp/all.log"),
        (3, "grep ERROR /tmp/all.log > /tmp/mentions.txt"),
        (3, _counting("/tmp/mentions.txt", "/tmp/guess.csv")),
        (3, "cp /tmp/guess.csv errors.csv"),
        (5, f"grep -c {part} /tmp/errors.txt"),
        (8, "sort /tmp/rows.csv | tail -n 1 | cut -d , -f 1 > cause.txt"),
    )


def _wrong() -> list[str]:
    """Takes every line that has the word ERROR."""
    return [
        "ls logs",
        "zcat -f logs/* | grep ' ERROR ' > /tmp/errors.txt",
        _counting("/tmp/errors.txt", "/tmp/rows.csv"),
        TABLE,
        f"{WORST} | cut -d , -f 1 > worst.txt",
        'grep -m 1 " $(cat worst.txt) req=" /tmp/errors.txt '
        "| sed 's/.* \\([^ ]*\\) req=\\([^ ]*\\) .*/\\2 \\1/' > cause.txt",
    ]
