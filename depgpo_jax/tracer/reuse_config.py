"""Thresholds and rules of the matcher for reused outputs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Final, Literal, get_args

from depgpo_jax.errors import ConfigError
from depgpo_jax.tracer.reuse_forms import LONGEST_BEGINNING

Rule = Literal[
    "literal",
    "number",
    "date",
    "spelling",
    "alone",
    "listed",
    "line",
    "rounded",
    "prefix",
    "stem",
    "design",
]

RULES: Final[tuple[Rule, ...]] = tuple(rule for rule in get_args(Rule) if rule != "design")
"""Every rule but the one that the others replace."""


@dataclass(frozen=True)
class ReuseConfig:
    """What makes an edge.

    Args:
        rules: names of rules that may make one, kept as a tuple. `literal`: the same token.
            `number`, `date`, `spelling`: the same value, written differently. `alone`: a short
            number or a plain name that was all of an output. `listed`: a plain name that was all of
            a line, or that a line of `ls -l` was about, or its first column. `line`: a long line,
            or the number of one that `grep -n` found in a file of which the text speaks, or that
            `nl` printed and where `sed` begins in that file. `rounded`, `prefix`, `stem`: a number
            with fewer digits, the beginning of a long hexadecimal value, a file's name without its
            ending. `design`: the plain rule that these replace; see `ReuseConfig.design`.
        min_informative: characters that an informative token has at least.
        min_any: characters that any other token has at least.
        chance: a number counts if that many outputs with as many numbers in them would hold it once
            by chance, going by its digits.
        min_spelling: letters and digits of a name that may be spelled in other ways.
        min_prefix: characters of the beginning of a hexadecimal value, at most 12.
        min_hex: characters of the whole of it.
        min_rounded: significant digits that are left of a rounded number.
        max_decimals: numbers with a point in an output whose rounded forms count.
        min_line: characters of a line that counts as a whole.
        max_versions: versions and dates in an output beyond which a version counts only with the
            name before it.
        max_alone: words of an output of which each is "all of it".
        max_words: words of a command's text beyond which plain names and short numbers in it do not
            count, since a program's source holds many.

    Raises:
        ConfigError: no sequence of names, a rule of another name, or a threshold that is no whole
            number above 0.
    """

    rules: Sequence[Rule] = RULES
    min_informative: int = 4
    min_any: int = 12
    chance: int = 100
    min_spelling: int = 8
    min_prefix: int = 7
    min_hex: int = 16
    min_rounded: int = 4
    max_decimals: int = 200
    min_line: int = 40
    max_versions: int = 20
    max_alone: int = 3
    max_words: int = 60

    def __post_init__(self) -> None:
        # A name alone is a sequence too, of letters.
        if isinstance(self.rules, str | bytes) or not isinstance(self.rules, Sequence):
            raise ConfigError(
                f"ReuseConfig.rules: found {self.rules!r}. Allowed: a sequence of names, of "
                f"{', '.join(get_args(Rule))}. Put a single name in a tuple: ('literal',)."
            )
        # A list would make the frozen object unhashable.
        object.__setattr__(self, "rules", tuple(self.rules))
        for rule in self.rules:
            if rule not in get_args(Rule):
                raise ConfigError(
                    f"ReuseConfig.rules: found {rule!r}. Allowed: {', '.join(get_args(Rule))}. "
                    "Leave the argument out for all but design."
                )
        for each in fields(self):
            value = getattr(self, each.name)
            if each.name != "rules" and (type(value) is not int or value < 1):
                raise ConfigError(
                    f"ReuseConfig.{each.name}: found {value!r}. Allowed: a whole number above 0. "
                    "To switch a rule off, leave it out of rules."
                )
        if self.min_prefix > LONGEST_BEGINNING:
            raise ConfigError(
                f"ReuseConfig.min_prefix: found {self.min_prefix}. Allowed: 1 to "
                f"{LONGEST_BEGINNING}. To switch the rule off, leave prefix out of rules."
            )

    @classmethod
    def design(cls, *, min_informative: int = 4, min_any: int = 12) -> ReuseConfig:
        """The plain rule: informative tokens, or long ones, and nothing that was changed.

        Args:
            min_informative: characters that an informative token has at least.
            min_any: characters that any other token has at least.
        """
        return cls(rules=("design",), min_informative=min_informative, min_any=min_any)
