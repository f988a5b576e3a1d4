"""Files of traces: streaming, compression, two passes, atomic output, memory."""

import errno
import gc
import gzip
import io
import json
import os
import sys
import tracemalloc
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import zstandard

from depgpo_jax.errors import TraceError
from depgpo_jax.traces import (
    BadLine,
    Command,
    Step,
    Trace,
    Write,
    encode_trace,
    index_traces,
    open_output,
    paused_gc,
    read_traces,
    write_traces,
)
from depgpo_jax.traces.id_table import IdTable

ROOT = Path(__file__).resolve().parent
ENDINGS = ["jsonl", "jsonl.gz", "jsonl.zst"]


def trace(name: str, **fields: Any) -> Trace:
    command = Command(reads=["/a"], writes=[Write("/b", lines=[(1, 3)])])
    return Trace(1, name, ["/b"], [Step(3, [command])], **fields)


def some_traces(count: int) -> list[Trace]:
    return [trace(f"t/{k}", group_id=f"g/{k // 4}", reward=k / 2) for k in range(count)]


def raw_lines(*lines: bytes) -> bytes:
    return b"".join(line + b"\n" for line in lines)


GOOD = encode_trace(trace("good"))
OTHER = encode_trace(trace("other"))
BAD = GOOD.replace(b"good", b"bad").replace(b"[1,3]", b"[3,1]")


class FakeStream:
    def __init__(self, content: bytes = b"") -> None:
        self.buffer = io.BytesIO(content)


@pytest.mark.parametrize("ending", ENDINGS)
def test_what_is_written_is_read(tmp_path: Path, ending: str):
    path = tmp_path / f"runs.{ending}"
    assert write_traces(path, some_traces(30)) == 30
    assert list(read_traces(path)) == some_traces(30)
    assert list(read_traces(str(path))) == some_traces(30)
    with index_traces(path) as index:
        assert list(index.read()) == some_traces(30)
    assert os.listdir(tmp_path) == [path.name]  # noqa: PTH208


@pytest.mark.parametrize("name", ["golden/traces.jsonl", "real/log-summary-group.jsonl"])
@pytest.mark.parametrize("ending", ENDINGS)
def test_recorded_files_survive_a_round_trip(tmp_path: Path, name: str, ending: str):
    traces = list(read_traces(ROOT / name))
    write_traces(tmp_path / f"copy.{ending}", traces)
    assert list(read_traces(tmp_path / f"copy.{ending}")) == traces


def test_the_real_group_is_what_its_readme_says():
    with index_traces(ROOT / "real" / "log-summary-group.jsonl") as index:
        assert list(index.rewards) == [1, 1, 1, 0, 0]
        assert list(index.group_ids) == ["log-summary"]
        writes = [w for t in index.read() for c in t.commands for w in c.writes]
    assert writes
    assert all(write.whole is True for write in writes)


@pytest.mark.parametrize(
    ("content", "ids"),
    [
        (b"", []),
        (b"\n\r\n  \t\n", []),
        (GOOD, ["good"]),
        (b"\n" + GOOD + b"\r\n\r\n \n" + OTHER, ["good", "other"]),
        (b" " + GOOD + b" \r\n", ["good"]),
    ],
)
@pytest.mark.parametrize("ending", ENDINGS)
def test_blank_lines_crlf_and_empty_files_are_fine(
    tmp_path: Path, content: bytes, ids: list[str], ending: str
):
    path = tmp_path / f"f.{ending}"
    with open_output(path) as out:
        out.write(content)
    assert [t.trace_id for t in read_traces(path)] == ids
    with index_traces(path) as index:
        assert [t.trace_id for t in index.read()] == ids == list(index.trace_ids)
        assert len(index) == len(ids)


def test_an_empty_compressed_file_is_an_empty_file(tmp_path: Path):
    for ending in ENDINGS:
        (tmp_path / f"f.{ending}").write_bytes(b"")
        assert list(read_traces(tmp_path / f"f.{ending}")) == []


@pytest.mark.parametrize(
    ("content", "line", "words"),
    [
        (b"\n\n" + raw_lines(GOOD, BAD), 4, "found [3, 1]"),
        (b"\xef\xbb\xbf" + raw_lines(GOOD), 1, "byte-order mark"),
        (b"\xef\xbb\xbf\n", 1, "byte-order mark"),
        (b"\x0b\n" + GOOD, 1, "not JSON"),
        (raw_lines(GOOD)[:40], 1, "not JSON"),
        (raw_lines(GOOD, b"", OTHER, GOOD), 4, '"good" again, the id of trace 1 of the file'),
    ],
)
def test_a_bad_line_is_an_error_with_its_number(
    tmp_path: Path, content: bytes, line: int, words: str
):
    path = tmp_path / "f.jsonl"
    path.write_bytes(content)
    reads: list[Callable[[], object]] = [
        lambda: list(read_traces(path)),
        lambda: index_traces(path),
    ]
    for read in reads:
        with pytest.raises(TraceError) as caught:
            read()
        assert (caught.value.file, caught.value.line) == (str(path), line)
        assert words in str(caught.value)


