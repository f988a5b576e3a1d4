import posixpath
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from depgpo_jax.tracer.events import Event
from depgpo_jax.tracer.strace_log import LONGEST_LINE, Parser, parse


def h(text: bytes | str) -> str:
    raw = text.encode() if isinstance(text, str) else text
    return "".join(f"\\x{byte:02x}" for byte in raw)


AT = f"AT_FDCWD<{h('/app')}>"
CLONE = "clone(child_stack=NULL, flags=CLONE_CHILD_SETTID|SIGCHLD, child_tidptr=0x7f00a10)"


def log_of(*lines: str) -> bytes:
    return "".join(line + "\n" for line in lines).encode()


def events_of(*lines: str) -> list[Event]:
    events, rest = parse(
        log_of(f"9 openat({AT}, {q('/etc/start')}, O_RDONLY) = -1 EIO (x)", *lines)
    )
    assert rest == b""
    return events[1:]


def q(text: bytes | str) -> str:
    return f'"{h(text)}"'


def short(event: Event) -> tuple[object, ...]:
    """Only what is not empty."""
    fields = event._asdict()
    fields["flags"] = tuple(sorted(event.flags))
    return tuple(value for value in fields.values() if value not in (b"", "", (), 0))


NOT_UTF8 = b"to\xff"

