"""Local server: totals of a few tables, to be asked for over a TCP port."""

from __future__ import annotations

import random
from typing import Final

from training.tasks.difficulty import TRAIL, Difficulty, Trail, distractors, task_name, trail
from training.tasks.writing import TaskFiles, generator, insert, words

ITEMS: Final = words(
    "anvil basket candle drill easel funnel goblet hammer inkwell jug kettle ladder magnet needle "
    "oar pencil quilt rope saddle teapot"
)

INSTRUCTION: Final = """\
# Serve stock movements over a port

Each file `/app/data/*.tsv` is a table of stock movements: lines of three columns, separated by one
tab: an item, `in` or `out`, and a number of units. Lines that begin with `#` are comments. The
stock of an item is the sum of its `in` units minus the sum of its `out` units, over all files.

1. Write `/app/totals.tsv`: a line for each item, in byte order of the items: the item, one tab, its
   stock.
2. Start a server that listens on 127.0.0.1, on the TCP port that `/app/server.conf` gives, and
   leave it running. To each connection it answers one request: the client sends an item and a
   newline, the server sends the item's stock (or the word `unknown` for an item that is in no
   table) and a newline, and closes the connection. It must go on answering, whatever a client does.

Python may be missing here; bash, coreutils, awk and perl (with IO::Socket::INET) are there.
"""

CHECKS: Final = """\
trap '' PIPE
read -r port < /tests/port.txt

# ask ITEM ANSWER: whether a new connection gives the answer.
ask() {
  local answer status=1
  { exec 3<> "/dev/tcp/127.0.0.1/$port"; } 2> /dev/null || return
  printf '%s\\n' "$1" >&3
  IFS= read -r -t 5 -u 3 answer && [ "$answer" = "$2" ] && status=0
  exec 3>&-
  return "$status"
}

answers() {
  local item stock
  while read -r item stock; do ask "$item" "$stock" || return; done < /tests/totals.tsv
}

check totals same /app/totals.tsv /tests/totals.tsv
check answers answers
check unknown_item ask no-such-item unknown
check answers_again answers
"""

SERVER: Final = """\
use strict;
use warnings;
use IO::Socket::INET;

my ($port, $table) = @ARGV;
open(my $rows, '<', $table) or die "$table: $!";
my %stock = map { chomp; split /\\t/ } <$rows>;
$SIG{PIPE} = 'IGNORE';
my $server = IO::Socket::INET->new(
    LocalAddr => '127.0.0.1', LocalPort => $port, Listen => 16, ReuseAddr => 1,
) or die "port $port: $!";
while (1) {
    my $client = $server->accept or next;
    my $item = <$client>;
    if (defined $item) {
        $item =~ s/\\r?\\n\\z//;
        print $client ($stock{$item} // 'unknown'), "\\n";
    }
    close $client;
}
"""

Row = tuple[str, str, int]


def make(seed: int, difficulty: Difficulty) -> TaskFiles:
    """The task of a seed; a link of its chain is a setting that another file has."""
    rng = generator("local_server", seed)
    port = rng.randint(2000, 29999)
    items = sorted(rng.sample(ITEMS, rng.randint(5, 8)))
    tables = _tables(rng, items)
    stock = dict.fromkeys(items, 0)
    for rows in tables.values():
        for item, way, units in rows:
            stock[item] += units if way == "in" else -units

    totals = "".join(f"{item}\t{stock[item]}\n" for item in items)
    settings = trail(
        "local_server",
        seed,
        difficulty,
        "server.conf",
        f"# where the server listens\nport = {port}\n",
    )
    commands = _commands(settings, port, items[0], next(iter(tables)))
    return TaskFiles(
        name=task_name("local_server", seed, difficulty),
        description="Serve the totals of a few tables over a TCP port",
        instruction=INSTRUCTION + (TRAIL if difficulty.depth > 1 else ""),
        files={name: _text(rows) for name, rows in tables.items()}
        | settings.files
        | distractors("local_server", seed, difficulty, _old_table),
        checks=CHECKS,
        expected={"totals.tsv": totals, "port.txt": f"{port}\n"},
        commands=commands,
        wasteful=_wasteful(commands, items[-1], difficulty.depth - 1),
        wrong=_wrong(settings, port),
    )