def test_reading_streams(tmp_path: Path):
    path = tmp_path / "f.jsonl"
    path.write_bytes(raw_lines(GOOD, BAD))
    traces = read_traces(path)
    assert next(traces).trace_id == "good"
    with pytest.raises(TraceError, match="line 2"):
        next(traces)


def test_skipped_lines_are_listed_and_left_out(tmp_path: Path):
    path = tmp_path / "f.jsonl"
    path.write_bytes(raw_lines(b"\xef\xbb\xbf", GOOD, BAD, b"", GOOD, b"{", OTHER))
    with index_traces(path, skip_bad=True) as index:
        assert [(bad.line, bad.trace_id) for bad in index.bad_lines] == [
            (1, None),
            (3, "bad"),
            (5, "good"),
            (6, None),
        ]
        assert all(bad.message.startswith(f"{path}, line ") for bad in index.bad_lines)
        for _ in range(2):
            assert [t.trace_id for t in index.read()] == ["good", "other"]
        assert list(index.trace_ids) == ["good", "other"]
        assert len(index) == len(index.groups) == len(index.rewards) == 2
    assert isinstance(index.bad_lines[0], BadLine)


def test_the_index_holds_what_group_statistics_need(tmp_path: Path):
    path = tmp_path / "f.jsonl"
    traces = [
        trace("a", group_id="g", reward=1.0),
        trace("b", reward=-2.0),
        trace("c", group_id="g", invalid=""),
        trace("g"),
    ]
    write_traces(path, traces)
    index = index_traces(path)
    assert [index.reward(k) for k in range(4)] == [1.0, -2.0, None, None]
    assert [index.is_invalid(k) for k in range(4)] == [False, False, True, False]
    assert [index.group_id(k) for k in range(4)] == ["g", "b", "g", "g"]
    assert list(index.groups) == [0, 1, 0, 0]
    assert index.group_ids[:] == ["g", "b"]
    assert index.trace_ids.number("c") == 2


@pytest.mark.parametrize("during", [False, True])
def test_a_file_that_changes_between_the_passes_is_an_error(tmp_path: Path, during: bool):
    path = tmp_path / "f.jsonl"
    write_traces(path, some_traces(3))
    index = index_traces(path)
    traces = index.read()
    if during:
        next(traces)
    with path.open("ab") as out:
        out.write(GOOD + b"\n")
    with pytest.raises(TraceError, match="found a file that changed while it was read"):
        list(traces)


def test_a_file_replaced_by_an_equal_one_counts_as_changed(tmp_path: Path):
    path = tmp_path / "f.jsonl"
    write_traces(path, some_traces(3))
    index = index_traces(path)
    write_traces(path, some_traces(3))
    with pytest.raises(TraceError, match="give a copy"):
        list(index.read())


def test_a_file_that_loses_its_lines_while_it_is_read_is_an_error(tmp_path: Path):
    path = tmp_path / "f.jsonl"
    write_traces(path, some_traces(3000))
    index = index_traces(path)
    traces = index.read()
    next(traces)
    path.write_bytes(b"x" * path.stat().st_size)
    with pytest.raises(TraceError, match="found a file that changed while it was read"):
        list(traces)


@pytest.mark.parametrize("ending", ENDINGS[1:])
@pytest.mark.parametrize("cut", [3, 20, -1])
def test_a_compressed_file_that_is_cut_is_an_error(tmp_path: Path, ending: str, cut: int):
    path = tmp_path / f"f.{ending}"
    write_traces(path, some_traces(500))
    path.write_bytes(path.read_bytes()[:cut])
    for skip_bad in (False, True):
        with pytest.raises(TraceError, match=r"that end too early after \d+ lines") as caught:
            index_traces(path, skip_bad=skip_bad)
        assert caught.value.file == str(path)
        assert "Write or copy the file again" in caught.value.remedy


@pytest.mark.parametrize("ending", ENDINGS[1:])
def test_a_compressed_file_that_is_damaged_is_an_error(tmp_path: Path, ending: str):
    path = tmp_path / f"f.{ending}"
    path.write_bytes(raw_lines(GOOD))
    with pytest.raises(TraceError, match=r"found damaged compressed data .* after 0 lines"):
        list(read_traces(path))
    write_traces(path, some_traces(500))
    content = bytearray(path.read_bytes())
    content[100:140] = bytes(40)
    path.write_bytes(content)
    with pytest.raises(TraceError):
        list(read_traces(path))


