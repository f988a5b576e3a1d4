"""A bare git repository, written object by object, so that equal seeds give equal files.

git itself is not asked: what it packs differs between its versions.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Final

from training.tasks.stored import zlib_stored

CONFIG: Final = "[core]\n\trepositoryformatversion = 0\n\tfilemode = true\n\tbare = true\n"
AUTHOR: Final = "Ada Archer <ada@depgpo.test>"


class Repository:
    """Objects and branches, on the way to files.

    Attributes:
        objects: stored objects by their hash, in hexadecimal.
        branches: the hash of each branch's newest commit.
    """

    def __init__(self) -> None:
        self.objects: dict[str, bytes] = {}
        self.branches: dict[str, str] = {}

    def tree(self, files: Mapping[str, str]) -> str:
        """The hash of a folder with these files, by their path in it."""
        entries: dict[str, tuple[str, str]] = {}
        below: dict[str, dict[str, str]] = {}
        for path, text in files.items():
            name, slash, rest = path.partition("/")
            if slash:
                below.setdefault(name, {})[rest] = text
            else:
                entries[name] = ("100644", self._add("blob", text.encode()))
        # A folder is sorted as if its name ended with a slash.
        entries |= {f"{name}/": ("40000", self.tree(inner)) for name, inner in below.items()}
        content = b"".join(
            f"{mode} {name.rstrip('/')}\0".encode() + bytes.fromhex(key)
            for name, (mode, key) in sorted(entries.items())
        )
        return self._add("tree", content)

    def commit(self, branch: str, files: Mapping[str, str], message: str, time: int) -> str:
        """Adds a commit to a branch.

        Args:
            branch: its name.
            files: the whole content of the new commit.
            message: without a newline at its end.
            time: seconds since 1970, UTC.

        Returns:
            The commit's hash.
        """
        parent = self.branches.get(branch)
        lines = [f"tree {self.tree(files)}"]
        lines += [] if parent is None else [f"parent {parent}"]
        lines += [f"{who} {AUTHOR} {time} +0000" for who in ("author", "committer")]
        self.branches[branch] = self._add("commit", "\n".join([*lines, "", message, ""]).encode())
        return self.branches[branch]

    def files(self) -> dict[str, str | bytes]:
        """The repository's files, by their path in it; HEAD is at the branch `main`."""
        files: dict[str, str | bytes] = {"HEAD": "ref: refs/heads/main\n", "config": CONFIG}
        files |= {f"refs/heads/{name}": f"{key}\n" for name, key in self.branches.items()}
        for key, content in self.objects.items():
            files[f"objects/{key[:2]}/{key[2:]}"] = zlib_stored(content)
        return files

    def _add(self, kind: str, content: bytes) -> str:
        stored = f"{kind} {len(content)}\0".encode() + content
        key = hashlib.sha1(stored, usedforsecurity=False).hexdigest()
        self.objects[key] = stored
        return key