def _tables(rng: random.Random, items: list[str]) -> dict[str, list[Row]]:
    """Three to five tables; each item has at least one movement in and one out."""
    rows: list[Row] = [(item, "in", rng.randint(900, 1999)) for item in items]
    rows += [(item, "out", rng.randint(1, 99)) for item in items]
    rows += [
        (rng.choice(items), rng.choice(("in", "out")), rng.randint(1, 99))
        for _ in range(rng.randint(40, 90))
    ]
    rng.shuffle(rows)
    names = [
        f"data/day-{day:02}.tsv" for day in sorted(rng.sample(range(1, 29), rng.randint(3, 5)))
    ]
    return {name: rows[place :: len(names)] for place, name in enumerate(names)}


def _text(rows: list[Row]) -> str:
    return "# item\tin or out\tunits\n" + "".join(f"{i}\t{way}\t{n}\n" for i, way, n in rows)


def _old_table(rng: random.Random, number: int) -> tuple[str, str]:
    """A table of another year, in another folder."""
    rows = [(rng.choice(ITEMS), rng.choice(("in", "out")), rng.randint(1, 99)) for _ in range(12)]
    return f"data-2019/day-{number + 1:02}.tsv", _text(rows)


def _summing(units: str, source: str, target: str) -> str:
    """The command that sums an awk expression up over the rows of each item."""
    return (
        f"awk -F '\\t' '{{ n[$1] += {units} }} "
        f'END {{ for (i in n) printf "%s\\t%d\\n", i, n[i] }}\' {source} '
        f"| LC_ALL=C sort > {target}"
    )


def _started(port: int) -> list[str]:
    """Starting the server, and waiting until it answers."""
    return [
        f"cat > server.pl << 'END'\n{SERVER}END",
        f"nohup perl server.pl {port} totals.tsv > server.log 2>&1 < /dev/null &",
        f"for i in {{1..100}}; do (exec 3<> /dev/tcp/127.0.0.1/{port}) 2> /dev/null && break; "
        "sleep 0.05; done",
    ]


def _asking(port: int, item: str) -> str:
    return (
        f"exec 3<> /dev/tcp/127.0.0.1/{port}; echo {item} >&3; timeout 5 cat <&3; exec 3>&-; "
        f"grep {item} totals.tsv"
    )


def _commands(settings: Trail, port: int, item: str, table: str) -> list[str]:
    return [
        *settings.commands,
        f"head -n 5 {table}",
        "cat data/*.tsv | grep -v '^#' > /tmp/rows.tsv",
        _summing('($2 == "in") ? $3 : -$3', "/tmp/rows.tsv", "totals.tsv"),
        "cat totals.tsv",
        *_started(port),
        _asking(port, item),
    ]


def _wasteful(commands: list[str], item: str, more: int) -> list[str]:
    return insert(
        commands,
        (1, "ls /usr/bin/perl /usr/bin/awk"),
        (more + 2, "wc -l data/*.tsv > /tmp/lines.txt"),
        (more + 3, _summing("$3", "data/*.tsv", "totals.tsv")),
        (more + 3, f"grep {item} totals.tsv"),
        (more + 5, "cut -f 1 totals.tsv > /tmp/items.txt"),
        (more + 6, "perl -c server.pl"),
        (more + 8, "cat server.log /tmp/lines.txt"),
    )


def _wrong(settings: Trail, port: int) -> list[str]:
    """Adds what went out instead of taking it away."""
    return [
        *settings.commands,
        "cat data/*.tsv | grep -v '^#' > /tmp/rows.tsv",
        _summing("$3", "/tmp/rows.tsv", "totals.tsv"),
        *_started(port),
    ]