@pytest.mark.parametrize("ending", ENDINGS[1:])
def test_compressed_files_may_be_joined(tmp_path: Path, ending: str):
    path = tmp_path / f"f.{ending}"
    write_traces(path, [trace("a")])
    first = path.read_bytes()
    write_traces(path, [trace("b")])
    path.write_bytes(first + path.read_bytes())
    assert [t.trace_id for t in read_traces(path)] == ["a", "b"]


def test_zstd_frames_of_every_kind_are_read(tmp_path: Path):
    skippable = b"\x50\x2a\x4d\x18\x04\x00\x00\x00abcd"
    path = tmp_path / "f.zst"
    streamed = zstandard.ZstdCompressor(write_checksum=True).compressobj()
    frame = streamed.compress(raw_lines(OTHER)) + streamed.flush()
    path.write_bytes(zstandard.compress(raw_lines(GOOD)) + skippable + frame)
    assert [t.trace_id for t in read_traces(path)] == ["good", "other"]


def test_compressed_output_depends_on_the_traces_only(tmp_path: Path):
    for ending in ENDINGS[1:]:
        contents: set[bytes] = set()
        for name in ("a", "b"):
            write_traces(tmp_path / f"{name}.{ending}", some_traces(3))
            contents.add((tmp_path / f"{name}.{ending}").read_bytes())
        assert len(contents) == 1


def test_standard_input_and_output(monkeypatch: pytest.MonkeyPatch):
    out = FakeStream()
    monkeypatch.setattr(sys, "stdout", out)
    assert write_traces("-", some_traces(3)) == 3
    content = out.buffer.getvalue()
    monkeypatch.setattr(sys, "stdin", FakeStream(content))
    assert list(read_traces("-")) == some_traces(3)
    monkeypatch.setattr(sys, "stdin", FakeStream(content + BAD))
    with pytest.raises(TraceError, match=r"^<stdin>, line 4"):
        list(read_traces("-"))
    monkeypatch.setattr(sys, "stdin", FakeStream(content))
    with index_traces("-") as index:
        assert index.source == "<stdin>"
        for _ in range(2):
            assert list(index.read()) == some_traces(3)
        spool = index._spool
    assert spool is not None
    assert spool.closed