SINGLE = [
    (f"openat({AT}, {q('a')}, O_RDONLY) = 3<{h('/data/a')}>", ("open", b"/data/a", ("O_RDONLY",))),
    (
        f"openat({AT}, {q('a/../b')}, O_WRONLY|O_CREAT, 0666) = -1 EACCES (Permission denied)",
        ("open", b"/app/b", ("O_CREAT", "O_WRONLY"), -1, "EACCES"),
    ),
    (f"openat({AT}, {q('.')}, O_RDONLY) = 3", ("open", b"/app", ("O_RDONLY",))),
    (
        f"openat(4<{h('/d')}>, {q('x')}, O_RDONLY) = -1 ENOENT (No)",
        ("open", b"/d/x", ("O_RDONLY",), -1, "ENOENT"),
    ),
    (f"openat(4, {q('x')}, O_RDONLY) = -1 ENOENT (No)", None),
    (
        f"openat({AT}, {q('/y')}..., O_RDONLY) = -1 ENAMETOOLONG (File name too long)",
        ("open", b"/y", ("CUT", "O_RDONLY"), -1, "ENAMETOOLONG"),
    ),
    (
        f"openat({AT}, NULL, O_RDONLY) = -1 EFAULT (Bad address)",
        ("open", b"/app", ("O_RDONLY",), -1, "EFAULT"),
    ),
    (
        f"openat({AT}, {q('t')}, O_RDWR|O_TMPFILE, 0600) = 3<{h('/app/#12')}>(deleted)",
        ("open", b"/app/#12", ("DELETED", "O_RDWR", "O_TMPFILE")),
    ),
    (
        f"openat(AT_FDCWD<{h('/old')}>(deleted), {q('t')}, O_RDONLY) = -1 ENOENT (No)",
        ("open", b"/old/t", ("O_RDONLY",), -1, "ENOENT"),
    ),
    (f"openat({AT}, {q('/dev/null')}, O_RDWR) = 3<{h('/dev/null')}<char 1:3>>", None),
    (
        f"openat({AT}, {q('/dev/shm/a')}, O_RDWR) = 3<{h('/dev/shm/a')}>",
        ("open", b"/dev/shm/a", ("O_RDWR",)),
    ),
    (
        f"openat({AT}, {q('/proc/self/cwd/f')}, O_RDONLY) = 3<{h('/app/f')}>",
        ("open", b"/app/f", ("O_RDONLY",)),
    ),
    (f"openat({AT}, {q('/proc/x')}, O_RDONLY) = -1 ENOENT (No)", None),
    (
        f"openat({AT}, {q('a')}, O_RDONLY) = ? ERESTARTSYS (To be restarted if SA_RESTART is set)",
        None,
    ),
    (f"open({q('a')}, O_RDONLY) = 3<{h('/app/a')}>", ("open", b"/app/a", ("O_RDONLY",))),
    (f"open({q('a')}, O_RDONLY|0x8000000) = 3<{h('/app/a')}>", ("open", b"/app/a", ("O_RDONLY",))),
    (
        f"creat({q('a')}, 0644) = 3<{h('/app/a')}>",
        ("open", b"/app/a", ("O_CREAT", "O_TRUNC", "O_WRONLY")),
    ),
    (
        f"openat2({AT}, {q('c')}, {{flags=O_RDWR|O_CREAT, mode=0644, resolve=RESOLVE_BENEATH}}, 24)"
        f" = 11<{h('/app/c')}>",
        ("open", b"/app/c", ("O_CREAT", "O_RDWR", "RESOLVE_BENEATH")),
    ),
    (
        f"open_by_handle_at(5<{h('/')}>, {{handle_bytes=8}}, O_RDONLY) = 3<{h('/x')}>",
        ("open", b"/x", ("O_RDONLY",)),
    ),
    (f"execve({q('/bin/true')}, 0x7ffd, 0x7ffe) = 0", ("exec", b"/bin/true")),
    (f"execve({q('/proc/self/exe')}, 0x7ffd, 0x7ffe) = 0", ("exec", b"/proc/self/exe")),
    (f"execve({q('./t')}, 0x7ffd, 0x7ffe) = -1 ENOENT (No)", ("exec", b"/app/t", -1, "ENOENT")),
    (f'execve({q("/t")}, ["{h("t")}", "{h("a")}"...], 0x7ffe /* 3 vars */) = 0', ("exec", b"/t")),
    (f'execveat(3<{h("/bin/x")}>, "", 0x7, 0x8, AT_EMPTY_PATH) = 0', ("exec", b"/bin/x")),
    (f"rename({q('a')}, {q('/b/')}) = 0", ("rename", b"/app/a", b"/b")),
    (
        f"renameat2({AT}, {q('a')}, 4<{h('/d')}>, {q('b')}, RENAME_EXCHANGE) = 0",
        ("rename", b"/app/a", b"/d/b", ("RENAME_EXCHANGE",)),
    ),
    (f"link({q('a')}, {q('b')}) = -1 EEXIST (x)", ("link", b"/app/a", b"/app/b", -1, "EEXIST")),
    (
        f'linkat(3<{h("/t/#1")}>(deleted), "", {AT}, {q("b")}, AT_EMPTY_PATH) = 0',
        ("link", b"/t/#1", b"/app/b", ("AT_EMPTY_PATH", "DELETED")),
    ),
    (f"symlink({q('to')}, {q('l')}) = 0", ("symlink", b"/app/l", "to")),
    (f"symlinkat({q(NOT_UTF8)}, {AT}, {q('l')}) = 0", ("symlink", b"/app/l", "to\udcff")),
    (f"unlink({q('a')})        = 0", ("unlink", b"/app/a")),
    (f"unlinkat(3<{h('/d')}>, {q('a')}, AT_REMOVEDIR) = 0", ("unlink", b"/d/a", ("AT_REMOVEDIR",))),
    (f"rmdir({q('a')}) = 0", ("unlink", b"/app/a")),
    (f"mkdir({q('a')}, 0777) = 0", ("mkdir", b"/app/a")),
    (f"mknodat({AT}, {q('f')}, S_IFIFO|0666) = 0", ("mknod", b"/app/f", ("S_IFIFO",))),
    (f"truncate({q('a')}, 5) = 0", ("truncate", b"/app/a")),
    (f"ftruncate(3<{h('/app/a')}>(deleted), 3) = 0", ("truncate", b"/app/a", ("DELETED",))),
    (f"ftruncate(3<{h('pipe:[12]')}>, 3) = -1 EINVAL (Invalid argument)", None),
    (
        f"fallocate(3<{h('/a')}>, FALLOC_FL_PUNCH_HOLE, 0, 10) = 0",
        ("truncate", b"/a", ("FALLOC_FL_PUNCH_HOLE",)),
    ),
    (f"fchmodat({AT}, {q('a')}, 0755) = 0", ("meta", b"/app/a")),
    (f"lchown({q('a')}, 0, -1) = 0", ("meta", b"/app/a")),
    ("fchmod(4<TCP:[127.0.0.1:1->127.0.0.1:2]>, 0600) = 0", None),
    (f"chdir({q('sub')}) = 0", ("chdir", b"/app/sub")),
    (f"chdir({q('sub')}) = -1 ENOENT (No)", None),
    (f"newfstatat({AT}, {q('a')}, 0x7ff, 0) = -1 ENOENT (No)", ("look", b"/app/a", -1, "ENOENT")),
    (f'newfstatat(3<{h("/a")}>, "", 0x7ffd7be55680, AT_EMPTY_PATH) = 0', None),
    (f'newfstatat({AT}, "", 0x7ffd7be55680, AT_EMPTY_PATH) = 0', None),
    (f"access({q('/b')}, X_OK) = 0", ("look", b"/b")),
    (f"readlink({q('l')}, {q('to')}, 4096) = 2", ("look", b"/app/l")),
    (f"getdents64(5<{h('/d')}>, 0x2d39, 32768) = 240", ("look", b"/d")),
    ("io_uring_setup(8, 0x1) = -1 ENOSYS (Function not implemented) (INJECTED)", None),
    ("--- SIGSEGV {si_signo=SIGSEGV, si_code=SEGV_MAPERR, si_addr=NULL} ---", None),
    ("+++ killed by SIGSEGV (core dumped) +++", ("exit", "SIGSEGV")),
    ("+++ exited with 1 +++", ("exit", "1")),
]


