"""Text to CSV: logs of several servers, with lines that rotation wrote twice, into a summary."""

from __future__ import annotations

import random
from typing import Final, NamedTuple

from training.tasks.difficulty import Difficulty, distractors, task_name
from training.tasks.writing import TaskFiles, generator, insert

SERVICES: Final = ("auth", "billing", "catalog", "checkout", "mail", "search", "stock", "upload")

INSTRUCTION: Final = """\
# Summarise the request logs

The folder `/app/logs` holds the logs of a few servers. A line such as

    2024-03-05T10:12:33 request id=r8f31c2 service=billing status=200 bytes=5312

is one request. Other lines (they do not have the word `request` after the time) are notes and do
not count. Log rotation wrote some request lines twice, sometimes into two files: equal lines are
the same request, and every request counts once.

Write three files, each line ended by a newline, with nothing else in them:

1. `/app/summary.csv`: first the line `service,requests,failures,bytes`, then a line for each
   service that has requests, in byte order of its name: the name, how many requests it has, how
   many of them failed (status 500 or above), and the sum of their bytes.
2. `/app/top.txt`: one line, the name of the service with the most bytes, one space, its bytes.
3. `/app/count.txt`: one line `requests=N`, where N is how many requests there are in all.
"""

MORE: Final = """
And {count} more: `/app/rest-1.csv` is `/app/summary.csv` without the line of the service with the
most bytes. `/app/rest-2.csv` is made in the same way from `/app/rest-1.csv`, and so on up to
`/app/rest-{count}.csv`.
"""

HEADER: Final = "service,requests,failures,bytes\n"

CHECKS: Final = """\
check summary same /app/summary.csv /tests/summary.csv
check top same /app/top.txt /tests/top.txt
check count same /app/count.txt /tests/count.txt
"""


Row = tuple[str, int, int, int]
"""Service, requests, failures, bytes."""


class Request(NamedTuple):
    """One request; `line` is how the logs show it."""

    service: str
    status: int
    size: int
    line: str


def make(seed: int, difficulty: Difficulty) -> TaskFiles:
    """The task of a seed; a link of its chain is the table without its first, once more."""
    rng = generator("text_to_csv", seed)
    servers = [f"web-{number}" for number in rng.sample(range(10, 100), rng.randint(3, 5))]
    requests = _requests(rng, rng.sample(SERVICES, rng.randint(4, 6)), rng.randint(1010, 1300))
    logs = _logs(rng, servers, [request.line for request in requests])
    rows = _rows(requests)
    top, top_bytes = max(((row[0], row[3]) for row in rows), key=lambda pair: pair[1])

    table = [f"{name},{count},{failed},{size}\n" for name, count, failed, size in rows]
    rests = _rests(rows, difficulty.depth - 1)
    commands = _commands(servers[0], len(requests), top, top_bytes)
    commands[-1:-1] = _peeling(rows, difficulty.depth - 1)
    return TaskFiles(
        name=task_name("text_to_csv", seed, difficulty),
        description="Summarise logs with doubled lines as CSV",
        instruction=INSTRUCTION + (MORE.format(count=len(rests)) if rests else ""),
        files={f"logs/{name}.log": "".join(lines) for name, lines in logs.items()}
        | distractors("text_to_csv", seed, difficulty, _old_log),
        checks=CHECKS
        + "".join(f"check {name[:-4]} same /app/{name} /tests/{name}\n" for name in rests),
        expected={
            "summary.csv": HEADER + "".join(table),
            "top.txt": f"{top} {top_bytes}\n",
            "count.txt": f"requests={len(requests)}\n",
        }
        | rests,
        commands=commands,
        wasteful=_wasteful(commands, servers),
        wrong=_wrong(),
    )


def _requests(rng: random.Random, services: list[str], count: int) -> list[Request]:
    requests = []
    # The first few make sure that every service has one.
    for number in range(count):
        service = services[number] if number < len(services) else rng.choice(services)
        status = rng.choices((200, 204, 404, 500, 503), (70, 10, 10, 6, 4))[0]
        size = rng.randint(100, 9999)
        clock = f"{rng.randint(0, 23):02}:{rng.randint(0, 59):02}:{rng.randint(0, 59):02}"
        line = (
            f"2024-03-{rng.randint(1, 28):02}T{clock} request "
            f"id=r{number:x}{rng.getrandbits(16):04x} service={service} status={status} "
            f"bytes={size}\n"
        )
        requests.append(Request(service, status, size, line))
    return requests