def test_standard_input_with_an_error_leaves_no_copy_open(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(sys, "stdin", FakeStream(BAD))
    with pytest.raises(TraceError, match="<stdin>, line 1"):
        index_traces("-")


def test_a_pipe_is_read_twice_from_a_copy():
    read_end, write_end = os.pipe()
    os.write(write_end, raw_lines(GOOD, OTHER))
    os.close(write_end)
    with index_traces(f"/dev/fd/{read_end}") as index:
        assert [t.trace_id for t in index.read()] == ["good", "other"]
    os.close(read_end)


@pytest.mark.parametrize("kind", ["missing", "directory"])
def test_a_file_that_cannot_be_read_is_an_error(tmp_path: Path, kind: str):
    path = tmp_path / "f.jsonl"
    if kind == "directory":
        path.mkdir()
    with pytest.raises(TraceError) as caught:
        list(read_traces(path))
    reason = errno.ENOENT if kind == "missing" else errno.EISDIR
    assert str(caught.value) == (
        f"{path}: found no readable file ({os.strerror(reason)}). Allowed: a file of traces, or - "
        "for standard input. Check the path and its permissions."
    )


def failing(*traces: Trace) -> Iterator[Trace]:
    yield from traces
    raise KeyboardInterrupt


@pytest.mark.parametrize("ending", ENDINGS)
@pytest.mark.parametrize("existing", [False, True])
def test_a_failed_write_leaves_nothing_behind(tmp_path: Path, ending: str, existing: bool):
    path = tmp_path / f"f.{ending}"
    if existing:
        path.write_bytes(b"before")
    bad = Trace(1, "bad", ["relative"], [])
    with pytest.raises(TraceError, match='trace "bad", verifier'):
        write_traces(path, [trace("a"), bad])
    with pytest.raises(TraceError, match='"a" again, the id of trace 1'):
        write_traces(path, [trace("a"), trace("b"), trace("a")])
    with pytest.raises(KeyboardInterrupt):
        write_traces(path, failing(trace("a")))
    assert [p.read_bytes() for p in tmp_path.iterdir()] == ([b"before"] if existing else [])


def test_output_appears_at_the_end_only(tmp_path: Path):
    path = tmp_path / "f.txt"
    with open_output(path) as out:
        out.write(b"x")
        assert not path.exists()
    assert path.read_bytes() == b"x"


def test_output_keeps_permissions_and_links(tmp_path: Path):
    path, link = tmp_path / "f", tmp_path / "link"
    path.write_bytes(b"before")
    path.chmod(0o640)
    link.symlink_to(path)
    write_traces(link, [])
    assert link.is_symlink()
    assert path.read_bytes() == b""
    assert path.stat().st_mode & 0o777 == 0o640
    write_traces(tmp_path / "new", [])
    mask = os.umask(0)
    os.umask(mask)
    assert (tmp_path / "new").stat().st_mode & 0o777 == 0o666 & ~mask


def test_output_to_a_device_does_not_replace_it():
    write_traces("/dev/null", some_traces(3))
    assert Path("/dev/null").is_char_device()


@pytest.mark.parametrize(("place", "code"), [("nowhere/f", errno.ENOENT), (".", errno.EISDIR)])
def test_output_that_cannot_be_created_is_an_error(tmp_path: Path, place: str, code: int):
    with pytest.raises(TraceError) as caught:
        write_traces(tmp_path / place, [])
    assert f"found a place where no file can be written ({os.strerror(code)})" in str(caught.value)
    assert "Create the directory" in caught.value.remedy


@pytest.mark.parametrize("ending", ENDINGS)
def test_progress_ends_at_the_size_of_the_file(tmp_path: Path, ending: str):
    path = tmp_path / f"f.{ending}"
    write_traces(path, some_traces(8000))
    size = path.stat().st_size
    calls: list[tuple[int, int | None]] = []
    index = index_traces(path, progress=lambda done, total: calls.append((done, total)))
    assert {total for _, total in calls} == {size}
    positions = [done for done, _ in calls]
    assert positions == sorted(positions)
    assert positions[-1] == size
    assert len(positions) > 2
    first = len(calls)
    assert (
        sum(1 for _ in index.read(progress=lambda done, total: calls.append((done, total)))) == 8000
    )
    assert calls[first:] == calls[:first]


def test_progress_without_a_size(monkeypatch: pytest.MonkeyPatch):
    content = b"".join(encode_trace(t) + b"\n" for t in some_traces(4000))
    monkeypatch.setattr(sys, "stdin", FakeStream(content))
    calls: list[tuple[int, int | None]] = []
    assert sum(1 for _ in read_traces("-", progress=lambda d, t: calls.append((d, t)))) == 4000
    assert calls
    assert {total for _, total in calls} == {None}
    assert calls[-1][0] > 0


def test_a_very_long_line_is_read(tmp_path: Path):
    path = tmp_path / "f.jsonl.zst"
    long = Trace(1, "long", [], [Step(0, [Command(text="x" * 20_000_000)])])
    write_traces(path, [long, trace("a")])
    assert [t.trace_id for t in read_traces(path)] == ["long", "a"]


def test_the_index_takes_few_bytes_a_trace(tmp_path: Path):
    path = tmp_path / "f.jsonl"
    count = 20_000
    with path.open("wb") as out:
        for k in range(count):
            name = f"0123456789abcdef0123456789abcdef/{k:08}"
            row = {
                "version": 1,
                "trace_id": name,
                "group_id": f"g{name}",
                "verifier": [],
                "steps": [],
            }
            out.write(json.dumps(row).encode() + b"\n")
    tracemalloc.start()
    index = index_traces(path)
    held, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert len(index) == count
    assert held / count < 200
    assert peak / count < 250  # a table that grows holds its old slots for a moment


def test_the_table_of_ids_behaves_like_a_list_without_repetitions():
    table = IdTable()
    names = [f"é{k % 700}" for k in range(3000)]
    assert [table.add(name) for name in names] == [(k % 700, k < 700) for k in range(3000)]
    assert len(table) == 700
    assert list(table) == names[:700]
    assert table[-1] == "é699"
    assert table[2:4] == ["é2", "é3"]
    assert table.number("é5") == 5
    assert table.number("nothing") is None
    assert "é5" in table
    assert 5 not in table
    assert 0 < table.nbytes < 200 * 700
    with pytest.raises(IndexError):
        table[700]


def test_the_collector_is_paused_and_restored():
    assert gc.isenabled()
    with paused_gc():
        assert not gc.isenabled()
        with paused_gc():
            assert not gc.isenabled()
        assert not gc.isenabled()
    assert gc.isenabled()


def test_reading_leaves_the_collector_on_between_traces(tmp_path: Path):
    path = tmp_path / "f.jsonl"
    path.write_bytes(raw_lines(GOOD, BAD))
    traces = read_traces(path)
    next(traces)
    assert gc.isenabled()
    with pytest.raises(TraceError):
        next(traces)
    assert gc.isenabled()


def test_gzip_of_other_tools_is_read(tmp_path: Path):
    path = tmp_path / "f.gz"
    path.write_bytes(gzip.compress(raw_lines(GOOD)))
    assert [t.trace_id for t in read_traces(path)] == ["good"]
