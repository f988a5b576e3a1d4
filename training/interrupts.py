"""Ctrl-C and SIGTERM in a loop that first brings its work to a safe end."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager


class RunInterruptedError(Exception):
    """The work was interrupted and is saved.

    Args:
        update: the last update that is done.
    """

    def __init__(self, update: int) -> None:
        super().__init__(f"update {update} is saved; go on with --resume")
        self.update = update


@contextmanager
def until_interrupted() -> Generator[Callable[[], bool]]:
    """Within it the first Ctrl-C or SIGTERM only sets a mark; a second one acts as elsewhere.

    Yields:
        A function that says whether the mark is set. Outside the main thread, where Python lets
        nobody handle signals, it stays unset.
    """
    marked = False
    if threading.current_thread() is not threading.main_thread():
        yield lambda: marked
        return
    before: dict[signal.Signals, object] = {}

    def mark(number: int, frame: object) -> None:
        nonlocal marked
        del frame
        marked = True
        signal.signal(number, before[signal.Signals(number)])  # pyright: ignore[reportArgumentType]

    for number in (signal.SIGINT, signal.SIGTERM):
        before[number] = signal.signal(number, mark)
    try:
        yield lambda: marked
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)  # pyright: ignore[reportArgumentType]
