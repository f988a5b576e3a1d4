"""The keys under which an output can be found.

The first letter of a key is its kind: `=` a token, `^` a file's name without a folder, `n` and `x`
a number, `d` a day, `c` a name's letters, `v` a version, `a` all of an output, `l` what a line is
about, `#` and `@` a line's number, `>` a line, `r` `p` `s` parts of values, `!` the plain rule.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

from depgpo_jax.tracer import reuse_design as design
from depgpo_jax.tracer.reuse_config import ReuseConfig
from depgpo_jax.tracer.reuse_forms import beginnings, is_decimal, rounded, stem, telling_stem
from depgpo_jax.tracer.reuse_known import Known, value_keys
from depgpo_jax.tracer.reuse_shapes import (
    Shape,
    is_name,
    is_short_number,
    is_version,
    shape,
    telling_digits,
)
from depgpo_jax.tracer.reuse_tokens import (
    bare_words,
    counted_lines,
    folders,
    grepped_lines,
    lines,
    listed_names,
    pinned_versions,
    tokens,
    without_line_numbers,
)

Offer = tuple[str, str]
"""A key and the printed token that it stands for."""


class Outputs:
    """Makes the keys of one output after the other.

    Args:
        known: values that do not count; grows meanwhile.
        config: rules and thresholds.
    """

    def __init__(self, known: Known, config: ReuseConfig) -> None:
        self._known = known
        self._config = config
        self._words: set[str] = set()

    def keys(self, output: str, files: frozenset[str]) -> Iterator[Offer]:
        """Whatever a later text may be found to reuse of an output; some keys come twice.

        Args:
            output: from `plain`.
            files: names of files in the text of the command that printed it.
        """
        config, known = self._config, self._known
        if "design" in config.rules:
            yield from _plain_rule(output, config)
        if config.rules == ("design",):
            return
        content = without_line_numbers(output)
        every = tokens(content)
        distinct = dict.fromkeys(every)
        kinds = Counter(map(shape, distinct))
        bare = bare_words(content)
        round_them = sum(map(is_decimal, distinct)) <= config.max_decimals
        for token in distinct:
            if _is_short_word(token, config.min_any):
                continue
            values = tuple(value_keys(token))
            kind = shape(token)
            if known.has(token, values) or _is_one_of_many(token, kind, kinds, config):
                continue
            if kind and len(token) >= shortest(kind, config):
                yield from self._wholes(token, kind, values)
                if kind == "file" and token in bare:
                    yield f"^{token}", token
            yield from _beginnings_and_ends(token, config, round_them=round_them)
        yield from _all_of_it(every, known, config)
        yield from _lines(output, files, known, config)
        self._words.update(distinct)

    def _wholes(self, token: str, kind: Shape, values: Iterable[str]) -> Iterator[Offer]:
        if kind != "path" or self._is_new_path(token):
            yield f"={token}", token
            if kind == "path" and (folder := next(folders(token), "")):
                yield f"={folder}", token
        for key in values:
            if key[0] != "c" or len(key) > self._config.min_spelling:
                yield key, token

    def _is_new_path(self, path: str) -> bool:
        """Whether a path has a name that says something and that nobody has said before."""
        return any(
            len(name) >= self._config.min_informative
            and name not in self._words
            and not self._known.has_key(f"={name}")
            and ("." not in name or shape(name) != "")
            for name in path.split("/")
        )


def shortest(kind: Shape, config: ReuseConfig) -> int:
    """Characters that a token of a shape has at least."""
    return config.min_any if kind in ("long", "dotted") else config.min_informative


def _beginnings_and_ends(token: str, config: ReuseConfig, *, round_them: bool) -> Iterator[Offer]:
    if round_them and is_decimal(token):
        for short in rounded(token, digits=config.min_rounded):
            yield f"r{short}", token
    if telling_stem(name := stem(token)):
        yield f"s{name.casefold()}", token
    for begin in beginnings(token, at_least=config.min_prefix, whole=config.min_hex):
        yield f"p{begin}", token


def _all_of_it(every: Sequence[str], known: Known, config: ReuseConfig) -> Iterator[Offer]:
    if len(every) > config.max_alone:
        return
    for token in every:
        telling = is_short_number(token) or (len(every) == 1 and is_name(token))
        if telling and not known.has(token, value_keys(token)):
            yield f"a{token}", token


def _lines(
    output: str, files: frozenset[str], known: Known, config: ReuseConfig
) -> Iterator[Offer]:
    for name in listed_names(output):
        if is_name(name) and not known.has(name, ()):
            yield f"l{name.casefold()}", name
    for line in lines(output, at_least=config.min_line):
        yield f">{line}", line
    for said, number in grepped_lines(output):
        for file in (said,) if said else files:
            yield f"#{file}:{number}", number
    for number in counted_lines(output):
        if number[-1] != "0":  # where a look into a file begins is often a round number
            for file in files:
                yield f"@{file}:{number}", number
    for name, version in pinned_versions(output):
        yield f"v{name.casefold()} {version}", f"{name} {version}"


def _plain_rule(output: str, config: ReuseConfig) -> Iterator[Offer]:
    for token in design.tokens(output):
        informative = design.is_informative(token)
        if len(token) >= (config.min_informative if informative else config.min_any):
            yield f"!{token}", token


def _is_one_of_many(token: str, kind: Shape, kinds: Mapping[str, int], config: ReuseConfig) -> bool:
    """Whether an output has so many numbers that one of them is met by chance."""
    if is_version(token):
        return kinds[kind] > config.max_versions
    return (
        kind in ("number", "digits") and 10 ** telling_digits(token) < config.chance * kinds[kind]
    )


def _is_short_word(token: str, min_any: int) -> bool:
    """Whether a token is a short word of letters, which is nothing by itself.

    Said at little cost, since most of an output are such words.
    """
    return (
        len(token) < min_any
        and token.isalpha()
        and (token.islower() or token.istitle() or token.isupper())
    )
