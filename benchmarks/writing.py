"""Where a run's results go: JSON, and a page beside it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

    from benchmarks.results import Requirement


def write_results(
    results: DataclassInstance,
    held: Mapping[str, Sequence[Requirement]],
    page: str,
    file: Path,
) -> list[Path]:
    """Writes the JSON file, and the Markdown beside it.

    Args:
        results: what was measured.
        held: what it is held against, by the name that this has in the JSON.
        page: the Markdown.
        file: the JSON file.
    """
    beside = file.with_suffix(".md")
    everything = asdict(results) | {n: [asdict(r) for r in rows] for n, rows in held.items()}
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(everything, indent=1, ensure_ascii=False) + "\n", "utf-8")
    beside.write_text(page, "utf-8")
    return [file, beside]


def page_of(sections: Iterable[str]) -> str:
    """A report's lines as one text."""
    return "\n".join(sections).rstrip() + "\n"