@pytest.mark.parametrize(("line", "expected"), SINGLE, ids=range(len(SINGLE)))
def test_one_line(line: str, expected: tuple[object, ...] | None) -> None:
    events = [short(event) for event in events_of(f"9 {line}")]
    assert events == ([] if expected is None else [(9, *expected)])


def test_a_split_call_is_one_event() -> None:
    whole = f"openat({AT}, {q('a')}, O_RDONLY) = 3<{h('/app/a')}>"
    for cut in (whole.index(","), whole.index(") =")):
        events = events_of(
            f"9 {whole[:cut]} <unfinished ...>",
            "9 --- SIGUSR1 {si_signo=SIGUSR1} ---",
            f"9 <... openat resumed>{whole[cut:]}",
        )
        assert [short(event) for event in events] == [(9, "open", b"/app/a", ("O_RDONLY",))]


def test_a_call_that_the_process_died_in() -> None:
    events = events_of(
        f"9 unlink({q('a')} <unfinished ...>",
        "9 +++ killed by SIGKILL +++",
    )
    assert [short(event) for event in events] == [
        (9, "unlink", b"/app/a", -1, "?"),
        (9, "exit", "SIGKILL"),
    ]
    events = events_of(f"9 unlink({q('a')}) = ?", f"9 unlink({q('b')}) = -1 (errno 999)")
    assert [event.error for event in events] == ["?", "?"]


def test_cwd_is_followed_and_inherited() -> None:
    events = events_of(
        f"9 chdir({q('sub')}) = 0",
        f"9 {CLONE} = 10",
        f"10 unlink({q('a')}) = 0",
        f"10 fchdir(3<{h('/else')}>) = 0",
        f"10 unlink({q('a')}) = 0",
        f"9 unlink({q('a')}) = 0",
        f"9 openat(AT_FDCWD<{h('/real')}>, {q('z')}, O_RDONLY) = -1 ENOENT (No)",
        f"9 unlink({q('a')}) = 0",
        f"10 unlink({q('../a')}) = 0",
        f"9 fchdir(3<{h('pipe:[3]')}>) = -1 ENOTDIR (Not a directory)",
        f"9 openat(AT_FDCWD<{h('(unreachable)/q')}>, {q('z')}, O_RDONLY) = -1 ENOENT (No)",
    )
    assert [event.path for event in events if event.call == "unlink"] == [
        b"/app/sub/a",
        b"/else/a",
        b"/app/sub/a",
        b"/real/a",
        b"/a",
    ]
    assert events[-1].path == b"/a"  # nothing for a folder that has no path


