"""Which process a line of the log belongs to, and which host pid a pid inside a sandbox means.

The first column of the log is the host's pid, but a clone inside a pid namespace returns the pid in
that namespace. strace's own translation (`--decode-pids=pidns`) costs 10 ms a fork, ten times what
the fork costs, so clones are matched with the pids that appear. A child can show up before its
clone returns.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from depgpo_jax.tracer.strace_calls import Call

# What a child that cannot be told from its siblings may say before the likeliest match is taken.
MOST_HELD = 64
MOST_STRANGERS = 32
MOST_BIRTHS = 4096
NEW_SPACE = -1
GONE = b"+++ exited with ? +++"
# Between the addresses of a new thread's tid and of its list of robust mutexes (glibc, 64 bit).
ROBUST_LIST_OFFSET = 0x10


@dataclass(slots=True, eq=False)
class Birth:
    """A clone whose child has not been matched yet.

    Args:
        parent: the process, by its leader's host pid.
        caller: the thread that called, as in the first column.
        thread: the child is a thread of its parent.
        space: 0 or the child's pid namespace, named by its first process; `NEW_SPACE`: its own.
        seen_in: the namespace in which the parent sees the child.
        tid_address: where the child's tid lies, 0 if not known.
        inner: the child's pid as the parent sees it, 0 before the clone returned.
        later: calls that named the child while it was not matched.
        orphaned: the parent was killed inside the clone; there may be no child.
    """

    parent: int
    caller: bytes
    thread: bool
    space: int
    seen_in: int
    tid_address: int = 0
    inner: int = 0
    later: list[Call] = field(default_factory=list)
    orphaned: bool = False


class Known(NamedTuple):
    """A pid that was matched.

    Args:
        pid: as in the first column.
        parent: its parent process, 0 for none.
        thread: it is only a thread of that process.
        later: the calls that named it before.
        rivals: other processes that may be the parent, where the log does not say which one is.
    """

    pid: bytes
    parent: int
    thread: bool
    later: list[Call]
    rivals: frozenset[int] = frozenset()


@dataclass(slots=True)
class Stranger:
    """A pid that appeared before its clone was known, with its lines, oldest first."""

    lines: list[bytes] = field(default_factory=list)
    robust_list: int = 0


class Early(NamedTuple):
    """A child that was matched before its clone returned.

    Args:
        pid: as in the first column.
        seen_in: the namespace in which its parent sees it.
        robust_list: where its list of robust mutexes lies, 0 if not known.
    """

    pid: bytes
    seen_in: int
    robust_list: int


class Pids:
    """Matches pids to clones.

    `leader` maps each live thread's first column to its process's host pid; the hot loop of the
    parser reads it directly.
    """

    def __init__(self) -> None:
        self.leader: dict[bytes, int] = {}
        self.strangers: dict[bytes, Stranger] = {}
        self.births: list[Birth] = []
        self.space: dict[int, int] = {}  # only of processes inside a namespace
        self.child_space: dict[int, int] = {}  # after unshare or setns: of children to come
        self.hosts: dict[tuple[int, int], int] = {}  # (namespace, inner pid) -> host pid
        self.inners: dict[bytes, list[tuple[int, int]]] = {}
        self.group_leaders: set[int] = set()
        self.early: dict[bytes, Early] = {}  # by the clone's caller

    # clones

    def clone_begins(self, caller: bytes, parent: int, text: bytes) -> Birth:
        """Notes a clone when its line begins, before it is known whether it succeeds."""
        here = self.space.get(parent, 0)
        thread = b"CLONE_THREAD" in text
        space = here if thread else self.child_space.get(parent, here)
        if b"CLONE_NEWPID" in text:
            space = NEW_SPACE
        birth = Birth(parent, caller, thread, space, here, _address(text, b"child_tid"))
        self.births.append(birth)
        if len(self.births) > MOST_BIRTHS:
            del self.births[0]
        return birth

    def clone_ends(self, caller: bytes, parent: int, text: bytes, result: int) -> list[Known]:
        """Notes a clone's result; returns the pids that this made known, parents first."""
        early = self.early.pop(caller, None)
        if early is not None:
            if result <= 0:
                return self._give_back(early)
            if early.seen_in:
                self._name(early.pid, (early.seen_in, result))
            return []
        pending = [birth for birth in self.births if birth.caller == caller and not birth.inner]
        if result <= 0:
            for birth in pending[:1]:
                self.births.remove(birth)
            return self.settle() if pending else []
        birth = pending[0] if pending else self.clone_begins(caller, parent, text)
        birth.inner = result
        birth.tid_address = birth.tid_address or _address(text, b"child_tid")
        if (
            not birth.seen_in
        ):  # the parent is outside of every namespace: the result is the host's pid
            return [self._match(b"%d" % result, birth), *self.settle()]
        return self.settle()

    def _give_back(self, early: Early) -> list[Known]:
        """A clone failed of which a pid was taken for the child: it must be another one's.

        Else that other clone would wait for ever, and take a child of a later command for its own.
        """
        stranger = self.strangers[early.pid] = Stranger(robust_list=early.robust_list)
        if self.leader.pop(early.pid, None) is None:  # it has ended meanwhile
            stranger.lines.append(GONE)
        return self.settle()

    def clone_breaks(self, caller: bytes) -> None:
        """Notes that a caller was killed inside of a clone."""
        for birth in self.births:
            if birth.caller == caller and not birth.inner:
                birth.orphaned = True

    # strangers

    def appears(self, pid: bytes, line: bytes) -> list[Known]:
        """A line of an unknown pid: holds it; returns the pids that became known, in order."""
        stranger = self.strangers.get(pid)
        news = stranger is None or line.startswith(b"set_robust_list(")
        if stranger is None:
            stranger = self.strangers[pid] = Stranger()
        stranger.lines.append(line)
        if not self.births:  # the traced program itself, or one that no clone explains
            return [self._match(pid, None)]
        if line.startswith(b"set_robust_list("):
            stranger.robust_list = _number(line[len(b"set_robust_list(") :])
        known = self.settle() if news else []
        crowded = len(stranger.lines) > MOST_HELD or len(self.strangers) > MOST_STRANGERS
        if pid not in self.leader and (crowded or line.startswith(b"+++ ")):
            known += [self._guess(pid), *self.settle()]
        return known

    def _guess(self, pid: bytes) -> Known:
        """Whose child a pid is when the log does not say: by its place among those that wait."""
        mine = self._candidates(self.strangers[pid])
        rivals = frozenset(birth.parent for birth in mine)
        mine.sort(key=lambda birth: birth.inner or 1 << 62)
        place = sum(int(other) < int(pid) for other in self.strangers if other not in self.leader)
        known = self._match(pid, mine[min(place, len(mine) - 1)] if mine else None)
        return known._replace(rivals=rivals - {known.parent})

    def settle(self) -> list[Known]:
        """Matches what can be told apart: a single candidate, or as many siblings as clones."""
        known: list[Known] = []
        while self.strangers:
            pairs = self._pairs()
            if not pairs:
                break
            known += [self._match(child, birth) for child, birth in pairs]
        return known

    def _pairs(self) -> list[tuple[bytes, Birth]]:
        groups: dict[int, list[bytes]] = {}
        for pid, stranger in self.strangers.items():
            if pid not in self.leader:
                groups.setdefault(stranger.robust_list, []).append(pid)
        for pids in groups.values():
            mine = self._candidates(self.strangers[pids[0]])
            if len(mine) == 1:
                return [(min(pids, key=int), mine[0])]
            if len(pids) == len(mine) and all(birth.inner for birth in mine):
                # Pids are handed out in one order inside and outside of the namespace.
                mine.sort(key=lambda birth: birth.inner)
                return list(zip(sorted(pids, key=int), mine, strict=True))
        return []

    def _candidates(self, stranger: Stranger) -> list[Birth]:
        births = [birth for birth in self.births if not birth.orphaned] or list(self.births)
        if stranger.robust_list:
            at = stranger.robust_list - ROBUST_LIST_OFFSET
            # Some clones say where the child's tid lies only when they return.
            fit = [b for b in births if b.tid_address == at or not (b.inner or b.tid_address)]
            return fit or births
        return births

    def _match(self, pid: bytes, birth: Birth | None) -> Known:
        child = int(pid)
        self.inners.pop(pid, None)
        self.space.pop(child, None)
        self.child_space.pop(child, None)
        self.leader[pid] = child
        if birth is None:
            return Known(pid, 0, False, [])
        self.births.remove(birth)
        if birth.thread:
            self.leader[pid] = birth.parent
        if birth.inner and birth.seen_in:
            self._name(pid, (birth.seen_in, birth.inner))
        if not birth.inner:
            stranger = self.strangers.get(pid)
            at = stranger.robust_list if stranger else 0
            self.early[birth.caller] = Early(pid, birth.seen_in, at)
        space = child if birth.space == NEW_SPACE else birth.space
        if space == child:
            self._name(pid, (space, 1))
        if space and not birth.thread:
            self.space[child] = space
        return Known(pid, birth.parent, birth.thread, birth.later)

    def _name(self, pid: bytes, name: tuple[int, int]) -> None:
        if pid in self.leader:
            self.hosts[name] = int(pid)
            self.inners.setdefault(pid, []).append(name)

    # everything else

    def target(self, sender: int, pid: int) -> int:
        """The host's pid of a pid that a process named; 0 if it is not known."""
        space = self.space.get(sender, 0)
        return self.hosts.get((space, pid), 0) if space else pid

    def unborn(self, sender: int, pid: int) -> Birth | None:
        """The clone whose child a process named before that child's first line was read."""
        space = self.space.get(sender, 0)
        named = (birth for birth in self.births if (birth.seen_in, birth.inner) == (space, pid))
        return next(named, None)

    def ends(self, pid: bytes) -> None:
        """A thread or process is gone; its pid may come back as another."""
        leader = self.leader.pop(pid, 0)
        self.early.pop(pid, None)
        if leader in self.group_leaders:
            return  # its group may live on under its name
        for name in self.inners.pop(pid, ()):
            if self.hosts.get(name) == int(pid):
                del self.hosts[name]
        if leader == int(pid):
            self.space.pop(leader, None)
            self.child_space.pop(leader, None)

    def replaced(self, process: int) -> None:
        """One thread's exec ended the others; it goes on under the leader's pid."""
        first = b"%d" % process
        for thread in [thread for thread, leader in self.leader.items() if leader == process]:
            if thread != first:
                self.ends(thread)
        self.leader[first] = process


def _address(text: bytes, name: bytes) -> int:
    at = text.find(name)
    return _number(text[text.find(b"=", at) + 1 :]) if at >= 0 else 0


def _number(text: bytes) -> int:
    digits = text[:20].split(b",")[0].split(b")")[0].split(b"}")[0].strip()
    try:
        return int(digits, 16) if digits.startswith(b"0x") else 0
    except ValueError:
        return 0