def _logs(rng: random.Random, servers: list[str], lines: list[str]) -> dict[str, list[str]]:
    """The lines spread over the servers' files, some of them twice, with notes between."""
    logs: dict[str, list[str]] = {name: [] for name in servers}
    twice = rng.sample(lines, rng.randint(40, 80))
    for line in lines + twice:
        logs[rng.choice(servers)].append(line)
    for name, content in logs.items():
        for _ in range(rng.randint(3, 6)):
            note = rng.choice(
                ("rotate done", "warning: requests are slow bytes=1", "restart service=none")
            )
            content.append(f"2024-03-{rng.randint(1, 28):02}T00:00:00 {note} on {name}\n")
        rng.shuffle(content)
    return logs


def _old_log(rng: random.Random, number: int) -> tuple[str, str]:
    """A server's log of another year, in another folder."""
    lines = [
        f"2019-03-{rng.randint(1, 28):02}T10:00:{second:02} request id=r{rng.getrandbits(24):06x} "
        f"service={rng.choice(SERVICES)} status=200 bytes={rng.randint(100, 9999)}\n"
        for second in range(20)
    ]
    return f"logs-2019/web-{number + 10}.log", "".join(lines)


def _rests(rows: list[Row], count: int) -> dict[str, str]:
    """The tables without the services with the most bytes."""
    falling = sorted(rows, key=lambda row: -row[3])
    return {
        f"rest-{number}.csv": HEADER
        + "".join(f"{n},{c},{f},{b}\n" for n, c, f, b in sorted(falling[number:]))
        for number in range(1, count + 1)
    }


def _peeling(rows: list[Row], count: int) -> list[str]:
    """Making these tables, with the line to leave out as it was printed."""
    commands, source = [], "summary.csv"
    for number, row in enumerate(sorted(rows, key=lambda row: -row[3])[:count], 1):
        commands += [
            f"tail -n +2 {source} | sort -t , -k 4,4nr | head -n 1",
            f"grep -v '^{row[0]},{row[1]},{row[2]},{row[3]}$' {source} > rest-{number}.csv",
        ]
        source = f"rest-{number}.csv"
    return commands


def _rows(requests: list[Request]) -> list[Row]:
    """Name, requests, failures, bytes of each service."""
    rows = []
    for name in sorted({request.service for request in requests}):
        own = [request for request in requests if request.service == name]
        failed = sum(request.status >= 500 for request in own)
        rows.append((name, len(own), failed, sum(request.size for request in own)))
    return rows


def _summing(source: str, target: str) -> str:
    """The command that sums request lines up, a row a service."""
    return (
        'awk \'{ split($4, s, "="); split($5, c, "="); split($6, b, "="); n[s[2]]++; '
        "f[s[2]] += (c[2] >= 500); t[s[2]] += b[2] } "
        'END { for (k in n) printf "%s,%d,%d,%d\\n", k, n[k], f[k], t[k] }\' '
        f"{source} | LC_ALL=C sort > {target}"
    )


def _commands(server: str, count: int, top: str, top_bytes: int) -> list[str]:
    return [
        "ls logs",
        f"head -n 4 logs/{server}.log",
        "cat logs/*.log | awk '$2 == \"request\"' | LC_ALL=C sort -u > /tmp/requests.txt",
        "wc -l < /tmp/requests.txt",
        _summing("/tmp/requests.txt", "/tmp/rows.csv"),
        "{ echo service,requests,failures,bytes; cat /tmp/rows.csv; } > summary.csv",
        "sort -t , -k 4,4nr /tmp/rows.csv | head -n 1 | cut -d , -f 1,4",
        f"echo '{top} {top_bytes}' > top.txt",
        f"echo requests={count} > count.txt",
        "head summary.csv top.txt count.txt",
    ]


def _wasteful(commands: list[str], servers: list[str]) -> list[str]:
    return insert(
        commands,
        (1, "wc -c logs/*.log"),
        (2, f"tail -n 2 logs/{servers[-1]}.log"),
        (2, "grep -c status=404 logs/*.log > /tmp/not-found.txt"),
        (3, _summing("logs/*.log", "summary.csv")),
        (3, "cat summary.csv"),
        (7, "cut -d , -f 1 /tmp/rows.csv > /tmp/names.txt"),
        (9, "cat /tmp/not-found.txt"),
    )


def _wrong() -> list[str]:
    """Counts the lines that were written twice as often as they stand there."""
    return [
        "head -n 2 logs/*.log",
        "cat logs/*.log | grep ' request ' > /tmp/requests.txt",
        _summing("/tmp/requests.txt", "/tmp/rows.csv"),
        "{ echo service,requests,failures,bytes; cat /tmp/rows.csv; } > summary.csv",
        "sort -t , -k 4,4nr /tmp/rows.csv | head -n 1 | awk -F , '{ print $1, $4 }' > top.txt",
        'echo "requests=$(wc -l < /tmp/requests.txt)" > count.txt',
    ]
