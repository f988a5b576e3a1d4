"""The verifier's single tests: from its CTRF report, or from lines that it printed."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Final

from depgpo_jax.tasks.reward import RefusedFileError, read_bounded
from depgpo_jax.traces import TestResult

MAX_REPORT: Final = 8 * 2**20
"""Bytes of a report."""

MAX_TESTS: Final = 10_000
MAX_NAME: Final = 500
_LINE: Final = re.compile(r"(PASSED|FAILED)[ \t]+(\S.*)")
_NOT_RUN: Final = ("skipped", "pending")


def read_test_results(folder: str | Path, output: bytes = b"") -> list[TestResult]:
    """The results of single tests, as far as the verifier tells them; never an error.

    Args:
        folder: on the host, the folder that was the verifier's `/logs/verifier`. Its `ctrf.json`
            wins where it can be read; a test that was skipped or is pending has no result.
        output: what the verifier printed. A line `PASSED name` or `FAILED name` counts, as pytest's
            `-rA` prints them, too: after FAILED, a reason behind ` - ` is cut off.

    Returns:
        One result a name, in order of first appearance; a name that failed once has failed.
    """
    results: dict[str, bool] = {}
    for name, passed in _from_report(Path(folder)) or _from_lines(output):
        if name in results or len(results) < MAX_TESTS:
            results[name] = results.get(name, True) and passed
    return [TestResult(name, passed) for name, passed in results.items()]


def _from_report(folder: Path) -> list[tuple[str, bool]]:
    try:
        report: Any = json.loads(read_bounded(folder, "ctrf.json", MAX_REPORT) or b"null")
        tests = report["results"]["tests"]
        return list(_from_tests(tests)) if isinstance(tests, list) else []
    except (OSError, ValueError, RecursionError, KeyError, TypeError, RefusedFileError):
        return []


def _from_tests(tests: Iterable[Any]) -> Iterator[tuple[str, bool]]:
    for test in tests:
        if not isinstance(test, dict):
            continue
        name, status = test.get("name"), test.get("status")
        if isinstance(name, str) and name.strip() and status not in _NOT_RUN:
            yield _clean(name), status == "passed"


def _from_lines(output: bytes) -> Iterator[tuple[str, bool]]:
    for line in output.decode("utf-8", "replace").splitlines():
        match = _LINE.fullmatch(line.rstrip())
        if match:
            passed = match[1] == "PASSED"
            yield _clean(match[2] if passed else match[2].split(" - ")[0]), passed


def _clean(name: str) -> str:
    """A name that a trace can hold: bounded, without half characters."""
    return name.strip()[:MAX_NAME].encode("utf-8", "backslashreplace").decode()
