"""Files of lines: plain or compressed by their ending, standard streams, and output in one piece.

`open_lines` streams; `open_output` writes beside its destination and renames at the end, so that no
reader ever meets half a file and a failure leaves nothing behind.
"""

from __future__ import annotations

import gzip
import io
import os
import secrets
import stat
import sys
import zlib
from collections.abc import Callable, Generator, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Final, TextIO

import zstandard

from depgpo_jax.errors import TraceError

if TYPE_CHECKING:
    from typing_extensions import Buffer

Progress = Callable[[int, int | None], None]
"""Called with the bytes of the file that were read so far and its size. Where the size is not known
it is None, and the bytes are counted after unpacking."""

STANDARD: Final = "-"
"""The source that is standard input and the destination that is standard output."""

_PROGRESS_BYTES: Final = 1 << 18
_CHUNK: Final = 1 << 16


def source_name(source: str | os.PathLike[str]) -> str:
    """What messages call a source."""
    return "<stdin>" if source == STANDARD else os.fspath(source)


@contextmanager
def open_raw(
    source: str | os.PathLike[str], wanted: str = "a file of traces"
) -> Generator[BinaryIO]:
    """A file's own bytes, compressed or not; "-" is standard input.

    Args:
        source: the file.
        wanted: what it should be, for messages.

    Raises:
        TraceError: there is no such file, or it may not be read; standard input is closed.
    """
    if source == STANDARD:
        # Python has None for a standard stream that its parent closed.
        if sys.stdin is None:
            raise TraceError(
                "a closed stream",
                "an open standard input",
                "Redirect or pipe the traces into the command, or name a file.",
                file=source_name(source),
            )
        yield sys.stdin.buffer
        return
    try:
        handle = Path(source).open("rb")  # noqa: SIM115
    except OSError as error:
        raise TraceError(
            f"no readable file ({error.strerror})",
            f"{wanted}, or - for standard input",
            "Check the path and its permissions.",
            file=source_name(source),
        ) from None
    with handle:
        yield handle


def read_lines(
    raw: BinaryIO, source: str | os.PathLike[str], progress: Progress | None = None
) -> Iterator[tuple[int, bytes]]:
    r"""Numbers and bytes of the lines that are not blank; a line ends with \n only.

    Args:
        raw: the file's own bytes.
        source: its name, whose ending says how it is compressed (.gz, .zst; else not at all).
        progress: called from time to time with positions in `raw`, and once at the end.

    Raises:
        TraceError: the compressed data are cut short or damaged.
    """
    number = 0
    name = source_name(source)
    total = _size(raw)
    unpacked = reported = 0
    try:
        for number, line in enumerate(_decompressed(raw, name), 1):
            if progress is not None:
                unpacked += len(line)
                if unpacked - reported >= _PROGRESS_BYTES:
                    progress(unpacked if total is None else raw.tell(), total)
                    reported = unpacked
            # isspace() is also true of \v and \f, which JSON does not count as white space.
            if not (line.isspace() and not line.strip(b" \t\r\n")):
                yield number, line
    except EOFError:
        raise _damaged("compressed data that end too early", name, number) from None
    except (gzip.BadGzipFile, zlib.error, zstandard.ZstdError) as error:
        raise _damaged(f"damaged compressed data ({error})", name, number) from None
    if progress is not None and total is not None:
        progress(total, total)


def _damaged(found: str, name: str, lines: int) -> TraceError:
    return TraceError(
        f"{found} after {lines} lines",
        "a complete .gz or .zst file, as its ending promises",
        "Write or copy the file again, or correct its ending.",
        file=name,
    )


def _size(raw: BinaryIO) -> int | None:
    try:
        status = os.fstat(raw.fileno())
    except (OSError, AttributeError):
        return None
    return status.st_size if stat.S_ISREG(status.st_mode) else None


def _decompressed(raw: BinaryIO, name: str) -> BinaryIO:
    if name.endswith(".gz"):
        return gzip.GzipFile(fileobj=raw, mode="rb")  # pyright: ignore[reportReturnType]
    if name.endswith(".zst"):
        return io.BufferedReader(_ZstdReader(raw), 1 << 18)
    return raw


