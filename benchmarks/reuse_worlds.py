"""Folders full of known values, and what real commands print about them.

Each half of the corpus has its own files, its own commands and its own seeds, so that what was
tuned on one half is measured on another. Nothing printed depends on the machine: no owners, no
clocks, no paths outside the folder.
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import tempfile
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Literal

Half = Literal["development", "held-out"]
HALVES: Final[tuple[Half, ...]] = ("development", "held-out")


def _words(text: str) -> list[str]:
    return text.split()


NOUNS: Final = {
    "development": _words("""
        payroll orchard lantern harvest kettle meadow pigeon quarry ribbon saddle thistle walnut
        anchor barley candle dagger ember falcon garnet hammer indigo juniper kernel lagoon magnet
        nectar oyster pebble rocket sparrow timber umbrella velvet willow zephyr beacon canyon
        drizzle engine fiddle glacier hollow island jigsaw ladder marble needle outlaw parcel
    """),
    "held-out": _words("""
        invoice cobbler tanager bramble cinnamon dolphin eclipse feather goblet hazelnut ivory
        jasmine kingdom lobster monsoon nutmeg obelisk paprika quiver raccoon sapphire tulip
        vineyard whisper almanac bonfire cascade driftwood evergreen fortress gondola harpoon
        inkwell jubilee knapsack limestone mandolin narwhal origami parsley quartz redwood sandbar
        tapestry upland violet windmill yarrow acorn bassoon
    """),
}
"""Ordinary words, none of them in the other half, of which all names are made."""

_DATE: Final = "2031-04-05T06:07:08Z"
_ENVIRONMENT: Final = {
    "PATH": os.defpath + os.pathsep + "/usr/local/bin",
    "LC_ALL": "C",
    "TZ": "UTC",
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_CONFIG_NOSYSTEM": "1",
    **{f"GIT_{who}_{what}": text for who in ("AUTHOR", "COMMITTER") for what, text in
       (("NAME", "A"), ("EMAIL", "a@b.test"), ("DATE", _DATE))},
}  # fmt: skip


@dataclass(frozen=True)
class Value:
    """One value of an output.

    Attributes:
        kind: what it is: integer, decimal, short, id, hash, file, path, name, date, address, ...
        text: as printed.
        command: the number of the command that printed it first.
    """

    kind: str
    text: str
    command: int


@dataclass
class World:
    """A folder, the commands that ran in it, and the values that they printed."""

    half: Half
    seed: int
    commands: list[tuple[str, str]] = field(default_factory=list)
    values: list[Value] = field(default_factory=list)

    def of_kind(self, *kinds: str) -> list[Value]:
        return [value for value in self.values if value.kind in kinds]


class Maker:
    """Writes a world's files and runs its commands."""

    def __init__(self, half: Half, seed: int, folder: Path) -> None:
        self.world = World(half, seed)
        self.folder = folder
        self.random = random.Random(f"{half}/{seed}")
        self._words = self.random.sample(NOUNS[half], len(NOUNS[half]))

    def word(self) -> str:
        """An ordinary word that is new in this world."""
        return self._words.pop()

    def integer(self, digits: int) -> int:
        """A number whose last digit is not 0 and that is no year."""
        while True:
            number = self.random.randrange(10 ** (digits - 1) + 1, 10**digits)
            if number % 10 and not 1900 <= number < 2100:
                return number

    def code(self) -> str:
        letters = "".join(self.random.choices("ABCDEFGHKLMNPQRSTUVWXYZ", k=2))
        return f"{letters}-{self.integer(5)}-{self.random.choice('JKQX')}{self.integer(2)}"

    def day(self) -> str:
        return (
            f"20{self.integer(2)}-{self.random.randrange(1, 13):02}-{self.integer(2) % 28 + 1:02}"
        )

    def address(self) -> str:
        return "10." + ".".join(str(self.random.randrange(11, 250)) for _ in range(3))

    def uuid(self) -> str:
        return str(uuid.UUID(int=self.random.getrandbits(128), version=4))

    def write(self, name: str, text: str | bytes) -> None:
        file = self.folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(text if isinstance(text, bytes) else text.encode())

    def run(self, text: str, **values: list[str] | str) -> None:
        """Runs a command and notes those of its values that it has printed as promised."""
        python = text.replace("python3 ", f"{sys.executable} ", 1)
        output = subprocess.run(
            ["bash", "-c", python if text.startswith("python3 ") else text],
            cwd=self.folder,
            env=_ENVIRONMENT,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            check=True,
        ).stdout.decode()
        number = len(self.world.commands)
        self.world.commands.append((text, output))
        earlier = {value.text for value in self.world.values}
        for kind, found in values.items():
            for value in [found] if isinstance(found, str) else found:
                if value not in output:
                    raise ValueError(
                        f"world {self.world.half}/{self.world.seed}: found no {value!r} in what "
                        f"{text!r} printed. Allowed: values that a command prints. "
                        "Correct the template."
                    )
                if value not in earlier:
                    self.world.values.append(Value(kind, value, number))

    def output(self) -> str:
        return self.world.commands[-1][1]


