"""What counts as inspected, and what does not."""

from __future__ import annotations

from depgpo_jax.tracer.events import Event
from depgpo_jax.tracer.verifier import inspected

WRITE = frozenset({"O_WRONLY", "O_CREAT", "O_TRUNC"})


def look(call: str, path: str, error: str = "", **more: object) -> Event:
    result = -1 if error else 0
    return Event(7, call, path.encode(), result=result, error=error, **more)  # pyright: ignore[reportArgumentType]


def test_looks_count_whether_they_find_something_or_not():
    events = [
        look("open", "/app/a"),
        look("look", "/app/missing", "ENOENT"),
        look("look", "/app/a/b", "ENOTDIR"),
        look("open", "/app/a"),
        look("open", "/app/broken", "EIO"),
    ]
    assert inspected(events, ()) == ["/app/a", "/app/missing", "/app/a/b"]


def test_what_the_verifier_wrote_itself_does_not():
    events = [
        look("open", "/tmp/work", flags=WRITE),
        look("open", "/tmp/work"),
        look("look", "/tmp/work"),
        look("mkdir", "/tmp/folder"),
        look("look", "/tmp/folder"),
        # It looked before it wrote: that look was at somebody else's file.
        look("open", "/app/out"),
        look("open", "/app/out", flags=WRITE),
    ]
    assert inspected(events, ()) == ["/app/out"]


def test_noise_and_its_own_files_are_left_out_unless_the_rollout_wrote_them():
    events = [look("open", path) for path in ("/usr/bin/ls", "/etc/passwd", "/tests/test.sh", "/")]
    events += [look("open", "/logs/verifier/reward.json"), look("open", "/usr/local/bin/tool")]
    own = (b"/tests", b"/logs")
    assert inspected(events, (), own) == []
    assert inspected(events, {"/usr/local/bin/tool", "/tests/test.sh"}, own) == [
        "/usr/local/bin/tool"
    ]


def test_modes_count_where_a_command_changed_them():
    events = [look("look", "/app/run.sh"), look("look", "/app/other.sh")]
    assert inspected(events, {"meta:/app/run.sh"}) == [
        "/app/run.sh",
        "meta:/app/run.sh",
        "/app/other.sh",
    ]


def test_connections_count_also_refused_ones():
    events = [
        Event(7, "connect", detail="tcp:8080"),
        Event(7, "connect", detail="tcp:8081", result=-1, error="ECONNREFUSED"),
        Event(7, "connect", detail="tcp:8082", result=-1, error="ENETUNREACH"),
        Event(7, "connect", b"/run/app.sock", detail="unix"),
        Event(7, "connect", detail="udp:0"),
    ]
    assert inspected(events, ()) == ["tcp:8080", "tcp:8081", "unix:/run/app.sock"]


def test_a_database_and_its_helpers_are_one_resource():
    events = [look("open", "/app/x.db-wal"), look("open", "/app/x.db")]
    assert inspected(events, ()) == ["/app/x.db"]


def test_strange_names_are_escaped():
    assert inspected([Event(7, "open", b"/app/\xff\\n")], ()) == ["/app/\\xff\\\\n"]
