"""Names as strace prints them, and paths by their text alone."""

from __future__ import annotations

import posixpath
import re

_NOISE = re.compile(rb"/(?:proc|sys|dev(?!/shm/))(?:/|$)")


def normalised(path: bytes) -> bytes:
    """An absolute path without `.`, `..`, empty parts and a final slash, by its text alone."""
    if b"/." in path or b"//" in path or path.endswith(b"/"):
        path = posixpath.normpath(path)
        return path[1:] if path.startswith(b"//") else path
    return path


def decode(name: bytes) -> bytes:
    r"""`\x2f\x61` as bytes; what is no hex (nothing that strace prints) stays as it is."""
    try:
        return bytes.fromhex(name.replace(b"\\x", b"").decode("ascii"))
    except ValueError:
        return name


def quiet(name: bytes) -> bytes:
    """The name, or nothing for kernel files and for what is no path (a pipe, a socket)."""
    return b"" if _NOISE.match(name) or not name.startswith(b"/") else name