def test_chroot_moves_absolute_names() -> None:
    events = events_of(
        f"9 chroot({q('/jail')}) = 0",
        f"9 unlink({q('/a')}) = 0",
        f"9 {CLONE} = 10",
        f"10 stat({q('/a')}, 0x7f) = 0",
        f"9 pivot_root({q('.')}, {q('.')}) = 0",
        f"9 unlink({q('/a')}) = 0",
    )
    assert [e.path for e in events if e.path] == [b"/jail/a", b"/jail/a", b"/a"]


def test_sockets() -> None:
    ip = 'sin_addr=inet_addr("\\x31")'
    v6 = f'inet_pton(AF_INET6, "{h("::1")}", &sin6_addr), sin6_scope_id=0'
    events = events_of(
        f"9 bind(3<TCP:[17]>, {{sa_family=AF_INET, sin_port=htons(8080), {ip}}}, 16) = 0",
        "9 listen(3<TCP:[17]>, 128) = 0",
        f"9 bind(4<TCP:[18]>, {{sa_family=AF_INET, sin_port=htons(0), {ip}}}, 16) = 0",
        "9 listen(4<TCP:[18]>, 128) = 0",
        f"9 getsockname(4<TCP:[18]>, {{sa_family=AF_INET, sin_port=htons(555), {ip}}}, [16]) = 0",
        f"9 getsockname(4<TCP:[18]>, {{sa_family=AF_INET, sin_port=htons(555), {ip}}}, [16]) = 0",
        f"9 bind(5<UDPv6:[19]>, {{sa_family=AF_INET6, sin6_port=htons(53), sin6_flowinfo=htonl(0),"
        f" {v6}}}, 28) = 0",
        "9 listen(6<TCPv6:[[::1]:36047]>, 128) = 0",
        f"9 bind(7<UNIX-STREAM:[20]>, {{sa_family=AF_UNIX, sun_path={q('sock')}}}, 7) = 0",
        f"9 listen(7<UNIX-STREAM:[20,{q('sock')}]>, 128) = 0",
        f"9 bind(8<UNIX-STREAM:[21]>, {{sa_family=AF_UNIX, sun_path=@{q('n')}}}, 7) = 0",
        f"9 connect(9<{h('socket:[22]')}>, {{sa_family=AF_INET, sin_port=htons(1), {ip}}}, 16)"
        " = -1 EINPROGRESS (Operation now in progress)",
        "9 bind(3<NETLINK:[5]>, {sa_family=AF_NETLINK, nl_pid=0, nl_groups=00000000}, 12) = 0",
        "9 listen(6<TCP:[99]>, 128) = 0",
        "9 listen(6<UNIX-STREAM:[98]>, 128) = 0",
    )
    assert [(e.call, e.detail or e.path, e.path, e.error) for e in events] == [
        ("bind", "tcp:8080", b"", ""),
        ("listen", "tcp:8080", b"", ""),
        ("bind", "tcp:0", b"", ""),
        ("listen", "tcp:0", b"", ""),
        ("listen", "tcp:555", b"", ""),
        ("bind", "udp:53", b"", ""),
        ("listen", "tcp:36047", b"", ""),
        ("bind", "unix", b"/app/sock", ""),
        ("listen", "unix", b"/app/sock", ""),
        ("bind", "abstract", b"n", ""),
        ("connect", "tcp:1", b"", "EINPROGRESS"),
        ("listen", "tcp:0", b"", ""),
    ]


