"""Processes that tests start."""

from __future__ import annotations

import subprocess
from types import TracebackType
from typing import Any


class Child(subprocess.Popen[Any]):
    """Does not outlive a block that fails: what is waited for might never come."""

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if exc_type is not None:
            self.kill()
        super().__exit__(exc_type, value, traceback)