class _ZstdReader(io.RawIOBase):
    """Frames of zstd one after the other; zstandard's own reader misses a cut at the end."""

    def __init__(self, raw: BinaryIO) -> None:
        self._raw = raw
        self._input = b""
        self._output = memoryview(b"")
        self._frame: zstandard.ZstdDecompressionObj | None = None

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview, /) -> int:  # pyright: ignore[reportIncompatibleMethodOverride]
        while not self._output:
            if not self._input:
                self._input = self._raw.read(_CHUNK)
            if not self._input:
                if self._frame is not None:
                    raise EOFError
                return 0
            if self._frame is None:
                self._frame = zstandard.ZstdDecompressor().decompressobj()
            self._output = memoryview(self._frame.decompress(self._input))
            self._input = self._frame.unused_data
            if self._frame.eof:
                self._frame = None
        size = min(len(buffer), len(self._output))
        buffer[:size] = self._output[:size]
        self._output = self._output[size:]
        return size


def standard_output() -> TextIO:
    """Standard output as text.

    Raises:
        TraceError: it is closed.
    """
    if sys.stdout is None:
        raise TraceError(
            "a closed stream",
            "an open standard output",
            "Redirect it to a file, or to /dev/null where it is not wanted.",
            file="<stdout>",
        )
    return sys.stdout


@contextmanager
def open_output(destination: str | os.PathLike[str]) -> Generator[BinaryIO]:
    """A file that appears under its name when the block ends well, and not at all otherwise.

    Compressed by its ending (.gz, .zst). "-" is standard output, which is written as it comes, and
    so are devices and pipes. An existing file keeps its permissions.

    Args:
        destination: the path, or "-".

    Raises:
        TraceError: the file cannot be created, or the disk is full; standard output is closed.
    """
    if destination == STANDARD:
        stream = standard_output().buffer
        yield stream
        stream.flush()
        return
    # A link stays a link: what it points to is replaced.
    path = Path(os.path.realpath(destination))
    name = os.fspath(destination) or "''"
    aside: Path | None = None
    with ExitStack() as stack:
        # An interrupt may come at any moment, also when the file has just appeared.
        try:
            try:
                mode = path.stat().st_mode if path.exists() else None
                if mode is not None and stat.S_ISDIR(mode):
                    raise IsADirectoryError(None, "Is a directory")
                if mode is None or stat.S_ISREG(mode):
                    aside = path.with_name(f".{path.name[:100]}.{secrets.token_hex(8)}.part")
                raw = _Written(aside or path, "wb" if aside is None else "xb", name)
                handle = stack.enter_context(io.BufferedWriter(raw))
            except OSError as error:
                raise TraceError(
                    f"a place where no file can be written ({error.strerror})",
                    "a path in an existing, writable directory, or - for standard output",
                    "Create the directory, or choose another path.",
                    file=name,
                ) from None
            if aside is not None and mode is not None:
                aside.chmod(stat.S_IMODE(mode))
            with ExitStack() as compressors:
                yield _compressed(handle, name, compressors)
            handle.flush()
            if aside is not None:
                raw.sync()
                aside.replace(path)
        except BaseException:
            if aside is not None:
                with suppress(OSError):
                    aside.unlink(missing_ok=True)
            raise


class _Written(io.FileIO):
    """A file that says which one it is when the disk takes no more."""

    def __init__(self, path: Path, mode: str, name: str) -> None:
        super().__init__(path, mode)
        self._called = name

    def write(self, data: Buffer, /) -> int:
        with self._full_disk_told():
            return super().write(data)

    def sync(self) -> None:
        """Waits until the disk has it."""
        with self._full_disk_told():
            os.fsync(self.fileno())

    @contextmanager
    def _full_disk_told(self) -> Generator[None]:
        try:
            yield
        except OSError as error:
            raise TraceError(
                f"a disk that takes no more ({error.strerror})",
                "room for the whole output",
                "Free some space, or choose another path. No file was left behind.",
                file=self._called,
            ) from None


def _compressed(handle: BinaryIO, name: str, stack: ExitStack) -> BinaryIO:
    if name.endswith(".gz"):
        # No name and no time inside: equal traces give equal files.
        zipped = gzip.GzipFile(filename="", mode="wb", fileobj=handle, mtime=0)
        return stack.enter_context(zipped)  # pyright: ignore[reportReturnType]
    if name.endswith(".zst"):
        writer = zstandard.ZstdCompressor().stream_writer(handle, closefd=False)
        return stack.enter_context(writer)
    return handle
