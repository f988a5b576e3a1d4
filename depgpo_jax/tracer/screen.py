"""A pseudo-terminal, from the side of whoever looks at it and types into it."""

from __future__ import annotations

import os
import pty
import select
import struct
import termios
from collections.abc import Callable
from contextlib import suppress
from fcntl import ioctl

CHUNK = 1 << 16
INTERRUPT = b"\x03"
"""Ctrl-C, as the terminal takes it."""

_TIOCGPTPEER = 0x5441  # opens the other side of a pseudo-terminal; not named in `termios`


class Screen:
    """What is typed into it is not shown again, and a line's end stays one character.

    Args:
        columns: its width.
        rows: its height.

    Raises:
        OSError: this system gives out no pseudo-terminal.
    """

    def __init__(self, columns: int, rows: int) -> None:
        self._own, self.other = pty.openpty()
        """`other` is the programs' side; `close_other` once they have it."""
        self._mode = termios.tcgetattr(self.other)
        self._mode[1] &= ~termios.ONLCR
        self._mode[3] &= ~termios.ECHO
        termios.tcsetattr(self.other, termios.TCSANOW, self._mode)
        ioctl(self.other, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        self.shown: Callable[[bytes], object] = bool
        """Called with what the programs show, as it comes."""

    def close_other(self) -> None:
        """Leaves the programs' side to them."""
        os.close(self.other)

    def close(self) -> None:
        """Closes our side."""
        os.close(self._own)

    def readable(self, timeout_s: float) -> bool:
        """Whether something is shown, or the other side is closed, within that time."""
        return readable(self._own, timeout_s)

    def read(self) -> bytes:
        """What is shown next; empty once the other side is closed."""
        try:
            data = os.read(self._own, CHUNK)
        except OSError:  # so a closed other side is told
            return b""
        self.shown(data)
        return data

    def type(self, data: bytes) -> None:
        """Types, as a person would at what runs there; never raises."""
        with suppress(OSError):  # the other side is closed: nobody reads any more
            os.write(self._own, data)

    def unread(self) -> bytes:
        """Takes back the whole lines that were typed and that nobody has read."""
        lines = bytearray()
        with suppress(OSError):
            other = self._open_other(os.O_RDONLY | os.O_NONBLOCK)
            try:
                while True:  # a terminal gives one line at a time
                    lines += os.read(other, CHUNK)
            finally:  # it is left when there is no more
                os.close(other)
        return bytes(lines)

    def reset(self) -> None:
        """Sets it back for the next program, after one that could not do so; forgets what waits."""
        other = self._open_other(os.O_RDWR)
        try:
            termios.tcsetattr(other, termios.TCSANOW, self._mode)
            termios.tcflush(other, termios.TCIFLUSH)
        finally:
            os.close(other)

    def _open_other(self, flags: int) -> int:
        return ioctl(self._own, _TIOCGPTPEER, flags | os.O_NOCTTY | os.O_CLOEXEC)


def readable(descriptor: int, timeout_s: float) -> bool:
    """Whether a descriptor has something to read, or has ended, within that time."""
    ready = select.poll()  # knows no highest descriptor
    ready.register(descriptor, select.POLLIN)
    return bool(ready.poll(timeout_s * 1000.0))