def test_threads_belong_to_their_process() -> None:
    events = events_of(
        "9 clone3({flags=CLONE_VM|CLONE_THREAD, child_tid=0x7f990, exit_signal=0}"
        " => {parent_tid=[10]}, 88) = 10",
        "10 set_robust_list(0x7f9a0, 24) = 0",
        f"10 unlink({q('a')}) = 0",
        f"10 chdir({q('/new')}) = 0",
        f"9 unlink({q('b')}) = 0",
        "10 +++ exited with 0 +++",
    )
    assert [short(event) for event in events] == [
        (9, "unlink", b"/app/a"),
        (9, "chdir", b"/new"),
        (9, "unlink", b"/new/b"),
    ]


@pytest.mark.parametrize("result", ["-1 (errno 18446744073709551359)", "0"])
def test_exec_of_a_thread_takes_over(result: str) -> None:
    events = events_of(
        "9 clone3({flags=CLONE_VM|CLONE_THREAD, child_tid=0x7f990} => {parent_tid=[10]}, 88) = 10",
        f"10 execve({q('/bin/true')}, 0x7ff, 0x7fe <pid changed to 9 ...>",
        "9 +++ superseded by execve in pid 10 +++",
        f"9 <... execve resumed>)             = {result}",
        f"9 unlink({q('b')}) = 0",
        "9 +++ exited with 0 +++",
    )
    assert [short(event) for event in events] == [
        (9, "exec", b"/bin/true"),
        (9, "unlink", b"/app/b"),
        (9, "exit", "0"),
    ]
    events = events_of(
        "9 clone3({flags=CLONE_VM|CLONE_THREAD, child_tid=0x7f990} => {parent_tid=[10]}, 88) = 10",
        f"10 execve({q('/bin/true')}, 0x7ff, 0x7fe <unfinished ...>",
        "9 +++ superseded by execve in pid 10 +++",
        f"9 <... execve resumed>)             = {result}",
    )
    assert [short(event) for event in events] == [(9, "exec", b"/bin/true")]


def test_vfork_child_comes_before_its_parent_returns() -> None:
    events = events_of(
        "9 vfork( <unfinished ...>",
        f"10 execve({q('/bin/a')}, 0x7ff, 0x7fe <unfinished ...>",
        "9 <... vfork resumed>)              = 10",
        "10 <... execve resumed>)             = 0",
        "10 +++ exited with 0 +++",
    )
    assert [short(event) for event in events] == [
        (9, "fork", 10, "10"),
        (10, "exec", b"/bin/a"),
        (10, "exit", "0"),
    ]


def test_a_clone_that_fails_or_never_returns() -> None:
    events = events_of(
        f"9 {CLONE} = -1 EAGAIN (Resource temporarily unavailable)",
        f"9 {CLONE[:-1]} <unfinished ...>",
        "9 <... clone resumed>) = -1 EAGAIN (Resource temporarily unavailable)",
        f"9 {CLONE} = 12",
        f"12 {CLONE[:-1]} <unfinished ...>",
        "12 +++ killed by SIGKILL +++",
        f"9 {CLONE} = 13",
        f"13 unlink({q('/a')}) = 0",
        f"14 unlink({q('/b')}) = 0",
        f"15 unlink({q('/c')}) = 0",  # nobody's child
    )
    assert [short(event) for event in events] == [
        (9, "fork", 12, "12"),
        (12, "exit", "SIGKILL"),
        (9, "fork", 13, "13"),
        (13, "unlink", b"/a"),
        (12, "fork", 14, "14"),
        (14, "unlink", b"/b"),
        (15, "unlink", b"/c"),
    ]


INSIDE = [
    f"9 {CLONE.replace('SIGCHLD', 'CLONE_NEWPID|SIGCHLD')} = 500",
    "500 set_robust_list(0x7f00a20, 24) = 0",
]


