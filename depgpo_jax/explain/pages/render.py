"""From templates to one HTML text with its style and script inside.

Jinja2 escapes every value, so text of a trace stays text. A content security policy by hash is the
second fence: a browser runs the page's own script, loads nothing, and sends nothing.
"""

from __future__ import annotations

import hashlib
from base64 import b64encode
from functools import cache
from importlib.resources import files
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from depgpo_jax.errors import printable
from depgpo_jax.explain.words import Sentence, number
from depgpo_jax.version import __version__

LEVELS = 10
"""Shades of a scale, besides the one for 0."""


def render(template: str, script: str, **values: object) -> str:
    """The page.

    Args:
        template: name of a template in `templates`.
        script: name of its script there; the style is always `page.css`.
        values: what the template shows.

    Returns:
        The whole HTML.
    """
    style, code = _asset("page.css"), _asset(script)
    policy = (
        f"default-src 'none'; style-src '{_hash(style)}'; script-src '{_hash(code)}'; "
        "base-uri 'none'; form-action 'none'"
    )
    page = _environment().get_template(template)
    return page.render(style=style, script=code, policy=policy, version=__version__, **values)


def level(value: float, most: float) -> int:
    """The shade of a value on a scale from 0 to `most`; only 0 itself gets shade 0."""
    if value <= 0.0 or most <= 0.0:
        return 0
    return max(1, min(LEVELS, round(LEVELS * value / most)))


def shown_text(text: str, limit: int) -> str:
    """A text of several lines: cut at `limit` characters, control characters as escapes."""
    shown = "".join(c if c.isprintable() or c in "\n\t" else ascii(c)[1:-1] for c in text[:limit])
    left = len(text) - limit
    return f"{shown}\n… {left:,} more characters" if left > 0 else shown


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("depgpo_jax.explain.pages"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    filters: dict[str, Any] = {"number": number, "linked": _linked, "printable": printable}
    environment.filters.update(filters)
    return environment


def _linked(sentence: Sentence) -> Markup:
    """A sentence whose command numbers are links to the commands."""
    parts = (
        Markup('<a href="#c{0}">#{0}</a>').format(part)
        if isinstance(part, int)
        else Markup.escape(part)
        for part in sentence
    )
    return Markup("").join(parts)


@cache
def _asset(name: str) -> Markup:
    """A style or script of ours, which may stand in the page as it is."""
    return Markup((files("depgpo_jax.explain.pages") / "templates" / name).read_text("utf-8"))


@cache
def _hash(text: str) -> str:
    return "sha256-" + b64encode(hashlib.sha256(text.encode()).digest()).decode()
