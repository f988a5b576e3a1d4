"""A process to stop: some of several like ones do harm, and what they hold must not be lost."""

from __future__ import annotations

import random
from typing import Final, NamedTuple

from training.tasks.difficulty import Difficulty, distractors, task_name
from training.tasks.writing import TaskFiles, generator, insert

INSTRUCTION: Final = """\
# Stop the worker that does harm

`bash /app/start.sh` starts the workers that `/app/workers.tsv` lists, a process each; it has not
run yet. A worker takes its jobs from `/app/queue/NAME.txt` into its memory and removes that file,
so it can be started only once. It writes its process id to `/app/run/NAME.pid`, tells in
`/app/run/NAME.log` what it does, and answers on its TCP port of 127.0.0.1. When it gets SIGTERM it
writes what it holds to `/app/handover/NAME.txt` and ends; killed in another way, it loses it.

1. Start the workers.
2. Exactly one of them says in its log that it has `lost` a job. Stop that one, so that it hands its
   jobs over. (Others complain about jobs, too, but have lost none.)
3. If a handover file has a line `stop NAME`, that worker must be stopped as well, and so on.
   All others must go on running, with the jobs they hold.
4. Write `/app/stopped.txt`: the names of the workers that you stopped, one a line, in the order in
   which one led to the next.
5. Write `/app/units.txt`: one line `units=N`, the sum of the units of all jobs (lines `ID units N`)
   that were handed over.
"""

CHECKS: Final = """\
trap '' PIPE

# state PORT: what the worker there says it is and holds.
state() {
  local answer status=1
  { exec 3<> "/dev/tcp/127.0.0.1/$1"; } 2> /dev/null || return
  printf 'state\\n' >&3
  IFS= read -r -t 5 -u 3 answer && status=0
  exec 3>&-
  printf '%s' "$answer"
  return "$status"
}

running() {
  local name port held
  while read -r name port held; do
    [ "$(state "$port")" = "$name $held" ] || return
  done < /tests/running.txt
}

stopped() {
  local name port
  while read -r name port; do
    ! { exec 3<> "/dev/tcp/127.0.0.1/$port"; } 2> /dev/null || return
  done < /tests/ended.txt
}

handover() {
  local name port
  while read -r name port; do
    same "/app/handover/$name.txt" "/tests/handover/$name.txt" || return
  done < /tests/ended.txt
}

check stopped stopped
check running running
check handover handover
check order same /app/stopped.txt /tests/stopped.txt
check units same /app/units.txt /tests/units.txt
"""

START: Final = """\
#!/bin/bash
# Starts every worker of workers.tsv (its name, a tab, its port) and waits until all are there.
cd /app || exit
mkdir -p run handover
while read -r name port; do
  setsid perl worker.pl "$name" "$port" >> "run/$name.log" 2>&1 < /dev/null &
done < workers.tsv
while read -r name port; do
  for _ in {1..200}; do [ -s "run/$name.pid" ] && break; sleep 0.05; done
done < workers.tsv
"""

WORKER: Final = """\
use strict;
use warnings;
use IO::Socket::INET;

my ($name, $port) = @ARGV;
$| = 1;
open(my $queue, '<', "queue/$name.txt") or die "$name: no jobs: $!\\n";
my @jobs = <$queue>;
close $queue;
my $server = IO::Socket::INET->new(
    LocalAddr => '127.0.0.1', LocalPort => $port, Listen => 16, ReuseAddr => 1,
) or die "$name: port $port: $!\\n";
unlink "queue/$name.txt";
my $held = grep { / units / } @jobs;
print "$name took $held jobs\\n";
for (@jobs) {
    print "$name: job $1 was late, done at the second try\\n" if /^(\\S+) units \\d+ late/;
    print "$name: job $1 was lost, its units are kept\\n" if /^(\\S+) units \\d+ lost/;
}

# Written aside and renamed, so that whoever waits for a file finds a whole one.
sub put {
    my ($path, @lines) = @_;
    open(my $out, '>', "$path.new") or die "$path: $!\\n";
    print $out @lines;
    close $out;
    rename "$path.new", $path;
}

$SIG{PIPE} = 'IGNORE';
$SIG{TERM} = sub { put("handover/$name.txt", @jobs); exit 0 };
put("run/$name.pid", "$$\\n");
while (1) {
    my $client = $server->accept or next;
    my $line = <$client>;
    print $client "$name $held\\n" if defined $line;
    close $client;
}
"""


class Worker(NamedTuple):
    """A worker; `queue` is what it takes, units of its jobs included."""

    name: str
    port: int
    queue: list[str]
    units: int


