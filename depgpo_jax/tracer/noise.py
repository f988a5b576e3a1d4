"""Files that everything reads: they say nothing about a command, unless the rollout wrote them."""

from __future__ import annotations

from typing import Final

_ROOTS: Final = (
    b"/usr/",
    b"/bin/",
    b"/sbin/",
    b"/lib/",
    b"/lib32/",
    b"/lib64/",
    b"/libx32/",
    b"/etc/",
    b"/proc/",
    b"/sys/",
    b"/dev/",
    b"/var/cache/",
    b"/var/lib/dpkg/",
    b"/var/lib/apt/",
)
_SYSTEM: Final = frozenset(_ROOTS)
_PARTS: Final = (b"/__pycache__/", b"/.cache/", b"/node_modules/.cache/")
_ENDS: Final = (b".pyc", b"/.bash_history", b"/.gitconfig", b"/.python_history")


def is_noise(path: bytes, workplaces: tuple[bytes, ...] = ()) -> bool:
    """Whether the path is the system's, a cache's or a shell's own.

    To be asked last, and only of paths that no command of the rollout wrote.

    Args:
        path: absolute and normalised, as inside the sandbox.
        workplaces: folders with a slash at their end; inside of those that lie in a folder of the
            system, such as /usr/src/app/, files are the task's own.
    """
    return (
        (path.startswith(_ROOTS) and not _is_at_work(path, workplaces))
        or any(part in path for part in _PARTS)
        or path.endswith(_ENDS)
    )


def _is_at_work(path: bytes, workplaces: tuple[bytes, ...]) -> bool:
    return any(path.startswith(folder) and folder not in _SYSTEM for folder in workplaces)


_SQLITE: Final = (b"-wal", b"-shm", b"-journal")


def owner_file(path: bytes) -> bytes:
    """The file that a helper file belongs to: sqlite's are one resource with their database."""
    if not path.endswith(_SQLITE):
        return path
    for ending in _SQLITE:
        if path.endswith(ending) and len(path) > len(ending) + 1:
            return path.removesuffix(ending)
    return path
