"""Values that nobody has to have printed: those of the prompt and of the agent's earlier texts."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Final

from depgpo_jax.tracer import reuse_design as design
from depgpo_jax.tracer.reuse_config import ReuseConfig
from depgpo_jax.tracer.reuse_forms import (
    LONGEST_BEGINNING,
    date_keys,
    is_hex,
    name_keys,
    number_keys,
    pieces,
    stem,
    telling_stem,
)
from depgpo_jax.tracer.reuse_shapes import shape
from depgpo_jax.tracer.reuse_tokens import (
    folders,
    joined,
    pinned_versions,
    quoted_lines,
    says,
    tokens,
)

_NUMBER: Final = re.compile(r"(?<![\w.])\d{2,6}(?![\d.])")


class Known:
    """Grows with the texts of a rollout.

    Args:
        prompt: the task's text.
        config: rules and thresholds.
    """

    def __init__(self, prompt: str, config: ReuseConfig) -> None:
        self._config = config
        self._keys: set[str] = set()
        self._prompt = joined(prompt)
        self.learn(prompt)

    def learn(self, text: str) -> None:
        """Takes in the values of a text, in every form in which they could be printed."""
        keys = self._keys
        for token in tokens(text):
            if f"={token}" in keys:
                continue
            for part in (token, *token.split(".")):
                keys.update((f"={part}", f"r{part}", f"l{part.casefold()}"))
                keys.update(value_keys(part))
                for piece in pieces(part):
                    keys.update(name_keys(piece, at_least=self._config.min_spelling))
            if (name := stem(token)) or telling_stem(token):
                keys.add(f"s{(name or token).casefold()}")
            keys.update(f"={folder}" for folder in folders(token))
            if is_hex(token):
                keys.add(f"p{token[:LONGEST_BEGINNING].lower()}")
        keys.update(f"v{name.casefold()} {version}" for name, version in pinned_versions(text))
        at_least = self._config.min_line
        keys.update(f">{line}" for line in quoted_lines(text, at_least=at_least))
        for file in files_of(text):
            for number in _NUMBER.findall(text):
                keys.update((f"#{file}:{number}", f"@{file}:{number}"))
        if "design" in self._config.rules:
            keys.update(f"!{token}" for token in design.tokens(text))

    def has_key(self, key: str) -> bool:
        """Whether a key is one of a known value."""
        return key in self._keys

    def has(self, token: str, values: Iterable[str]) -> bool:
        """Whether a token is known, however it is written.

        Args:
            token: what was printed.
            values: its `value_keys`.
        """
        if f"={token}" in self._keys or not self._keys.isdisjoint(values):
            return True
        return len(token) >= self._config.min_spelling and says(self._prompt, token)


def files_of(text: str) -> frozenset[str]:
    """Names of the files that a text speaks of, without their folders."""
    return frozenset(token for token in tokens(text) if shape(token) == "file")


def value_keys(token: str) -> Iterator[str]:
    """Keys of a token's value, however it is written."""
    if not token.isalpha():
        yield from number_keys(token)
        yield from date_keys(token)
        yield from name_keys(token, at_least=1)
