"""Which earlier command printed a value that a later command's text uses.

A value counts if it is unlikely to come up twice by chance. Its first printer gets the edge, unless
the value was known before: from the prompt, or from a text of the agent's own. docs/stdout-reuse.md
has the rule in full.

Outputs become keys when they come in, and words of texts are looked up by theirs. So the time goes
with the length of what is read, not with the number of commands.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from depgpo_jax.tracer import reuse_design as design
from depgpo_jax.tracer.reuse_config import ReuseConfig, Rule
from depgpo_jax.tracer.reuse_context import Look, is_bound
from depgpo_jax.tracer.reuse_known import Known, files_of
from depgpo_jax.tracer.reuse_printed import Outputs
from depgpo_jax.tracer.reuse_tokens import (
    Word,
    folders,
    parts,
    pinned_versions,
    plain,
    quoted_lines,
    words,
)
from depgpo_jax.tracer.reuse_wanted import wanted_keys

__all__ = ["Reuse", "ReuseConfig", "Rule", "StdoutReuse"]


class Reuse(NamedTuple):
    """Why there is an edge.

    Attributes:
        token: what the later text says.
        printed: what the earlier command printed.
        rule: what makes one the other; see `ReuseConfig`.
    """

    token: str
    printed: str
    rule: Rule


class _Match(NamedTuple):
    producer: int
    reuse: Reuse


class _Printed(NamedTuple):
    producer: int
    token: str


_PARTIAL: Final[tuple[Rule, ...]] = ("rounded", "prefix", "stem")
"""Rules by which a part of a value stands for it: they count where no other does."""


@dataclass
class StdoutReuse:
    """Follows a rollout command by command.

    Args:
        prompt: the task's text: its values are nobody's output.
        config: rules and thresholds.
    """

    prompt: str = ""
    config: ReuseConfig = field(default_factory=ReuseConfig)

    def __post_init__(self) -> None:
        self._known = Known(self.prompt, self.config)
        self._offers = Outputs(self._known, self.config)
        self._printed: dict[str, _Printed] = {}
        self._outputs: set[str] = set()
        self._number = 0

    def sources(self, text: str) -> dict[int, Reuse]:
        """Earlier commands whose printed values this text uses, each with the first such value.

        To be called before `add` of the same command.
        """
        found: dict[int, Reuse] = {}
        for match in self._matches(text):
            found.setdefault(match.producer, match.reuse)
        return dict(sorted(found.items()))

    def add(self, text: str, stdout: str) -> None:
        """Takes in a command that has ended: its text first, then what it printed."""
        self._known.learn(text)
        if stdout not in self._outputs:  # the same once more has nothing new
            self._outputs.add(stdout)
            files = files_of(text)
            for key, token in self._offers.keys(plain(stdout), files):
                if key not in self._printed and not self._known.has_key(key):
                    self._printed[key] = _Printed(self._number, token)
        self._number += 1

    def _matches(self, text: str) -> Iterator[_Match]:
        for token in design.tokens(text) if "design" in self.config.rules else ():
            yield from self._found("design", f"!{token}", token)
        every = list(words(text))
        bound = frozenset(word.text for word in every if is_bound(text, word))
        few = len(every) <= self.config.max_words
        look = Look(text, few=few, bound=bound, files=files_of(text))
        for word in every:
            yield from self._of_word(look, word)
        for name, version in pinned_versions(text):
            yield from self._found("literal", f"v{name.casefold()} {version}", f"{name} {version}")
        for line in quoted_lines(text, at_least=self.config.min_line):
            yield from self._found("line", f">{line}", line)

    def _of_word(self, look: Look, word: Word) -> list[_Match]:
        """What a word reuses: itself and its parts, by rules that take all of a value if any do."""
        inner: list[_Match] = []
        above = ""
        for part in parts(word):
            inner += self._best(look, part, above)
            above = part.text if look.text[part.end : part.end + 1] == "/" else ""
        whole = self._best(look, word)
        for folder in folders(word.text):
            whole = whole or self._best(look, word._replace(text=folder))
        found = [*inner, *whole]
        return [match for match in found if match.reuse.rule not in _PARTIAL] or found

    def _best(self, look: Look, word: Word, above: str = "") -> list[_Match]:
        """The first printer of a word, by a rule that takes all of the value if there is one."""
        found = [
            match
            for rule, key in wanted_keys(look, word, above, self.config)
            for match in self._found(rule, key, word.text)
        ]
        found.sort(key=lambda match: (match.reuse.rule in _PARTIAL, match.producer))
        return found[:1]

    def _found(self, rule: Rule, key: str, token: str) -> Iterator[_Match]:
        printed = self._printed.get(key) if rule in self.config.rules else None
        # By its stem, a file of that very name is one in another folder.
        if printed and not (rule == "stem" and printed.token == token):
            yield _Match(printed.producer, Reuse(token, printed.token, rule))
