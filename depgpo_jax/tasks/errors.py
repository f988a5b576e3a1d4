"""What is wrong with a task directory, in one shape for all of its files."""

from __future__ import annotations

from depgpo_jax.errors import DepgpoError, printable


class TaskError(DepgpoError, ValueError):
    """A task directory holds something that this package cannot run.

    Args:
        found: what stands there, as in "found …".
        allowed: what may stand there.
        remedy: a sentence that says what to do.
        file: the file or folder.
        line: the line in that file, from 1.
        field: the key in that file, such as `verifier.timeout_sec`.
    """

    def __init__(
        self,
        found: str,
        allowed: str,
        remedy: str,
        *,
        file: str,
        line: int | None = None,
        field: str | None = None,
    ) -> None:
        super().__init__(found, allowed, remedy)
        self.found = found
        self.allowed = allowed
        self.remedy = remedy
        self.file = file
        self.line = line
        self.field = field

    def __str__(self) -> str:
        place = printable(self.file)
        if self.line is not None:
            place += f", line {self.line}"
        if self.field is not None:
            place += f", {printable(self.field)}"
        return f"{place}: found {self.found}. Allowed: {self.allowed}. {self.remedy}"

    def __reduce__(self) -> tuple[object, ...]:
        """Pickles the place too, so that a worker process can hand the error on."""
        return _rebuild, (self.found, self.allowed, self.remedy, self.file, self.line, self.field)


def _rebuild(
    found: str, allowed: str, remedy: str, file: str, line: int | None, field: str | None
) -> TaskError:
    return TaskError(found, allowed, remedy, file=file, line=line, field=field)
