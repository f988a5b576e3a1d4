r"""Files and folders of trajectories.

A name that ends in .jsonl holds one JSON document a line, unless its lines are the messages of one
conversation; .json and .traj hold one document. A file of another name holds one, or else texts,
one a line. .gz and .zst are unpacked.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, BinaryIO, Final, NamedTuple

from depgpo_jax.errors import TraceError, printable
from depgpo_jax.traces.files import open_raw, read_lines
from depgpo_jax.trajectories.chat import is_message
from depgpo_jax.trajectories.documents import read_document
from depgpo_jax.trajectories.structs import Trajectory
from depgpo_jax.trajectories.tools import ToolNames
from depgpo_jax.trajectories.values import MAX_NESTED, Value, odd_part

JSON_ENDINGS: Final = (".jsonl", ".json", ".traj")
ENDINGS: Final = (*JSON_ENDINGS, ".txt")
PACKED: Final = (".gz", ".zst")


class Found(NamedTuple):
    """A trajectory, or what is wrong with it.

    Attributes:
        source: its file, and the line in it where that holds several.
        digest: of its bytes.
        trajectory: None where it cannot be read.
        error: why not.
        folder: the name of the folder that its file lies in.
    """

    source: str
    digest: str
    trajectory: Trajectory | None
    error: TraceError | None
    folder: str


def find_files(paths: Sequence[str]) -> tuple[list[tuple[Path, str]], int]:
    """The files of trajectories among files and folders, in order.

    Args:
        paths: files, and folders whose files with a known ending count, however deep.

    Returns:
        Each file with its name for ids: the path inside its folder, or the file's own, without the
        ending. And how many files of folders were left out because of their ending.

    Raises:
        TraceError: something is not there, or a folder holds none.
    """
    files: list[tuple[Path, str]] = []
    ignored = 0
    for given in paths:
        path = Path(given)
        if not given or not path.is_dir():
            if not given or not path.exists():
                raise TraceError(
                    "nothing of that name" if given else "an empty name",
                    "a file, or a folder of files",
                    "Check the path.",
                    file=given or "''",
                )
            files.append((path, _stem(path.name)))
            continue
        inside = [file for file in _walk(path) if not file.name.startswith(".")]
        good = [file for file in inside if _unpacked(file.name).endswith(ENDINGS)]
        if not good:
            raise TraceError(
                "no trajectory in the folder",
                f"files that end in {', '.join(ENDINGS)}, or one of these and {', '.join(PACKED)}",
                "Check the path, or give files one by one.",
                file=given,
            )
        ignored += len(inside) - len(good)
        files += [(file, _stem(file.relative_to(path).as_posix())) for file in good]
    return files, ignored


def _walk(folder: Path) -> Iterator[Path]:
    for place, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        # Opening a pipe would wait for somebody to write into it.
        files = (Path(place, name) for name in sorted(names))
        yield from (file for file in files if file.is_file() or file.is_symlink())


def _unpacked(name: str) -> str:
    for ending in PACKED:
        name = name.removesuffix(ending)
    return name


def _stem(name: str) -> str:
    name = _unpacked(os.fsencode(name).decode("utf-8", "backslashreplace"))
    for ending in ENDINGS:
        name = name.removesuffix(ending)
    return name


def read_file(path: Path, stem: str, names: ToolNames | None = None) -> Iterator[Found]:
    """The trajectories of a file, those that are wrong among them.

    Args:
        path: the file.
        stem: its name for ids.
        names: what tools are called.
    """
    name = _unpacked(path.name)
    try:
        if name.endswith(".jsonl"):
            yield from _lines(path, stem, names)
        else:
            yield _whole(path, stem, names, is_json=name.endswith(JSON_ENDINGS))
    except TraceError as error:  # the file itself cannot be read
        yield Found(str(path), "", None, error, path.absolute().parent.name)


def _lines(path: Path, stem: str, names: ToolNames | None) -> Iterator[Found]:
    """A document a line, or the messages of one conversation."""
    messages: list[Any] = []
    first, digest = True, hashlib.sha256()
    source, count = str(path), 0
    with open_raw(source, "a file of trajectories") as raw:
        for number, line in read_lines(raw, source):
            count += 1
            digest.update(line)
            try:
                value = _json(_decode(line, source, number), source, number)
                if messages or (first and is_message(value)):
                    messages.append(value)
                    continue
                found = _found(value, line, path, f"{stem}/{number}", number, names)
            except TraceError as error:
                if messages:
                    raise  # one message is missing: the conversation is no use
                found = _failed(path, number, line, error)
            first = False
            yield found
    if messages:
        document = Value(messages, source, field="messages")
        yield _read(document, digest.hexdigest(), path, stem, names)
    elif not count:
        raise TraceError("no line", "trajectories, one a line", "Remove the file.", file=source)


def _found(
    value: Any, line: bytes, path: Path, name: str, number: int, names: ToolNames | None
) -> Found:
    document = Value(value, str(path), number)
    return _read(document, hashlib.sha256(line).hexdigest(), path, name, names)


def _failed(path: Path, number: int, line: bytes, error: TraceError) -> Found:
    digest = hashlib.sha256(line).hexdigest()
    return Found(_source(path, number), digest, None, error, path.absolute().parent.name)


def _whole(path: Path, stem: str, names: ToolNames | None, *, is_json: bool) -> Found:
    source = str(path)
    with open_raw(source, "a file of trajectories") as raw:
        content = b"".join(_all_lines(raw, source))
    digest = hashlib.sha256(content).hexdigest()
    try:
        text = _decode(content, source, None)
        value: Any = None
        if is_json or text.lstrip()[:1] in ("[", "{"):
            try:
                value = _json(text, source, None)
            except TraceError:
                if is_json:
                    raise
        if not is_json and not isinstance(value, list | dict):
            value = [line for line in text.split("\n") if line.strip()]
    except TraceError as error:
        return Found(source, digest, None, error, path.absolute().parent.name)
    return _read(Value(value, source), digest, path, stem, names)


def _all_lines(raw: BinaryIO, source: str) -> Iterator[bytes]:
    """An unpacked file's lines, with blank ones, so that a message counts lines as an editor."""
    expected = 1
    for number, line in read_lines(raw, source):
        yield b"\n" * (number - expected)
        expected = number + 1
        yield line


