"""What a text printed, kept within a limit."""

from __future__ import annotations


class Output:
    """The bytes of one text, of which the middle is dropped when there are too many."""

    def __init__(self, limit: int) -> None:
        self._half = max(1, limit // 2)
        self._head = bytearray()
        self._tail = bytearray()
        self._dropped = 0

    def add(self, data: bytes) -> None:
        """Takes more bytes in."""
        room = self._half - len(self._head)
        if room > 0:
            self._head += data[:room]
            data = data[room:]
        self._tail += data
        excess = len(self._tail) - self._half
        if excess > 0:
            self._dropped += excess
            del self._tail[:excess]

    def bytes(self) -> bytes:
        """What is kept, with a note where bytes are missing."""
        note = b"\n... %d bytes left out ...\n" % self._dropped if self._dropped else b""
        return bytes(self._head) + note + bytes(self._tail)