def test_pids_inside_a_namespace() -> None:
    events = events_of(
        *INSIDE,
        f"500 {CLONE} = 2",
        "510 set_robust_list(0x7f00a20, 24) = 0",
        f"500 {CLONE[:-1]} <unfinished ...>",
        "520 set_robust_list(0x7f00a20, 24 <unfinished ...>",
        "500 <... clone resumed>) = 3",
        "520 <... set_robust_list resumed>) = 0",
        "500 kill(2, SIGTERM) = 0",
        "520 kill(1, SIGKILL) = 0",
        "500 tgkill(3, 3, SIGABRT) = 0",
        "500 setpgid(3, 3) = 0",
        "510 setsid() = 2",
        "500 kill(-3, SIGINT) = 0",
        "500 kill(77, SIGINT) = -1 ESRCH (No such process)",
        "500 kill(0, SIGINT) = 0",
        "500 kill(-1, SIGINT) = 0",
        "500 pidfd_send_signal(8<pid:510>, SIGKILL, NULL, 0) = 0",
        "9 kill(510, SIGKILL) = 0",
        "510 +++ killed by SIGKILL +++",
        "520 +++ killed by SIGKILL +++",
        "500 kill(-3, SIGINT) = 0",
    )
    assert [(e.pid, e.result) for e in events if e.call == "fork"] == [
        (9, 500),
        (500, 510),
        (500, 520),
    ]
    assert [(e.pid, e.detail, *e.flags) for e in events if e.call == "kill"] == [
        (500, "510", "SIGTERM"),
        (520, "500", "SIGKILL"),
        (500, "520", "SIGABRT"),
        (500, "group:520", "SIGINT"),
        (500, "?77", "SIGINT"),
        (500, "group:own", "SIGINT"),
        (500, "all", "SIGINT"),
        (500, "510", "SIGKILL"),
        (9, "510", "SIGKILL"),
        (500, "group:520", "SIGINT"),
    ]
    assert [e.detail for e in events if e.call == "group"] == ["520:520", "510:510"]


def test_a_child_is_named_before_its_first_line() -> None:
    events = events_of(
        *INSIDE,
        f"500 {CLONE} = 2",
        "500 setpgid(2, 2) = 0",
        "500 kill(-2, SIGTERM) = 0",
        "500 kill(2, SIGKILL) = 0",
        "510 +++ killed by SIGKILL +++",
    )
    assert [(e.call, e.detail) for e in events[-5:]] == [
        ("fork", "510"),
        ("group", "510:510"),
        ("kill", "group:510"),
        ("kill", "510"),
        ("exit", "SIGKILL"),
    ]


def test_a_place_among_siblings_decides_when_nothing_else_does() -> None:
    events = events_of(
        *INSIDE,
        f"500 {CLONE} = 2",
        f"500 {CLONE} = 3",
        f"500 {CLONE} = 4",
        f"510 unlink({q('a')}) = 0",
        "520 +++ exited with 0 +++",
        "500 kill(4, SIGKILL) = 0",
        "530 +++ killed by SIGKILL +++",
    )
    assert [(e.call, e.pid, e.result, e.detail) for e in events[-5:]] == [
        ("fork", 500, 510, "510"),
        ("fork", 500, 530, "530"),
        ("unlink", 510, 0, ""),
        ("kill", 500, 0, "530"),
        ("exit", 530, 0, "SIGKILL"),
    ]


def test_siblings_are_told_apart() -> None:
    other = CLONE.replace("0x7f00a10", "0x5500a10")
    by_order = events_of(
        *INSIDE,
        f"500 {CLONE} = 2",
        f"500 {CLONE} = 3",
        f"530 unlink({q('late')}) = 0",  # held: it may be either
        f"520 unlink({q('early')}) = 0",
        "500 kill(3, SIGTERM) = 0",
    )
    assert [e.detail for e in by_order if e.call == "kill"] == ["530"]
    by_address = events_of(
        *INSIDE,
        f"500 {CLONE} = 2",
        "501 set_robust_list(0x7f00a20, 24) = 0",
        f"500 {CLONE} = 3",
        f"501 {other} = 4",
        "530 set_robust_list(0x5500a20, 24) = 0",
        f"530 unlink({q('b')}) = 0",
        "520 set_robust_list(0x7f00a20, 24) = 0",
        "500 kill(3, SIGTERM) = 0",
        "500 kill(4, SIGTERM) = 0",
    )
    assert [e.detail for e in by_address if e.call == "kill"] == ["520", "530"]
    assert [(e.pid, e.result) for e in by_address if e.call == "fork"][2:] == [
        (501, 530),
        (500, 520),
    ]


