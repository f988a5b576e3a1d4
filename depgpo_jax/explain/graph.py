"""The dependency graph of one rollout with names: who read what of whom.

The kernels keep one bit an edge; an explanation must say through which resource it runs.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING

from msgspec import UNSET

from depgpo_jax.explain.facts import Edge

if TYPE_CHECKING:
    from depgpo_jax.explain.places import Fate
    from depgpo_jax.traces import Command


def readers_by_resource(commands: Sequence[Command]) -> dict[str, list[int]]:
    """The commands that read each resource, ascending; a rename reads its source."""
    readers: dict[str, list[int]] = {}
    for number, command in enumerate(commands):
        moved = [write.moved_from for write in command.writes if write.moved_from is not UNSET]
        for resource in dict.fromkeys([*command.reads, *moved]):
            readers.setdefault(resource, []).append(number)
    return readers


def readers_while_live(fate: Fate, readers: Mapping[str, Sequence[int]]) -> Sequence[int]:
    """The commands that read records of this fate, ascending: the killer still read them."""
    reading = readers.get(fate.resource, ())
    return reading[bisect_right(reading, fate.owner) : bisect_right(reading, fate.killer)]


def stdout_users(commands: Sequence[Command]) -> list[list[int]]:
    """For each command, the later ones that reuse what it printed, ascending."""
    users: list[list[int]] = [[] for _ in commands]
    for number, command in enumerate(commands):
        for producer in set(command.stdout_from):
            users[producer].append(number)
    return users


class DependencyGraph:
    """All edges of a rollout, in both directions. Source: method section 2."""

    def __init__(self, commands: Sequence[Command], fates: Mapping[Fate, Sequence[int]]) -> None:
        """Collects the edges.

        Args:
            commands: of the trace.
            fates: each segment's fate with its readers while live, in order of death.
        """
        order = {write.resource: None for command in commands for write in command.writes}
        rank = {resource: place for place, resource in enumerate(order)}
        through: list[dict[int, set[str]]] = [{} for _ in commands]
        for fate, readers in fates.items():
            consumers = through[fate.owner]
            for reader in readers:
                consumers.setdefault(reader, set()).add(fate.resource)
        self.outputs: list[list[Edge]] = []
        self.inputs: list[list[Edge]] = [[] for _ in commands]
        for producer, users in enumerate(stdout_users(commands)):
            resources = through[producer]
            edges = [
                Edge(
                    producer,
                    consumer,
                    tuple(sorted(resources.get(consumer, ()), key=rank.__getitem__)),
                    stdout=_contains(users, consumer),
                )
                for consumer in sorted({*resources, *users})
            ]
            self.outputs.append(edges)
            for edge in edges:
                self.inputs[edge.consumer].append(edge)

    def shortest_paths(self, source: int, ends: Iterable[int]) -> dict[int, tuple[int, ...]]:
        """A shortest path to each of the ends that depends on `source`, without `source` itself.

        Of several the one that comes first when compared number by number.

        Args:
            source: where the paths begin.
            ends: other commands.

        Returns:
            By end; those that cannot be reached are left out.
        """
        before = {source: source}
        unseen = ~(1 << source)
        queue = [source]
        for at in queue:  # grows meanwhile
            new = self._consumers[at] & unseen
            unseen ^= new
            while new:
                lowest = new & -new
                new ^= lowest
                consumer = lowest.bit_length() - 1
                before[consumer] = at
                queue.append(consumer)
        return {end: _way(before, end) for end in ends if end in before}

    @cached_property
    def _consumers(self) -> list[int]:
        """The consumers of each command, one bit each: a search looks at every edge otherwise."""
        bits: list[int] = []
        for edges in self.outputs:
            row = bytearray(len(self.outputs) // 8 + 1)
            for edge in edges:
                row[edge.consumer // 8] |= 1 << edge.consumer % 8
            bits.append(int.from_bytes(row, "little"))
        return bits


def _way(before: Mapping[int, int], end: int) -> tuple[int, ...]:
    """The path that leads to an end, without its beginning, which comes before itself."""
    path: list[int] = []
    while before[end] != end:
        path.append(end)
        end = before[end]
    return tuple(reversed(path))


def _contains(ascending: Sequence[int], number: int) -> bool:
    place = bisect_left(ascending, number)
    return place < len(ascending) and ascending[place] == number
