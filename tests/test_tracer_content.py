"""Looks, scans, remembered contents and resource names, on files that nobody can trust."""

from __future__ import annotations

import os
import random
import shutil
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from depgpo_jax.tracer import files
from depgpo_jax.tracer.content import Contents, resource_name, resource_path
from depgpo_jax.tracer.files import (
    HIDDEN,
    Changes,
    Scan,
    Snapshot,
    Stamp,
    changed,
    look,
    scan,
    unchanged,
)
from depgpo_jax.tracer.linediff import MAX_TEXT
from depgpo_jax.traces.names import name_problem


@pytest.fixture
def root(tmp_path: Path) -> Iterator[bytes]:
    """An empty folder; every test must give back the descriptors that it opened."""
    before = len(os.listdir("/proc/self/fd"))  # noqa: PTH208
    yield os.fsencode(tmp_path)
    assert len(os.listdir("/proc/self/fd")) == before  # noqa: PTH208


def seen(path: bytes, root: bytes) -> Snapshot:
    snapshot = look(path, root)
    assert snapshot is not None
    return snapshot


# Looks.


def test_a_regular_file(root: bytes, tmp_path: Path):
    (tmp_path / "d").mkdir()
    (tmp_path / "d" / "f").write_bytes(b"a\n")
    (tmp_path / "d" / "f").chmod(0o640)
    snapshot = seen(b"/d/f", root)
    found = (tmp_path / "d" / "f").stat()
    assert snapshot.content == b"a\n"
    assert snapshot.target == b""
    assert snapshot.stamp == Stamp(
        found.st_mode,
        found.st_dev,
        found.st_ino,
        1,
        2,
        found.st_mtime_ns,
        found.st_ctime_ns,
        os.getuid(),
        os.getgid(),
    )
    assert (snapshot.stamp.kind, snapshot.stamp.is_file) == ("file", True)


def test_every_other_kind_is_named_and_never_opened(root: bytes, tmp_path: Path):
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "folder").mkdir()
    (tmp_path / "link").symlink_to("no such file\xff")
    with socket.socket(socket.AF_UNIX) as server:
        folder = os.open(root, os.O_PATH)
        server.bind(f"/proc/self/fd/{folder}/socket")  # a socket's name may have 107 bytes only
        os.close(folder)
    kinds = {}
    for name in (b"/fifo", b"/folder", b"/link", b"/socket"):
        snapshot = seen(name, root)
        assert snapshot.content is None
        assert not snapshot.stamp.is_file
        kinds[name[1:].decode()] = snapshot.stamp.kind
    assert kinds == {"fifo": "fifo", "folder": "directory", "link": "symlink", "socket": "socket"}
    assert seen(b"/link", root).target == "no such file\xff".encode()
    assert seen(b"/null", b"/dev").stamp.kind == "device"
    assert seen(b"/", root).stamp.kind == "directory"


def test_what_is_not_there_is_none(root: bytes, tmp_path: Path):
    (tmp_path / "f").write_bytes(b"")
    for path in (b"/gone", b"/gone/f", b"/f/below", b"/" + b"n" * 300):
        assert look(path, root) is None
    assert look(b"/f", root + b"/gone") is None


def test_no_path_leads_out_of_the_root(root: bytes, tmp_path: Path):
    inside = tmp_path / "inside"
    inside.mkdir()
    (tmp_path / "secret").write_bytes(b"secret")
    (inside / "up").symlink_to("..")
    (inside / "absolute").symlink_to(tmp_path)
    (inside / "direct").symlink_to(tmp_path / "secret")
    below = os.fsencode(inside)
    assert look(b"/up/secret", below) is None
    assert look(b"/absolute/secret", below) is None
    assert look(b"/../secret", below) is None
    assert seen(b"/direct", below).content is None
    assert scan(below, b"/up") == Scan({}, complete=True)
    assert scan(below, b"/..") == Scan({}, complete=True)
    assert set(scan(below).stamps) == {b"/up", b"/absolute", b"/direct"}