def test_a_sibling_is_not_held_for_ever() -> None:
    ended = events_of(*INSIDE, f"500 {CLONE} = 2", f"500 {CLONE} = 3", "530 +++ exited with 0 +++")
    assert [short(event) for event in ended[-2:]] == [(500, "fork", 530, "530"), (530, "exit", "0")]
    busy = events_of(
        *INSIDE,
        f"500 {CLONE} = 2",
        f"500 {CLONE} = 3",
        *[f"530 unlink({q('a')}) = 0" for _ in range(100)],
    )
    assert len([event for event in busy if event.call == "unlink"]) == 100


UNFINISHED = CLONE.partition(", child_tidptr")[0]
RESUMED = "<... clone resumed>, child_tidptr=0x7f00a10)"
LIMIT = "-1 EAGAIN (Resource temporarily unavailable)"


def test_the_child_that_a_failed_clone_was_given_is_another_ones() -> None:
    two = [*INSIDE, f"500 {CLONE} = 2", "510 set_robust_list(0x7f00a20, 24) = 0"]
    begun = [f"500 {UNFINISHED} <unfinished ...>", f"510 {UNFINISHED} <unfinished ...>"]
    parser = Parser()
    events = parser.feed(
        log_of(
            *two,
            *begun,
            "520 +++ exited with 0 +++",  # of 500 or of 510
            f"500 {RESUMED} = {LIMIT}",
            f"510 {RESUMED} = 3",
            f"500 {CLONE} = 4",
            f"530 unlink({q('a')}) = 0",
        )
    )
    assert [(e.call, e.pid, e.result, e.detail) for e in events[2:]] == [
        ("guess", 500, 520, "510"),
        ("fork", 500, 520, "520"),
        ("exit", 520, 0, "0"),
        ("fork", 510, 520, "520"),
        ("exit", 520, 0, "?"),
        ("fork", 500, 530, "530"),
        ("unlink", 530, 0, ""),
    ]
    assert (parser.pids.births, parser.pids.strangers, parser.pids.early) == ([], {}, {})


def test_many_forks_leave_nothing_behind() -> None:
    parser = Parser()
    parser.feed(log_of(*INSIDE))
    for inner in range(2, 5000):
        host = 1000 + inner
        parser.feed(log_of(f"500 {CLONE} = {inner}", f"{host} +++ exited with 0 +++"))
    pids = parser.pids
    assert len(pids.leader) <= 2
    assert not pids.births
    assert not pids.strangers
    assert len(pids.hosts) <= 2
    assert len(parser.cwd) <= 2


def test_a_line_without_an_end_does_not_fill_the_memory() -> None:
    parser = Parser()
    for _ in range(3):
        assert parser.feed(b"x" * LONGEST_LINE) == []
    assert parser.rest == b""


NAMES = st.binary(min_size=1, max_size=12).map(
    lambda raw: raw.replace(b"\0", b"").replace(b"/", b"") or b"n"
)


