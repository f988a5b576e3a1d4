"""Every error that this package raises on purpose.

* `DepgpoError`
    * `TraceError`: a trace, or a file of traces, breaks a rule of the format
    * `ConfigError`: an option has a value that it may not have
    * `ShapeError`: arrays do not fit together
    * `MissingExtraError`: an optional package is not installed

A message says where the problem is, what was found there, what is allowed and what to do.
"""

from __future__ import annotations


class DepgpoError(Exception):
    """The root: catches whatever this package raises on purpose."""


class TraceError(DepgpoError, ValueError):
    """A trace, or a file of traces, breaks a rule of the format.

    Args:
        found: what stands there, as in "found …".
        allowed: what may stand there.
        remedy: a sentence that says what to do.
        file: the file's name, if there is one.
        line: the line in that file, from 1.
        trace_id: the trace's own name, where it could be read.
        field: path from the trace to the field, such as `steps[3].commands[1].reads[0]`.
    """

    def __init__(
        self,
        found: str,
        allowed: str,
        remedy: str,
        *,
        file: str | None = None,
        line: int | None = None,
        trace_id: str | None = None,
        field: str | None = None,
    ) -> None:
        super().__init__(found, allowed, remedy)
        self.found = found
        self.allowed = allowed
        self.remedy = remedy
        self.file = file
        self.line = line
        self.trace_id = trace_id
        self.field = field

    def __str__(self) -> str:
        where = [
            None if self.file is None else printable(self.file),
            None if self.line is None else f"line {self.line}",
            None if self.trace_id is None else f'trace "{printable(self.trace_id)}"',
            printable(self.field) if self.field else None,
        ]
        place = ", ".join(part for part in where if part) or "trace"
        return f"{place}: found {self.found}. Allowed: {self.allowed}. {self.remedy}"

    def __reduce__(self) -> tuple[object, ...]:
        """Pickles the place too, so that a worker process can hand the error on."""
        return type(self), (self.found, self.allowed, self.remedy), self.__dict__

    def located(
        self, *, file: str | None = None, line: int | None = None, trace_id: str | None = None
    ) -> TraceError:
        """The same error with those parts of its place filled in that it does not know yet."""
        return TraceError(
            self.found,
            self.allowed,
            self.remedy,
            file=self.file if file is None else file,
            line=self.line if line is None else line,
            trace_id=self.trace_id if trace_id is None else trace_id,
            field=self.field,
        )


class ConfigError(DepgpoError, ValueError):
    """An option has a value that it may not have; the message names both."""


class ShapeError(DepgpoError, ValueError):
    """Arrays do not fit together; the message names each array and its shape."""


class MissingExtraError(DepgpoError, ImportError):
    """An optional package is not installed.

    Args:
        extra: the extra of this distribution that brings the package.
        purpose: what needs it, as the beginning of a sentence.
    """

    def __init__(self, extra: str, purpose: str) -> None:
        super().__init__(
            f"{purpose} needs the optional extra {extra!r}, which is not installed. "
            f"Install it with: pip install 'depgpo-jax[{extra}]'"
        )
        self.extra = extra
        self.purpose = purpose

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.extra, self.purpose)


def printable(text: str, limit: int = 200) -> str:
    """The text for a message: cut at `limit`, with escapes for what a terminal would not show."""
    shown = text if len(text) <= limit else text[: limit - 1] + "…"
    return "".join(c if c.isprintable() else ascii(c)[1:-1] for c in shown)
