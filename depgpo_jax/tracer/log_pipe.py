"""The pipe through which strace's lines come, read by a thread so that strace need not wait."""

from __future__ import annotations

import os
import select
import shutil
import tempfile
import threading
import time
from collections.abc import Generator
from contextlib import contextmanager, suppress
from fcntl import F_SETPIPE_SZ, fcntl
from pathlib import Path
from typing import Final, Self

CHUNK: Final = 1 << 18
BACKLOG: Final = 1 << 25
"""Bytes that wait to be taken, at most: beyond that strace waits, and what it traces."""
_UNOPENED_S = 0.002
_PIPE_BYTES: Final = 1 << 20
_REST_S: Final = 0.002
"""How long the thread leaves lines in the pipe while nobody waits for them."""


class LogPipe:
    """A named pipe outside of the sandbox, and what has come through it.

    strace opens it by its name. A descriptor that it inherited would be passed on to the programs
    that it traces, which could then write lines of their own.
    """

    def __init__(self) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="depgpo-"))
        self.path = self._folder / "log"
        os.mkfifo(self.path, 0o600)
        # Opened without waiting for the writer, whose own opening would else wait for ours.
        self._end = os.open(self.path, os.O_RDONLY | os.O_NONBLOCK)
        # A reader that wakes for every line costs strace more than the line does.
        with suppress(OSError):
            fcntl(self._end, F_SETPIPE_SZ, _PIPE_BYTES)
        self._wake, self._waker = os.pipe()
        self._bytes = bytearray()
        self._seen = threading.Condition()
        self._over = False
        self._closing = False
        self._wanted = 0
        self._thread: threading.Thread | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def start(self) -> None:
        """Begins to read; to be called once the writer has been started."""
        self._thread = threading.Thread(target=self._collect, daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Forgets the pipe; what has not been taken is lost. May be called again."""
        if self._closing:
            return
        with self._seen:
            self._closing = True
            self._seen.notify_all()
        os.write(self._waker, b"x")
        if self._thread is not None:
            self._thread.join()
        for descriptor in (self._end, self._wake, self._waker):
            os.close(descriptor)
        shutil.rmtree(self._folder, ignore_errors=True)

    def take(self, timeout_s: float) -> bytes | None:
        """What has come, once there is anything.

        Args:
            timeout_s: how long to wait for it.

        Returns:
            The bytes; None where none came in time or the writer has ended.
        """
        with self._seen, self._waiting():
            self._seen.wait_for(lambda: self._bytes or self._over, timeout_s)
            return self._take() or None

    def take_rest(self, timeout_s: float = 10.0) -> bytes:
        """Everything, once the writer has ended."""
        taken = bytearray()
        deadline = time.monotonic() + timeout_s
        with self._seen, self._waiting():
            while True:
                left = deadline - time.monotonic()
                self._seen.wait_for(lambda: self._bytes or self._over, max(left, 0.0))
                taken += self._take()
                if self._over or left <= 0.0:
                    return bytes(taken)

    def take_all(self) -> bytes:
        """Everything that has come so far."""
        with self._seen:
            return self._take()

    @contextmanager
    def _waiting(self) -> Generator[None]:
        """Tells the thread, for as long as the block runs, that lines are waited for."""
        self._wanted += 1
        self._seen.notify_all()
        try:
            yield
        finally:
            self._wanted -= 1

    def _take(self) -> bytes:
        taken = bytes(self._bytes)
        self._bytes.clear()
        self._seen.notify_all()
        return taken

    def _collect(self) -> None:
        opened = False
        ready = select.poll()  # knows no highest descriptor
        ready.register(self._end, select.POLLIN)
        ready.register(self._wake, select.POLLIN)
        while not self._closing:
            ready.poll()
            try:
                data = os.read(self._end, CHUNK)
            except BlockingIOError:
                continue
            if not data:
                # Nobody has opened it yet, or its last writer has closed it.
                if opened:
                    break
                time.sleep(_UNOPENED_S)
                continue
            opened = True
            with self._seen:
                self._bytes += data
                self._seen.notify_all()
                self._seen.wait_for(lambda: len(self._bytes) < BACKLOG or self._closing)
                self._seen.wait_for(lambda: self._wanted or self._closing, _REST_S)
        with self._seen:
            self._over = True
            self._seen.notify_all()
