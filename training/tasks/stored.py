"""Streams in deflate's stored form: what a compressor writes differs between its versions."""

from __future__ import annotations

import struct
import zlib
from typing import Final

_BLOCK: Final = 65_535


def zlib_stored(content: bytes) -> bytes:
    """A zlib stream (RFC 1950) without compression."""
    return b"\x78\x01" + _blocks(content) + struct.pack(">I", zlib.adler32(content))


def gzip_stored(content: bytes) -> bytes:
    """A gzip file (RFC 1952) without compression, name and time."""
    head = b"\x1f\x8b\x08\x00" + bytes(5) + b"\xff"
    return head + _blocks(content) + struct.pack("<II", zlib.crc32(content), len(content) % 2**32)


def _blocks(content: bytes) -> bytes:
    """Stored blocks (RFC 1951): a flag of the last one, the length, its complement, the bytes."""
    parts = [content[k : k + _BLOCK] for k in range(0, len(content), _BLOCK)] or [b""]
    last = len(parts) - 1
    return b"".join(
        struct.pack("<BHH", number == last, len(part), len(part) ^ 0xFFFF) + part
        for number, part in enumerate(parts)
    )