def test_a_folder_that_turns_into_a_symlink_meanwhile(root: bytes, tmp_path: Path):
    for name in ("outside", "inside"):
        (tmp_path / name / "d").mkdir(parents=True)
        (tmp_path / name / "d" / "f").write_bytes(name.encode())
    folder, away, link = (tmp_path / "inside" / name for name in ("d", "away", "link"))
    link.symlink_to(tmp_path / "outside" / "d")
    done = threading.Event()

    def swap() -> None:
        while not done.is_set():
            folder.rename(away)
            link.rename(folder)
            folder.rename(link)
            away.rename(folder)

    thread = threading.Thread(target=swap)
    thread.start()
    outside = (tmp_path / "outside" / "d" / "f").stat().st_ino
    below = os.fsencode(tmp_path / "inside")
    found = [look(b"/d/f", below) for _ in range(2000)]
    stamps = [scan(below).stamps.get(b"/d/f") for _ in range(500)]
    done.set()
    thread.join()
    assert {snapshot and snapshot.content for snapshot in found} <= {b"inside", None}
    assert outside not in {stamp and stamp.inode for stamp in stamps}


def test_the_root_may_itself_be_reached_by_a_symlink(root: bytes, tmp_path: Path):
    (tmp_path / "f").write_bytes(b"x")
    (tmp_path / "here").symlink_to(".")
    assert seen(b"/f", root + b"/here").content == b"x"
    assert seen(root + b"/f", b"/proc/self/root").content == b"x"


def test_files_beyond_the_largest_text_are_known_by_stamp(root: bytes, tmp_path: Path):
    for size, content in ((MAX_TEXT, True), (MAX_TEXT + 1, False), (2**30, False)):
        with (tmp_path / "f").open("wb") as file:
            file.truncate(size)
        snapshot = seen(b"/f", root)
        assert snapshot.stamp.size == size
        assert (snapshot.content is not None) == content