def make_world(half: Half, seed: int) -> World:
    """One world, the same on every machine."""
    with tempfile.TemporaryDirectory(prefix="reuse-") as folder:
        maker = Maker(half, seed, Path(folder))
        _MAKERS[half](maker)
        return maker.world


def _development(m: Maker) -> None:
    files = [f"{m.word()}-{m.integer(2)}.csv", f"{m.word()}.json", f"{m.word()}_{m.word()}.log"]
    for name in files:
        m.write(f"inbox/{name}", "x" * m.integer(5))
    m.run("ls -1 inbox", file=files)

    prices = [m.integer(4) for _ in range(7)]
    clients = [m.word() for _ in prices]
    rows = [f"{client},{m.code()},{price}" for client, price in zip(clients, prices, strict=True)]
    m.write("orders.csv", "\n".join(["client,code,price", *rows]) + "\n")
    m.run(
        "awk -F, 'NR > 1 {s += $3} END {print s}' orders.csv",
        integer=str(sum(prices)),
    )
    codes, days, hosts = ([make() for _ in range(3)] for make in (m.code, m.day, m.address))
    log = [
        f"{day} 07:{m.integer(2) % 60:02}:11 ERROR {host} {code} refused"
        for code, day, host in zip(codes, days, hosts, strict=True)
    ]
    noise = [f"{m.day()} 08:00:00 INFO worker {k} idle" for k in range(m.integer(2))]
    m.write("app.log", "\n".join([*noise, *log]) + "\n")
    m.run("grep ERROR app.log", id=codes, date=days, ip=hosts)
    m.run("sha256sum inbox/*")
    hashes = [line.split()[0] for line in m.output().splitlines()]
    m.world.values += [Value("hash", value, 3) for value in hashes]

    version = f"{m.integer(1)}.{m.integer(2)}.{m.integer(2)}"
    ident = m.uuid()
    m.write("build.env", f"BUILD_CODE={(code := m.code())}\nVERSION={version}\nNODE={ident}\n")
    m.run("cat build.env", id=code, version=version, uuid=ident)
    m.run("stat -c '%s %n' inbox/*")
    m.world.values += [Value("integer", s.split()[0], 5) for s in m.output().splitlines()]
    m.run("grep -c INFO app.log", short=str(len(noise)))

    m.write("metrics.tsv", "".join(f"{k}\t{m.integer(6) / 10**4}\n" for k in range(9)))
    m.run("awk '{s += $2} END {printf \"mean %.6f\\n\", s / NR}' metrics.tsv")
    m.world.values.append(Value("decimal", m.output().split()[1], 7))
    offset = m.integer(7)
    m.write("offset.txt", f"{offset}\n")
    m.run("python3 -c \"print(hex(int(open('offset.txt').read())))\"", address=hex(offset))
    teams = [m.word() for _ in range(4)]
    for team in teams:
        m.write(f"teams/{team}/notes", "")
    m.run("ls -1 teams", name=teams)
    functions = [f"{m.word()}_{m.word()}" for _ in range(3)]
    m.write("tool.py", "".join(f"def {name}(path):\n    return path\n" for name in functions))
    m.run("grep -n 'def ' tool.py", identifier=functions)
    m.run("cut -d, -f1 orders.csv | sort | uniq -c", name=clients)
    sizes = [f"{m.integer(4)}kB", f"{m.integer(4)}ms", f"{m.integer(5)} rows"]
    m.write("bench.txt", "".join(f"case {k}: {size}\n" for k, size in enumerate(sizes)))
    m.run("cat bench.txt", unit=sizes[:2], integer=sizes[2].split()[0])
    paths = [f"vault/{m.word()}/{m.word()}.pem", f"vault/{m.word()}{m.integer(2)}.xml"]
    for path in paths:
        m.write(path, "")
    m.run("find vault -type f | sort", path=paths)
    grouped = f"{m.integer(7):,}"
    m.write("totals.txt", f"all items  {grouped}\nopen  {m.integer(2)}\n")
    m.run("head -n 2 totals.txt", grouped=grouped)


