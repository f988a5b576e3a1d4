"""A growing list of distinct strings in little memory: the ids of a file's traces or groups."""

from array import array
from collections.abc import Sequence
from typing import overload


class IdTable(Sequence[str]):
    """Distinct strings, numbered in order of first appearance.

    A Python set of strings costs 130 bytes or more an entry. Here the texts stand in one buffer,
    and a hash table with open addressing holds their numbers: 20 to 32 bytes and the text itself,
    so that a file of millions of traces can be checked for repeated ids.
    """

    __slots__ = ("_ends", "_slots", "_text")

    def __init__(self) -> None:
        self._text = bytearray()
        self._ends = array("Q", [0])
        self._slots = array("q", [-1]) * 16

    def add(self, name: str) -> tuple[int, bool]:
        """The number of a string, and whether it is new."""
        key = name.encode()
        slot = self._find(key)
        number = self._slots[slot]
        if number >= 0:
            return number, False
        number = len(self)
        self._text += key
        self._ends.append(len(self._text))
        self._slots[slot] = number
        if 3 * number > 2 * len(self._slots):
            self._grow()
        return number, True

    def number(self, name: str) -> int | None:
        """The number of a string, None if it is not in the table."""
        found = self._slots[self._find(name.encode())]
        return found if found >= 0 else None

    def __len__(self) -> int:
        return len(self._ends) - 1

    @overload
    def __getitem__(self, index: int) -> str: ...
    @overload
    def __getitem__(self, index: slice) -> list[str]: ...
    def __getitem__(self, index: int | slice) -> str | list[str]:
        if isinstance(index, slice):
            return [self._key(k).decode() for k in range(*index.indices(len(self)))]
        number = range(len(self))[index]
        return self._key(number).decode()

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and self.number(name) is not None

    @property
    def nbytes(self) -> int:
        """Bytes that the table holds."""
        return len(self._text) + 8 * (len(self._ends) + len(self._slots))

    def _key(self, number: int) -> bytes:
        return bytes(self._text[self._ends[number] : self._ends[number + 1]])

    def _find(self, key: bytes) -> int:
        """The slot that holds a key's number, or the free one where it belongs."""
        mask = len(self._slots) - 1
        slot = hash(key) & mask
        while (number := self._slots[slot]) >= 0 and self._key(number) != key:
            slot = (slot + 1) & mask
        return slot

    def _grow(self) -> None:
        self._slots = array("q", [-1]) * (2 * len(self._slots))
        for number in range(len(self)):
            self._slots[self._find(self._key(number))] = number
