from depgpo_jax.tracer.events import Event
from depgpo_jax.tracer.processes import MOST_ENDED, Processes


def fork(parent: int, child: int) -> Event:
    return Event(parent, "fork", result=child, detail=str(child))


def program(pid: int, path: bytes, result: int = 0) -> Event:
    return Event(pid, "exec", path, result=result)


def end(pid: int, status: str = "0") -> Event:
    return Event(pid, "exit", detail=status)


def group(member: int, leader: int) -> Event:
    return Event(member, "group", detail=f"{member}:{leader}")


def kill(pid: int, detail: str, signal: str = "SIGKILL") -> Event:
    return Event(pid, "kill", flags=frozenset({signal}), detail=detail)


def test_a_process_keeps_the_command_of_its_birth() -> None:
    tree = Processes()
    tree.update(program(1, b"/usr/bin/bwrap"))
    tree.update(fork(1, 2))
    tree.update(program(2, b"/usr/bin/bash"))
    assert tree.command_of(2) is None
    tree.begin(0, shell=2)
    tree.update_all(
        [fork(2, 3), program(3, b"/usr/bin/python3"), fork(3, 4), Event(4, "unlink", b"/a")]
    )
    tree.begin(1, shell=2)
    tree.update_all([fork(2, 5), fork(3, 6)])
    assert [tree.command_of(pid) for pid in (1, 2, 3, 4, 5, 6)] == [None, 1, 0, 0, 1, 0]
    assert [process.pid for process in tree.still_running(0)] == [3, 4, 6]
    assert [process.pid for process in tree.still_running(1)] == [5]
    tree.begin(None, shell=2)
    assert tree.command_of(2) is None


def test_names_come_from_exec_that_worked() -> None:
    tree = Processes()
    tree.begin(0, shell=2)
    tree.update_all([program(2, b"/bin/bash"), fork(2, 3), program(3, b"/bin/x", -1)])
    assert tree.alive[3].name == b"bash"
    tree.update(program(3, b"/opt/server"))
    assert (tree.alive[3].name, tree.alive[3].parent) == (b"server", 2)


def test_the_end_of_a_process() -> None:
    tree = Processes()
    tree.begin(0, shell=2)
    tree.update_all([fork(2, 3), fork(3, 4), end(3, "SIGKILL"), end(99)])
    assert [process.pid for process in tree.still_running(0)] == [4]
    ended = tree.get(3)
    assert ended is not None
    assert (ended.status, tree.command_of(3)) == ("SIGKILL", 0)
    assert tree.command_of(99) is None
    tree.begin(1, shell=2)
    tree.update(fork(2, 3))  # the pid came back
    again = tree.get(3)
    assert again is not None
    assert (again.status, again.command) == ("", 1)


def test_a_child_of_the_dead_belongs_to_its_command() -> None:
    tree = Processes()
    tree.begin(4, shell=2)
    tree.update_all([fork(2, 3), end(3, "SIGKILL"), fork(3, 5)])
    assert [process.pid for process in tree.still_running(4)] == [5]
    assert 3 not in tree.alive


def test_kill_targets() -> None:
    tree = Processes()
    tree.update(fork(1, 2))
    tree.begin(0, shell=2)
    tree.update_all([fork(2, 3), group(3, 3), fork(3, 4), fork(2, 5), group(2, 2), group(77, 77)])

    def pids(detail: str, sender: int = 2, signal: str = "SIGKILL") -> list[int]:
        return [process.pid for process in tree.targets(kill(sender, detail, signal))]

    assert pids("4") == [4]
    assert pids("?12") == []
    assert pids("88") == []
    assert pids("group:3") == [3, 4]
    assert pids("group:own") == [2]
    assert pids("group:own", sender=5) == []  # no group was ever said
    assert pids("group:0") == []
    assert pids("all") == [3, 4, 5]
    tree.update(end(4, "SIGKILL"))
    assert pids("group:3") == [3, 4]  # its death may stand before the kill's line
    assert pids("group:3", signal="SIGTERM") == [3]
    assert pids("4") == [4]


def test_memory_is_bounded() -> None:
    tree = Processes()
    tree.begin(0, shell=1)
    for pid in range(2, MOST_ENDED + 100):
        tree.update_all([fork(1, pid), end(pid)])
    assert len(tree.ended) == MOST_ENDED
    assert list(tree.alive) == [1]
