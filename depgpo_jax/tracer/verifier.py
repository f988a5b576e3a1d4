"""What a verifier's run inspected: the set E of a trace."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import TYPE_CHECKING

from depgpo_jax.tracer.content import resource_name
from depgpo_jax.tracer.noise import is_noise, owner_file

if TYPE_CHECKING:
    from depgpo_jax.tracer.events import Event

_ABSENT = frozenset({"ENOENT", "ENOTDIR", "EACCES", "ELOOP"})
_WRITING = frozenset({"O_WRONLY", "O_RDWR"})
_REFUSED = frozenset({"ECONNREFUSED", "EINPROGRESS"})


def inspected(
    events: Iterable[Event], written: Collection[str], own: Collection[bytes] = ()
) -> list[str]:
    """The resources that the verifier looked at, in order of the first look.

    An open, a stat, an access, the reading of a link or a folder, a connection: each counts,
    whether it found something or not. What the verifier wrote itself does not, nor do its own files
    and what everything reads.

    Source: trace page, `verifier`.

    Args:
        events: of the verifier's run, traced with `looking`.
        written: resources that the rollout's commands wrote: never left out as noise, and the mode
            of a file counts only if one of them changed it.
        own: folders of the verifier, as `/tests`.

    Returns:
        Resource names without repetition.
    """
    wanted = frozenset(written)
    looked: dict[str, None] = {}
    made: set[str] = set()
    for event in events:
        if event.call == "connect":
            port = _port(event)
            if port:
                looked.setdefault(port)
            continue
        path = owner_file(event.path)
        if not path.startswith(b"/") or path == b"/" or _is_own(path, own):
            continue
        name = resource_name(path)
        if _makes(event, name, looked):
            made.add(resource_name(event.path2 or path))
        elif name not in made and _looks(event):
            if name in wanted or not is_noise(path):
                looked.setdefault(name)
            if event.call in ("look", "exec") and f"meta:{name}" in wanted:
                looked.setdefault(f"meta:{name}")
    return list(looked)


def _makes(event: Event, name: str, looked: Collection[str]) -> bool:
    """Whether this makes a file of the verifier's own; one that it had looked at before is not."""
    if event.result != 0:
        return False
    if event.call in ("mkdir", "mknod", "symlink"):
        return True
    if event.call == "open" and event.flags & _WRITING:
        return name not in looked and bool(event.flags & {"O_CREAT", "O_TRUNC"})
    return False


def _looks(event: Event) -> bool:
    """Whether this looks at what is there, or finds that nothing is."""
    if event.call not in ("open", "exec", "look", "rename", "link"):
        return False
    return event.result == 0 or event.error in _ABSENT


def _is_own(path: bytes, own: Collection[bytes]) -> bool:
    return any(path == folder or path.startswith(folder + b"/") for folder in own)


def _port(event: Event) -> str:
    if event.result != 0 and event.error not in _REFUSED:
        return ""
    kind, _, port = event.detail.partition(":")
    if kind in ("tcp", "udp") and port not in ("", "0"):
        return event.detail
    return f"unix:{resource_name(event.path)}" if event.path.startswith(b"/") else ""