@st.composite
def generated(draw: st.DrawFn) -> tuple[list[str], list[tuple[object, ...]]]:
    """A log of three processes, with the events that it must give."""
    lines = [f"9 openat({AT}, {q('/s')}, O_RDONLY) = -1 EIO (x)"]
    lines += [f"9 {CLONE} = {pid}" for pid in (10, 11)]
    pending: dict[int, tuple[str, tuple[object, ...]]] = {}
    expected: list[tuple[object, ...]] = []
    for _ in range(draw(st.integers(0, 25))):
        pid = draw(st.sampled_from([9, 10, 11]))
        if pid in pending:
            rest, event = pending.pop(pid)
            lines.append(f"{pid} <... call resumed>{rest}")
            expected.append(event)
            continue
        name = draw(NAMES)
        path = posixpath.normpath(b"/app/" + name)
        kind = draw(st.sampled_from(["open", "missing", "unlink", "rename"]))
        if kind == "open":
            text = f"openat({AT}, {q(name)}, O_RDONLY) = 3<{h(path)}>"
            event = (pid, "open", path, ("O_RDONLY",))
        elif kind == "missing":
            text = f"openat({AT}, {q(name)}, O_RDONLY) = -1 ENOENT (No such file or directory)"
            event = (pid, "open", path, ("O_RDONLY",), -1, "ENOENT")
        elif kind == "unlink":
            text, event = f"unlink({q(name)}) = 0", (pid, "unlink", path)
        else:
            text, event = f"rename({q(name)}, {q('/to')}) = 0", (pid, "rename", path, b"/to")
        if draw(st.booleans()):
            cut = text.index(") =")
            lines.append(f"{pid} {text[:cut]} <unfinished ...>")
            pending[pid] = (text[cut:], event)
        else:
            lines.append(f"{pid} {text}")
            expected.append(event)
    return lines, expected


@given(generated())
def test_a_generated_log_round_trips(log: tuple[list[str], list[tuple[object, ...]]]) -> None:
    lines, expected = log
    assert [short(event) for event in parse(log_of(*lines))[0][3:]] == expected


@given(generated(), st.randoms(use_true_random=False))
def test_cutting_the_log_anywhere_changes_nothing(
    log: tuple[list[str], list[tuple[object, ...]]], chance: random.Random
) -> None:
    whole = log_of(*log[0])
    expected = parse(whole)[0]
    for _ in range(5):
        cuts = sorted(chance.randrange(len(whole) + 1) for _ in range(chance.randrange(6)))
        parser, events = Parser(), []
        for start, end in zip([0, *cuts], [*cuts, len(whole)], strict=True):
            events += parser.feed(whole[start:end])
        assert events == expected
        assert parser.rest == b""


def test_cutting_at_every_byte_and_ending_at_every_byte() -> None:
    whole = log_of(
        *[f"9 {line}" for line, _ in SINGLE if not line.startswith("+++")],
        f"9 {CLONE.replace('SIGCHLD', 'CLONE_NEWPID|SIGCHLD')} = 500",
        f"500 {CLONE[:-1]} <unfinished ...>",
        f"510 unlink({q('a')}) = 0",
        "500 <... clone resumed>) = 2",
    )
    expected, rest = parse(whole)
    assert rest == b""
    for end in range(0, len(whole), 7):
        parser = Parser()
        events = parser.feed(whole[:end])
        assert events == expected[: len(events)]
        assert events + parser.feed(whole[end:]) == expected


@settings(max_examples=300)
@given(st.binary(max_size=400))
def test_any_bytes_are_survived(noise: bytes) -> None:
    parse(noise)
    parse(b"9 " + noise + b"\n")
    parse(log_of(*INSIDE) + noise.replace(b"\n", b"\n500 ") + b"\n")


@settings(max_examples=300)
@given(st.randoms(use_true_random=False))
def test_damaged_lines_are_survived(chance: random.Random) -> None:
    lines = [*INSIDE, *(f"{chance.choice([9, 500, 510])} {line}" for line, _ in SINGLE)]
    lines += [f"500 {CLONE} = 2", "510 <... clone resumed>) = 3", "9 +++ superseded by", "9 +++"]
    damaged = bytearray(log_of(*chance.sample(lines, 20)))
    for _ in range(chance.randrange(30)):
        at = chance.randrange(len(damaged))
        if chance.random() < 0.5:
            damaged[at] = chance.choice(b'"<>(){}[],= \n\\x0123456789abZ+-')
        else:
            del damaged[at : at + chance.randrange(1, 40)]
            damaged += b"\n"
    parse(bytes(damaged))
