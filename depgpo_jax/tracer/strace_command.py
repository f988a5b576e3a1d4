"""The strace command line whose output `strace_log` reads.

strace 5.19 or later: earlier ones print the mark of a removed file inside the path. System calls
that this machine or this strace does not know are left out by their `?`.
"""

from __future__ import annotations

# What changes, opens or names something, and what the ancestry of processes needs.
# `set_robust_list` ends the single-stepping of a new thread and tells siblings apart; `getsockname`
# says which port a bind to port 0 got. Exits come as "+++ exited" lines without a traced call.
_RECORDED = """
open openat openat2 creat open_by_handle_at execve execveat rename renameat renameat2 link
linkat symlink symlinkat unlink unlinkat rmdir mkdir mkdirat mknod mknodat truncate ftruncate
fallocate truncate64 ftruncate64 chmod fchmod fchmodat fchmodat2 chown fchown lchown fchownat
chdir fchdir chroot pivot_root bind listen connect getsockname kill tkill tgkill
pidfd_send_signal fork vfork clone clone3 unshare setns setpgid setsid set_robust_list
io_uring_setup
"""
RECORDED_CALLS = _RECORDED.split()

# A verifier also inspects by looking: what exists, what a folder holds, where a link points.
_LOOKING = """
stat lstat newfstatat fstatat64 stat64 lstat64 statx access faccessat faccessat2 readlink
readlinkat getdents getdents64 statfs getxattr lgetxattr listxattr llistxattr name_to_handle_at
inotify_add_watch utime utimes utimensat
"""
LOOKING_CALLS = _LOOKING.split()

# Structures that nobody reads stay pointers: less to read in the traced process and less to parse.
POINTERS = [
    "execve",
    "execveat",
    *(call for call in LOOKING_CALLS if call not in ("statfs", "utime")),
]


def strace_arguments(log: str, *, looking: bool = False, seccomp: bool = True) -> list[str]:
    """The command line up to, and without, the program that is to be traced.

    The log is a path that strace opens itself, close-on-exec. A descriptor that is passed on to
    strace would be inherited by the traced program, which could then write lines of its own.

    Args:
        log: a named pipe or a file outside of the sandbox.
        looking: also record stat, access, readlink and the like (the verifier).
        seccomp: stop for the recorded calls only. It sets no_new_privs, so that sudo and su no
            longer work inside; without it every call stops.

    Returns:
        The arguments, beginning with `strace`.
    """
    calls = RECORDED_CALLS + (LOOKING_CALLS if looking else [])
    return [
        "strace",
        "-f",
        *(["--seccomp-bpf"] if seccomp else []),
        "-yy",
        "-xx",
        "-s4096",
        "-equiet=attach,path-resolution,personality",
        "-esignal=!chld,cont,winch",
        "-einject=io_uring_setup:error=ENOSYS",
        "-everbose=!" + ",".join(f"?{call}" for call in POINTERS),
        "-etrace=" + ",".join(f"?{call}" for call in calls),
        f"-o{log}",
    ]