def test_reads_are_bounded_whatever_stat_says(
    root: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    status = seen(b"/%d/status" % os.getpid(), b"/proc")
    assert status.stamp.size == 0
    assert status.content
    (tmp_path / "f").write_bytes(b"12345")
    reader = os.open(tmp_path / "f", os.O_RDONLY)
    assert files._read(reader, 0) == b"12345"
    os.lseek(reader, 0, os.SEEK_SET)
    monkeypatch.setattr(files, "MAX_TEXT", 4)
    assert files._read(reader, 0) is None  # it grew since the stat
    os.close(reader)


def denied(*_: object, **__: object) -> int:
    raise PermissionError(13, "not for you")


def test_what_may_not_be_seen_is_not_taken_for_gone(
    root: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    (tmp_path / "d").mkdir()
    (tmp_path / "d" / "f").write_bytes(b"x")
    real = os.open

    def no_right_to_d(path: bytes | str, flags: int, **more: int) -> int:
        if path in (b"d", "d"):
            denied()
        return real(path, flags, **more)

    monkeypatch.setattr(os, "open", no_right_to_d)
    assert look(b"/d/f", root) is HIDDEN
    assert HIDDEN.stamp.kind == "unknown"
    found = scan(root)
    assert (set(found.stamps), found.complete) == ({b"/d"}, False)
    assert scan(root, b"/d") == Scan({}, complete=False)


def test_a_file_without_read_permission_is_known_by_stamp(
    root: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    (tmp_path / "f").write_bytes(b"x")
    real = os.open

    def no_reads(path: bytes | str, flags: int, **more: int) -> int:
        if isinstance(path, str) and path.startswith("/proc/self/fd/"):
            denied()
        return real(path, flags, **more)

    monkeypatch.setattr(os, "open", no_reads)
    snapshot = seen(b"/f", root)
    assert (snapshot.content, snapshot.stamp.size) == (None, 1)


def test_names_of_any_bytes(root: bytes):
    names = [b"\xff\xfe", b"new\nline", b"'quo\"ted'", "é".encode(), b"back\\slash", b" "]
    for name in names:
        Path(os.fsdecode(root + b"/" + name)).write_bytes(name)
    assert set(scan(root).stamps) == {b"/" + name for name in names}
    for name in names:
        assert seen(b"/" + name, root).content == name


# Scans.


def test_a_scan_sees_every_entry_below_a_folder(root: bytes, tmp_path: Path):
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / "a" / "b" / "f").write_bytes(b"123")
    (tmp_path / "a" / "out").symlink_to("/")
    (tmp_path / "skipped").mkdir()
    (tmp_path / "skipped" / "f").write_bytes(b"")
    found = scan(root, skip=[b"/skipped"])
    assert found.complete
    assert set(found.stamps) == {b"/a", b"/a/b", b"/a/b/f", b"/a/out", b"/skipped"}
    assert found.stamps[b"/a/b/f"] == seen(b"/a/b/f", root).stamp
    assert set(scan(root, b"/a").stamps) == {b"/a/b", b"/a/b/f", b"/a/out"}
    assert scan(root, b"/a/") == scan(root, b"/a")
    assert scan(root, b"/gone") == Scan({}, complete=True)
    assert scan(root, b"/a/b/f") == Scan({}, complete=True)


def test_a_scan_ends_at_its_bounds(root: bytes, tmp_path: Path):
    for k in range(5):
        (tmp_path / f"d{k}").mkdir()
        (tmp_path / f"d{k}" / "f").write_bytes(b"")
    found = scan(root, max_entries=7)
    assert (len(found.stamps), found.complete) == (7, False)
    found = scan(root, max_entries=5)
    assert (len(found.stamps), found.complete) == (5, False)
    assert scan(root, max_entries=10).complete
    found = scan(root, max_depth=0)
    assert (len(found.stamps), found.complete) == (5, False)
    assert scan(root, max_depth=1) == scan(root)


def test_folders_nested_deeper_than_any_path_may_be(root: bytes):
    name = b"thirty_characters_in_this_name"
    folder = os.open(root, os.O_RDONLY)
    for _ in range(200):
        os.mkdir(name, dir_fd=folder)
        below = os.open(name, os.O_RDONLY, dir_fd=folder)
        os.close(folder)
        folder = below
    os.close(folder)
    found = scan(root)
    assert (len(found.stamps), found.complete) == (files.MAX_DEPTH + 1, False)
    assert seen(b"/".join([b"", *[name] * 200]), root).stamp.kind == "directory"
    shutil.rmtree(root + b"/" + name)


def test_two_thousand_files_take_about_ten_milliseconds(root: bytes, tmp_path: Path):
    for k in range(2000):
        (tmp_path / f"{k}").write_bytes(b"")
    times: list[float] = []
    for _ in range(5):
        started = time.perf_counter()
        assert len(scan(root).stamps) == 2000
        times.append(time.perf_counter() - started)
    assert min(times) < 0.1  # 8 ms on two free cores


# Differences.


def test_what_commands_do_to_a_folder(root: bytes, tmp_path: Path):
    for name in ["kept", "edited", "resized", "gone", "mode", "linked", "replaced", "kind"]:
        (tmp_path / name).write_bytes(b"old\n")
    (tmp_path / "folder").mkdir()
    (tmp_path / "private").mkdir()
    before = scan(root)
    time.sleep(0.02)  # one tick of the clock of older kernels
    (tmp_path / "edited").write_bytes(b"new\n")
    stamp = before.stamps[b"/edited"]
    os.utime(tmp_path / "edited", ns=(stamp.mtime_ns, stamp.mtime_ns))  # hides it, but for ctime
    (tmp_path / "resized").write_bytes(b"longer\n")
    (tmp_path / "gone").unlink()
    (tmp_path / "mode").chmod(0o755)
    (tmp_path / "linked-to").hardlink_to(tmp_path / "linked")
    (tmp_path / "new").write_bytes(b"old\n")
    (tmp_path / "new").rename(tmp_path / "replaced")
    (tmp_path / "kind").unlink()
    (tmp_path / "kind").symlink_to("kept")
    (tmp_path / "folder" / "f").write_bytes(b"")
    (tmp_path / "private").chmod(0o700)
    assert changed(before, scan(root)) == Changes(
        created=[b"/folder/f", b"/linked-to"],
        removed=[b"/gone"],
        modified=[b"/edited", b"/kind", b"/linked", b"/replaced", b"/resized"],
        meta=[b"/mode", b"/private"],
    )
    assert changed(before, before) == Changes([], [], [], [])


PLAIN = Stamp(0o100644, 1, 2, 1, 10, 100, 100, 0, 0)


@pytest.mark.parametrize(
    ("change", "modified", "meta"),
    [
        ({"size": 11}, True, False),
        ({"mtime_ns": 101}, True, False),
        ({"ctime_ns": 101}, True, False),
        ({"inode": 3}, True, False),
        ({"device": 3}, True, False),
        ({"mode": 0o100755, "ctime_ns": 101}, False, True),
        ({"uid": 1, "ctime_ns": 101}, False, True),
        ({"gid": 1, "ctime_ns": 101}, False, True),
        ({"mode": 0o100755, "mtime_ns": 101, "ctime_ns": 101}, True, True),
        ({"mode": 0o120777}, True, False),
        ({"mode": 0o040755}, True, False),
    ],
)
def test_each_field_of_a_stamp(change: dict[str, int], modified: bool, meta: bool):
    before = Scan({b"/f": PLAIN}, complete=True)
    after = Scan({b"/f": PLAIN._replace(**change)}, complete=True)
    assert changed(before, after) == Changes(
        [], [], [b"/f"] if modified else [], [b"/f"] if meta else []
    )


def test_an_incomplete_scan_proves_no_absence():
    one, none = {b"/f": PLAIN}, dict[bytes, Stamp]()
    assert changed(Scan(none, complete=True), Scan(one, complete=False)).created == [b"/f"]
    assert changed(Scan(none, complete=False), Scan(one, complete=True)).created == []
    assert changed(Scan(one, complete=False), Scan(none, complete=True)).removed == [b"/f"]
    assert changed(Scan(one, complete=True), Scan(none, complete=False)).removed == []


def test_unchanged_compares_the_best_that_is_known():
    small = Snapshot(PLAIN, b"a")
    other = PLAIN._replace(mtime_ns=7, inode=8, mode=0o100755)
    assert unchanged(small, Snapshot(other, b"a"))
    assert not unchanged(small, Snapshot(PLAIN, b"b"))
    large = Snapshot(PLAIN, None)
    assert unchanged(large, Snapshot(PLAIN._replace(ctime_ns=7, mode=0o100755), None))
    assert not unchanged(large, Snapshot(PLAIN._replace(mtime_ns=7), None))
    assert not unchanged(small, Snapshot(PLAIN._replace(size=2), None))
    link = Snapshot(PLAIN._replace(mode=0o120777), None, b"t")
    assert unchanged(link, Snapshot(link.stamp._replace(inode=9), None, b"t"))
    assert not unchanged(link, link._replace(target=b"u"))
    assert not unchanged(small, link)


# Contents.


def test_contents_come_back_until_forgotten():
    contents = Contents()
    snapshot = Snapshot(PLAIN, b"abc")
    assert contents.get("/f") is None
    contents.remember("/f", snapshot)
    assert contents.get("/f") is snapshot
    assert ("/f" in contents, len(contents), list(contents), contents.held) == (
        True,
        1,
        ["/f"],
        3,
    )
    contents.move("/f", "/g")
    assert (contents.get("/f"), contents.get("/g"), contents.held) == (None, snapshot, 3)
    contents.remember("/g", None)
    contents.forget("/never seen")
    assert (contents.get("/g"), len(contents), contents.held) == (None, 0, 0)


def test_a_move_of_the_unknown_forgets_the_target():
    contents = Contents()
    contents.remember("/g", Snapshot(PLAIN, b"abc"))
    contents.move("/f", "/g")
    assert "/g" not in contents


def test_over_the_budget_the_longest_unused_contents_go():
    contents = Contents(budget=10)
    for k, name in enumerate(("/a", "/b", "/c")):
        contents.remember(name, Snapshot(PLAIN._replace(inode=k), b"1234"))
        contents.get("/a")
    held = {name: contents.get(name) for name in contents}
    assert {name: kept and kept.content for name, kept in held.items()} == {
        "/a": b"1234",
        "/b": None,
        "/c": b"1234",
    }
    assert held["/b"] == Snapshot(PLAIN._replace(inode=1), None)
    assert contents.held == 8
    contents.remember("/d", Snapshot(PLAIN, b"more than the budget"))
    assert contents.held == 0
    contents.remember("/b", Snapshot(PLAIN, b"12"))
    assert contents.held == 2


def test_the_bytes_held_always_add_up():
    rng = random.Random(3)
    contents = Contents(budget=100)
    for _ in range(3000):
        name, other = rng.choices("abcdefgh", k=2)
        match rng.randrange(4):
            case 0:
                contents.forget(name)
            case 1:
                contents.move(name, other)
            case 2:
                contents.get(name)
            case _:
                data = b"x" * rng.randrange(60) if rng.random() < 0.8 else None
                contents.remember(name, Snapshot(PLAIN._replace(inode=rng.randrange(9)), data))
        kept = [contents.get(name) for name in contents]
        assert contents.held == sum(len(one.content or b"") for one in kept if one) <= 100


def test_hard_links_are_one_resource(root: bytes, tmp_path: Path):
    contents = Contents()
    (tmp_path / "a").write_bytes(b"x\n")
    contents.remember("/a", look(b"/a", root))
    assert contents.resource_of("/a", seen(b"/a", root).stamp) == "/a"
    (tmp_path / "h").hardlink_to(tmp_path / "a")
    assert contents.resource_of("/h", seen(b"/h", root).stamp) == "/a"
    assert contents.resource_of("/a", seen(b"/a", root).stamp) == "/a"
    contents.remember("/h", look(b"/h", root))
    contents.remember("/a", look(b"/a", root))
    assert contents.resource_of("/a", seen(b"/a", root).stamp) == "/a"
    (tmp_path / "other").write_bytes(b"")
    assert contents.resource_of("/other", seen(b"/other", root).stamp) == "/other"


def test_a_link_whose_first_name_is_gone_goes_by_its_own():
    contents = Contents()
    linked = PLAIN._replace(links=2)
    contents.remember("/a", Snapshot(linked, b""))
    contents.forget("/a")
    assert contents.resource_of("/h", linked) == "/h"
    folder = PLAIN._replace(mode=0o040755, links=2)
    contents.remember("/d", Snapshot(folder, None))
    assert contents.resource_of("/e", folder) == "/e"


# Names.


@pytest.mark.parametrize(
    ("path", "name"),
    [
        (b"/app/a.txt", "/app/a.txt"),
        (b"/a\\b", "/a\\\\b"),
        (b"/\xff", "/\\xff"),
        (b"/\\xff", "/\\\\xff"),
        (b"/\\\xff", "/\\\\\\xff"),
        ("/é 你".encode(), "/é 你"),
        (b"/\xc3\xa9\xc3", "/é\\xc3"),
        (b"/\xed\xa0\x80", "/\\xed\\xa0\\x80"),
        (b"/new\nline\"'\t", "/new\nline\"'\t"),
    ],
)
def test_names_of_paths(path: bytes, name: str):
    assert resource_name(path) == name
    assert resource_path(name) == path
    assert name_problem(name) is None


def test_both_spellings_of_an_escape_mean_one_byte():
    assert resource_path("/\\xFF") == resource_path("/\\xff") == b"/\xff"


byte = st.sampled_from([bytes([k]) for k in b"\\x8fa" + bytes(range(0x80, 0x100))])
chunk = st.one_of(st.binary(max_size=4), byte, st.text(max_size=2).map(lambda s: s.encode()))


@given(st.lists(chunk, min_size=1, max_size=8).map(b"".join))
def test_every_name_a_file_can_have_comes_back(name: bytes):
    name = name.replace(b"/", b"_").replace(b"\0", b"_")
    path = b"/d/" + (b"dots" if name in (b"", b".", b"..") else name)
    assert resource_path(resource_name(path)) == path
    assert name_problem(resource_name(path)) is None
    assert name_problem("meta:" + resource_name(path)) is None
