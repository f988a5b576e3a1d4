"""What `depgpo report` writes: a folder of pages for a browser."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from depgpo_jax.cli_credit import CreditOptions, credit_traces, file_advantages
from depgpo_jax.cli_files import FOLDERS
from depgpo_jax.explain.pages.report import Report
from depgpo_jax.explain.why import RolloutExplanation

if TYPE_CHECKING:
    from depgpo_jax.traces import TraceIndex
    from depgpo_jax.traces.files import Progress


def write_pages(
    index: TraceIndex,
    folder: Path,
    options: CreditOptions,
    batch_size: int,
    progress: Progress,
) -> int:
    """Writes the report on a file into an empty folder.

    Args:
        index: the file's first pass.
        folder: where to.
        options: what to compute.
        batch_size: the most traces computed together.
        progress: called with the bytes read and the bytes in all.

    Returns:
        How many pages there are.
    """
    report = Report(index.source, options.config, advantage=options.advantage)
    advantages = file_advantages(index, options.advantage)
    for name in FOLDERS:
        (folder / name).mkdir()
    pages = 0
    traces = index.read(progress=progress)
    for batch in credit_traces(traces, advantages, options.config, batch_size):
        for trace, result, advantage in batch:
            rollout = RolloutExplanation(trace, options.config, result)
            address, page = report.add(rollout, advantage)
            (folder / address).write_text(page, "utf-8")
            pages += 1
    for address, page in report.overviews():
        (folder / address).write_text(page, "utf-8")
        pages += 1
    return pages