def make(seed: int, difficulty: Difficulty) -> TaskFiles:
    """The task of a seed; a link of its chain is a worker that another one names."""
    rng = generator("stop_process", seed)
    workers = _workers(rng, difficulty.depth)
    ended, running = workers[: difficulty.depth], workers[difficulty.depth :]
    units = sum(worker.units for worker in ended)
    listed = sorted(workers)
    commands = _commands(ended, units)
    return TaskFiles(
        name=task_name("stop_process", seed, difficulty),
        description="Stop those of several processes that do harm, and no others",
        instruction=INSTRUCTION,
        files={f"queue/{worker.name}.txt": "".join(worker.queue) for worker in listed}
        | {"workers.tsv": "".join(f"{worker.name}\t{worker.port}\n" for worker in listed)}
        | {"start.sh": START, "worker.pl": WORKER}
        | distractors("stop_process", seed, difficulty, _old_log),
        checks=CHECKS,
        expected={f"handover/{worker.name}.txt": "".join(worker.queue) for worker in ended}
        | {
            "running.txt": "".join(f"{w.name} {w.port} {_held(w)}\n" for w in sorted(running)),
            "ended.txt": "".join(f"{worker.name} {worker.port}\n" for worker in ended),
            "stopped.txt": "".join(f"{worker.name}\n" for worker in ended),
            "units.txt": f"units={units}\n",
        },
        commands=commands,
        wasteful=_wasteful(commands, running[0]),
        wrong=_wrong(),
    )


def _workers(rng: random.Random, depth: int) -> list[Worker]:
    """Those to stop, in order, then the others, of which at least two had a late job."""
    count = rng.randint(8, 9)
    names = [f"w{number}" for number in rng.sample(range(1000, 10_000), count)]
    ports = rng.sample(range(2000, 30_000), count)
    workers = []
    for number, (name, port) in enumerate(zip(names, ports, strict=True)):
        jobs = [
            (f"j{job}", rng.randint(100, 999))
            for job in rng.sample(range(1000, 10_000), 5 + number)
        ]
        queue = [f"{job} units {units}\n" for job, units in jobs]
        remark = "lost" if number == 0 else "late"
        place = rng.randrange(len(queue))
        if number in (0, count - 1, count - 2):
            queue[place] = queue[place].replace("\n", f" {remark}\n")
        if number < depth - 1:
            queue.append(f"stop {names[number + 1]}\n")
        workers.append(Worker(name, port, queue, sum(units for _, units in jobs)))
    return workers


def _held(worker: Worker) -> int:
    return sum(" units " in line for line in worker.queue)


def _old_log(rng: random.Random, number: int) -> tuple[str, str]:
    """What a worker of another day said."""
    name = f"w{rng.randint(1000, 9999)}"
    text = (
        f"{name} took 7 jobs\n{name}: job j{rng.randint(1000, 9999)} was lost, its units are kept\n"
    )
    return f"run.old/{name}-{number}.log", text


def _stopping(name: str) -> list[str]:
    """Ends a worker and waits for what it hands over."""
    return [
        f'name={name}; kill "$(cat "run/$name.pid")"; '
        'for i in {1..200}; do [ -s "handover/$name.txt" ] && break; sleep 0.05; done',
        f"cat handover/{name}.txt",
    ]


SUM: Final = 'awk \'$2 == "units" { n += $3 } END { print "units=" n }\' handover/*.txt'


def _commands(ended: list[Worker], units: int) -> list[str]:
    return [
        "cat start.sh",
        "bash start.sh",
        "grep -h ' was ' run/*.log",
        *(command for worker in ended for command in _stopping(worker.name)),
        "printf '%s\\n' " + " ".join(worker.name for worker in ended) + " > stopped.txt",
        SUM,
        f"echo units={units} > units.txt",
        "cat stopped.txt units.txt",
    ]


def _wasteful(commands: list[str], other: Worker) -> list[str]:
    return insert(
        commands,
        (1, "head -n 30 worker.pl"),
        (1, "wc -l queue/*.txt > /tmp/jobs.txt"),
        (2, f"cat run/{other.name}.log"),
        (2, "ls run > stopped.txt"),
        (3, f"exec 3<> /dev/tcp/127.0.0.1/{other.port}; echo state >&3; cat <&3; exec 3>&-"),
        (5, "cut -d ' ' -f 3 handover/*.txt > /tmp/units.txt"),
        (5, "cat /tmp/jobs.txt"),
    )


def _wrong() -> list[str]:
    """Stops every worker that complains about a job."""
    return [
        "bash start.sh",
        "grep -l 'job j' run/*.log | sed 's,run/,,; s,[.]log,,' > stopped.txt",
        'while read -r name; do kill "$(cat "run/$name.pid")"; done < stopped.txt; '
        "for i in {1..200}; do "
        '[ "$(ls handover/*.txt | wc -l)" = "$(wc -l < stopped.txt)" ] && break; sleep 0.05; done',
        f"{SUM} > units.txt",
    ]