def _read(document: Value, digest: str, path: Path, name: str, names: ToolNames | None) -> Found:
    source = _source(path, document.line)
    folder = path.absolute().parent.name
    try:
        trajectory = read_document(document, name, source, names)
    except TraceError as error:
        return Found(source, digest, None, error, folder)
    return Found(source, digest, trajectory, None, folder)


def _source(path: Path, line: int | None) -> str:
    return str(path) if line is None else f"{path}, line {line}"


def _decode(content: bytes, source: str, line: int | None) -> str:
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise TraceError(
            f"byte 0x{content[error.start]:02x}, which is not UTF-8",
            "text in UTF-8",
            "Save the file as UTF-8.",
            file=source,
            line=line or content.count(b"\n", 0, error.start) + 1,
        ) from None


def _json(text: str, source: str, line: int | None) -> Any:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise TraceError(
            f"text that is not JSON ({printable(str(error))})",
            "one JSON document" + (" a line" if line else ""),
            "Put it right there; several documents, one a line, need the ending .jsonl, and texts, "
            "one a line, the ending .txt.",
            file=source,
            line=line,
        ) from None
    problem = odd_part(value)
    if problem:
        raise TraceError(
            problem,
            f"JSON of at most {MAX_NESTED} levels, with names of whole characters and numbers as "
            "traces have them",
            "Correct it, or leave it out.",
            file=source,
            line=line,
        )
    return value