def _held_out(m: Maker) -> None:
    paths = [
        f"archive/{m.word()}/{m.word()}{m.integer(3)}.txt",
        f"archive/{m.word()}.tsv",
        f"archive/{m.word()}-{m.word()}.sql",
    ]
    for path in paths:
        m.write(path, "y" * m.integer(5))
    m.run("find archive -type f | sort", path=paths)

    amounts = [m.integer(5) for _ in range(6)]
    stock = {m.word(): amount for amount in amounts}
    m.write("stock.json", json.dumps([{"part": p, "amount": a} for p, a in stock.items()]))
    m.run(
        "python3 -c \"import json; rows = json.load(open('stock.json')); "
        "print('rows', len(rows), 'sum', sum(r['amount'] for r in rows))\"",
        integer=str(sum(amounts)),
    )
    codes, days, hosts = ([make() for _ in range(4)] for make in (m.code, m.day, m.address))
    log = [
        f"[{day}] level=warn peer={host} ticket={code}"
        for code, day, host in zip(codes, days, hosts, strict=True)
    ]
    quiet = [f"[{m.day()}] level=debug beat={k}" for k in range(m.integer(2))]
    m.write("server.log", "\n".join([*quiet, *log]) + "\n")
    m.run("tail -n 4 server.log", id=codes, date=days, ip=hosts)
    subjects = [m.word() for _ in range(2)]
    m.run(
        "git init -q . && "
        + " && ".join(f"git commit -q --allow-empty -m {subject}" for subject in subjects)
        + " && git log --format='%H %s'"
    )
    hashes = [line.split()[0] for line in m.output().splitlines()]
    m.world.values += [Value("hash", value, 3) for value in hashes]

    version = f"{m.integer(2)}.{m.integer(1)}.{m.integer(3)}"
    ident, key = m.uuid(), m.code().lower()
    m.write("service.yaml", f"release: {version}\nnode:\n  id: {ident}\n  lease: {key}\n")
    m.run("sed -n '1,9p' service.yaml", version=version, uuid=ident, id=key)
    m.run("find archive -type f -printf '%s\\t%f\\n' | sort -k 2")
    m.world.values += [Value("integer", s.split("\t")[0], 5) for s in m.output().splitlines()]
    m.write("queue.txt", "job\n" * (count := m.integer(3)))
    m.run("wc -l < queue.txt", short=str(count))

    m.write("times.txt", "".join(f"{m.integer(7) / 10**5}\n" for _ in range(8)))
    m.run(
        'python3 -c "import statistics as s; '
        "print(round(s.stdev(map(float, open('times.txt'))), 7))\""
    )
    m.world.values.append(Value("decimal", m.output().strip(), 7))
    symbols = [f"{m.integer(7):016x}" for _ in range(3)]
    m.write("symbols.map", "".join(f"{s} T {m.word()}{k}\n" for k, s in enumerate(symbols)))
    m.run("grep ' T ' symbols.map", address=symbols)
    crews = [m.word() for _ in range(4)]
    for crew in crews:
        m.write(f"crews/{crew}/plan", "")
    m.run("ls -p crews", name=crews)
    classes = [f"{m.word().title()}{m.word().title()}" for _ in range(3)]
    m.write("lib.py", "".join(f"class {name}:\n    pass\n\n" for name in classes))
    m.run("grep -o 'class [A-Za-z]*' lib.py", identifier=classes)
    m.write("members.txt", "".join(f"{name}:{m.integer(3)}:active\n" for name in stock))
    m.run("cut -d: -f1 members.txt", name=list(stock))
    sizes = [f"{m.integer(5)}MB", f"{m.integer(4)}us"]
    m.write("load.txt", f"peak={sizes[0]} wait={sizes[1]}\n")
    m.run("cat load.txt", unit=sizes)
    names = [f"{m.word()}.{e}" for e in ("bak", "png", "toml")]
    for name in names:
        m.write(f"shelf/{name}", "")
    m.run("ls -gG --time-style=+ shelf/*", file=names)
    grouped = f"{m.integer(8):,}"
    m.write("census.txt", f"Residents: {grouped}\nDistricts: {m.integer(2)}\n")
    m.run("grep : census.txt", grouped=grouped)
    m.run("cat service.yaml load.txt")


_MAKERS: Final[dict[Half, Callable[[Maker], None]]] = {
    "development": _development,
    "held-out": _held_out,
}
