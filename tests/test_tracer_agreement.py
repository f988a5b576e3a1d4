"""The tracer against a plain strace of the same script, read by code of its own."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterable
from pathlib import Path

import pytest

from tests.tracing import DELETED, come_from, traced, write_files

FILES = {
    "a": b"one\ntwo\nthree\n",
    "b": b"x\ny\n",
    "csv": b"name,n\nann,3\nbob,4\n",
    "d/p": b"p\n",
    "d/in/q": b"q\nq\n",
    "run": b"#!/bin/bash\ncat a b > made\n",
    "pack.pl": b"open F, '>>', 'log'; print F $_ while <>; close F; unlink 'b';\n",
}
SCRIPTS = {
    "edits": "sed -i s/two/2/ a; cat a b > c; echo z >> b; sort b -o b; rm c; cut -d, -f2 csv > n",
    "names": "mv a a2; cp -a d d2; mv d2/in d2/out; ln b h; echo w >> h; mv -f csv b; rm -r d",
    "archive": "tar czf t.tgz d a; mkdir x; tar xzf t.tgz -C x; rm x/a; cat x/d/p t.tgz > both",
    "programs": "bash run; perl pack.pl a csv; awk -F, '{print $2}' csv | tee n1 n2 | wc -l > m",
    "git": "git init -q; git add a d; sed -i 1d a; git diff > p.diff; patch -R < p.diff",
}

_OPEN = re.compile(r'(?:openat\(\S+?<.*?>, |open\(|creat\()"(.*?)", (\S*?)[,)].* = \d+<(.*?)>$')
_TWO = re.compile(r'rename\w*\((?:AT_FDCWD<.*?>, )?"(.*?)", (?:AT_FDCWD<.*?>, )?"(.*?)".* = 0$')
_LINK = re.compile(_TWO.pattern.replace("rename\\w*", "link(?:at)?"))
_UNLINK = re.compile(r'unlink(?:at)?\((?:\S+?<(.*?)>, )?"(.*?)".* = 0$')
_EXEC = re.compile(r'execve\("(.*?)", .* = 0$')


class Seen:
    """Names in a folder, as strace told them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.read: set[str] = set()
        self.touched: set[str] = set()
        self.moved: set[str] = set()
        self.targets: set[str] = set()
        self.linked: set[str] = set()

    def in_moved(self, names: Iterable[str]) -> set[str]:
        """Those that lie in a folder that was moved."""
        folders = tuple(f"{folder}/" for folder in self.targets)
        return {name for name in names if name.startswith(folders)}

    def note(self, call: str) -> None:
        """One line of the log, without pid and time."""
        if found := _OPEN.match(call):
            flags = "O_WRONLY|O_TRUNC" if call.startswith("creat(") else found[2]
            if "O_DIRECTORY" not in flags and "O_PATH" not in flags:
                self._opens(self._name(found[3]), flags)
        elif found := _TWO.match(call):
            old, new = self._name(found[1]), self._name(found[2])
            self._reads(old)
            self.moved.add(old)
            self.targets.add(new)
            self.touched |= {old, new}
        elif found := _LINK.match(call):
            old, new = self._name(found[1]), self._name(found[2])
            self._reads(old)
            self.linked.add(old)
            self.touched.add(new)
        elif found := _UNLINK.match(call):
            self.touched.add(self._name(found[2], found[1]))
        elif found := _EXEC.match(call):
            self._reads(self._name(found[1]))

    def _opens(self, path: str, flags: str) -> None:
        if "O_WRONLY" not in flags and "O_TRUNC" not in flags:
            self._reads(path)
        if "O_RDONLY" not in flags:
            self.touched.add(path)

    def _reads(self, path: str) -> None:
        if path not in self.touched:
            self.read.add(path)

    def _name(self, path: str, base: str | None = None) -> str:
        return os.path.relpath(Path(base or self.folder) / path, self.folder)


def plain_strace(folder: Path, script: str) -> Seen:
    """Runs a script under strace with a log for each process, and reads the logs in time order."""
    logs = folder.parent / "logs"
    logs.mkdir()
    calls = "open,openat,creat,rename,renameat,renameat2,link,linkat,unlink,unlinkat,execve"
    tracer = ["strace", "-ff", "-ttt", "-y", "-s4096", "-o", f"{logs}/log", f"-etrace={calls}"]
    subprocess.run(
        [*tracer, "bash", "--norc", "-c", script],
        cwd=folder,
        check=False,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    lines = [line for log in logs.iterdir() for line in log.read_text().splitlines()]
    seen = Seen(folder)
    for line in sorted(lines, key=lambda line: float(line.split()[0])):
        seen.note(line.split(" ", 1)[1])
    return seen


def contents(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file() and not path.is_symlink()
    }


@pytest.mark.parametrize("script", SCRIPTS.values(), ids=SCRIPTS)
def test_agrees_with_a_plain_strace(script: str, tmp_path: Path):
    ours, theirs = tmp_path / "same" / "work", tmp_path / "plain" / "work"
    (found,) = traced(ours, [script], FILES)
    write_files(theirs, FILES)
    seen = plain_strace(theirs, script)
    after = contents(ours)
    # Of what was there before, whatever strace saw opened first to be read.
    assert found.reads & set(FILES) == seen.read & set(FILES)
    assert not found.untraced
    # Of what differs now, each file once, by the first of its names; a move takes the old one.
    changed = {name for name in {*FILES, *after} if FILES.get(name) != after.get(name)}
    first = {(ours / name).stat().st_ino: name for name in sorted(after, reverse=True)}
    aliases = {name for name in after if first[(ours / name).stat().st_ino] != name}
    moved = {name for name in FILES if come_from(name) in found.writes.values()}
    assert set(found.writes) == changed - aliases - (moved - set(after))
    assert moved <= seen.moved | seen.linked
    deleted = {name for name, form in found.writes.items() if form == DELETED}
    assert deleted == changed - set(after) - moved
    assert deleted <= seen.touched
    assert set(found.writes) <= seen.touched | seen.in_moved(after)
