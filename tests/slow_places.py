"""Where every record was as its owner left it: the oracle's replay, looked at after each command.

One object a record and one list item a line; slow, for tests only.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tests.oracle import (
    File,
    Record,
    _commands,
    _kill,
    _write_hunks,
    _write_lines,
)

# (owner, resource, killer, in place): what records of one segment share.
SlowFate = tuple[int, str, int | None, bool]


def placed_records(trace: Mapping[str, Any]) -> dict[Record, int]:
    """Every record with its place, in the order in which the oracle's own replay makes them.

    The place of a line is its number, that of a gap the number of the line above it, that of a
    whole-file mark 0.
    """
    files: dict[str, File] = {}
    places: dict[Record, int] = {}
    for i, command in enumerate(_commands(trace)):
        for resource in command.reads:
            for record in files.get(resource, File()).live():
                record.readers.append(i)
        for write in command.writes:
            if "moved_from" in write:
                _kill(files.pop(write["moved_from"], File()).live(), i, in_place=False)
        written: list[Record] = []
        for write in command.writes:
            file = files.setdefault(write["resource"], File())
            if "lines" in write:
                written += _write_lines(file, i, write)
            elif "hunks" in write:
                written += _write_hunks(file, i, write)
            else:
                _kill(file.live(), i, in_place=True)
                file.items = []
                file.whole = Record(i, write["resource"], "whole")
                written.append(file.whole)
        now = _places_now(files)
        places.update({record: now[record] for record in written})
    return places


def _places_now(files: Mapping[str, File]) -> dict[Record, int]:
    now: dict[Record, int] = {}
    for file in files.values():
        if file.whole is not None:
            now[file.whole] = 0
        line = 0
        for item in file.items:
            line += item.is_line
            if item.record is not None:
                now[item.record] = line
    return now


def fate_of(record: Record) -> SlowFate:
    return record.owner, record.resource, record.killer, record.in_place


def by_fate(places: Mapping[Record, int]) -> dict[SlowFate, list[Record]]:
    """The records of each segment."""
    groups: dict[SlowFate, list[Record]] = {}
    for record in places:
        groups.setdefault(fate_of(record), []).append(record)
    return groups


def numbers(records: list[Record], places: Mapping[Record, int], kind: str) -> list[int]:
    """The places of those records that are lines, or gaps; ascending."""
    return sorted(places[record] for record in records if record.kind == kind)
