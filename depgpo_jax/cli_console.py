"""What the command shows people: tables, and progress bars where standard error is a terminal."""

from __future__ import annotations

import io
import os
import signal
import sys
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from depgpo_jax.traces.files import Progress as ByteProgress

AGAIN_S = 0.02
"""Until a dropped interrupt comes again."""

_SIGNAL_OF: dict[type[BaseException], signal.Signals] = {
    KeyboardInterrupt: signal.SIGINT,
    SystemExit: signal.SIGTERM,
}


def counted(number: int, noun: str) -> str:
    """A number with its noun, as in "1 trace" and "2 traces"."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def prepare_streams() -> None:
    """Makes standard streams safe to write to, whatever the parent made of them.

    A character that their encoding lacks is written as an escape. A descriptor that is closed is
    opened on the null device: else the next file that is opened would take its number, and whoever
    writes to standard error would write into that file.
    """
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    for descriptor in range(3):
        try:
            os.fstat(descriptor)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # takes the lowest free number, which is this one


def keep_interrupts() -> None:
    """Sends an interrupt again that came where Python drops exceptions.

    A signal may arrive while a finaliser or a callback of the garbage collector runs, JAX's own for
    one. Python then reports the exception as ignored, and the run would go on.
    """
    report = sys.unraisablehook

    def again(unraisable: sys.UnraisableHookArgs) -> None:
        number = _SIGNAL_OF.get(unraisable.exc_type)
        if number is None:
            report(unraisable)
        else:
            # Later, and from another thread: raised here it would be dropped as well.
            threading.Timer(AGAIN_S, os.kill, (os.getpid(), number)).start()

    sys.unraisablehook = again


def flush_streams() -> bool:
    """Writes out what standard streams still hold; False if one of them cannot take it."""
    good = True
    for stream in (sys.stdout, sys.stderr):
        try:
            if stream is not None:
                stream.flush()
        except OSError:
            good = False
    return good


@contextmanager
def progress_bars(*, hidden: bool = False) -> Generator[Callable[[str], ByteProgress]]:
    """Bars that vanish when the work is done.

    Args:
        hidden: show none even on a terminal, because the results go there.

    Returns:
        A function that opens a bar of a name and returns what to call with its progress.
    """
    console = Console(stderr=True)
    bars = Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        DownloadColumn(binary_units=True),
        TimeRemainingColumn(),
        console=console,
        transient=True,
        disable=hidden or not console.is_terminal,
    )

    def open_bar(name: str) -> ByteProgress:
        task = bars.add_task(name, total=None)

        def report(done: int, total: int | None) -> None:
            bars.update(task, completed=done, total=total)

        return report

    with bars:
        yield open_bar


def print_table(table: Table, console: Console | None = None) -> None:
    """Prints a table: framed and coloured on a terminal, plain columns of full width elsewhere.

    Args:
        table: what to show.
        console: where to; None: standard output.
    """
    console = console or Console()
    if console.is_terminal:
        console.print(table)
        return
    # Rich fills cells with blanks to the right, which only bother whoever searches the lines.
    plain = io.StringIO()
    table.box = None
    Console(file=plain, width=100_000, color_system=None).print(table)
    for line in plain.getvalue().splitlines():
        console.file.write(line.rstrip() + "\n")
