"""The rules by which a word of a text may be a printed value, and the keys to look up."""

from __future__ import annotations

from collections.abc import Iterator

from depgpo_jax.tracer.reuse_config import ReuseConfig, Rule
from depgpo_jax.tracer.reuse_context import (
    Look,
    follows_option,
    is_end_of_path,
    is_imported,
    is_line_address,
    is_middle_of_path,
    is_option,
)
from depgpo_jax.tracer.reuse_forms import (
    LONGEST_BEGINNING,
    date_keys,
    is_decimal,
    is_hex,
    name_keys,
    number_keys,
    significant,
    stem,
    telling_stem,
)
from depgpo_jax.tracer.reuse_shapes import Shape, is_name, is_short_number, shape
from depgpo_jax.tracer.reuse_tokens import Word

Wish = tuple[Rule, str]


def wanted_keys(look: Look, word: Word, above: str, config: ReuseConfig) -> Iterator[Wish]:
    """What to look up for a word.

    Args:
        look: the text.
        word: the word, a part of one, or a folder of a path.
        above: the name of the folder that stands before it; empty if there is none.
        config: rules and thresholds.
    """
    kind = shape(word.text)
    if kind == "file" and is_imported(look.text, word):
        return
    named = kind in ("identifier", "long", "") and word.text in look.bound
    if named or (kind not in ("number", "digits") and is_option(look.text, word)):
        return
    if kind == "file" and above:
        # Many folders have a file of that name.
        yield "literal", f"={above}/{word.text}"
        yield "literal", f"^{word.text}"
    elif kind:
        yield from _wholes(word.text, config)
    yield from _beginnings_and_ends(word.text, kind, config)
    yield from _weak(look, word)


def _wholes(token: str, config: ReuseConfig) -> Iterator[Wish]:
    yield "literal", f"={token}"
    for key in number_keys(token):
        yield "number", key
    for key in date_keys(token):
        yield "date", key
    for key in name_keys(token, at_least=config.min_spelling):
        yield "spelling", key


def _beginnings_and_ends(token: str, kind: Shape, config: ReuseConfig) -> Iterator[Wish]:
    if is_decimal(token) and significant(token) >= config.min_rounded:
        yield "rounded", f"r{token}"
    if len(token) >= config.min_prefix and is_hex(token):
        yield "prefix", f"p{token[:LONGEST_BEGINNING].lower()}"
    name = stem(token) or (token if kind in ("mixed", "identifier") else "")
    if telling_stem(name):
        yield "stem", f"s{name.casefold()}"


def _weak(look: Look, word: Word) -> Iterator[Wish]:
    """Words that count only where the output was about nothing else."""
    token = word.text
    if token.isdigit():
        for file in look.files:
            yield "line", f"#{file}:{token}"
            if is_line_address(look.text, word):
                yield "line", f"@{file}:{token}"
    if is_short_number(token):
        if look.few and not follows_option(look.text, word):
            yield "alone", f"a{token}"
    elif is_name(token) and not is_middle_of_path(look.text, word):
        if not look.few and not is_end_of_path(look.text, word):
            return
        yield "alone", f"a{token}"
        yield "listed", f"l{token.casefold()}"
