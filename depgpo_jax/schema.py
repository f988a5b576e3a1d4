"""The trace format as a JSON Schema (draft 2020-12), for validators and editors of other languages.

msgspec derives types, ranges, required and unknown fields from the structs; what it cannot state is
added here: names of resources, the three forms of a write, and what may stand beside them. A schema
cannot say the rest (order and arithmetic of ranges and hunks, command numbers, 1.0 is no integer):
`parse_trace` checks everything.
"""

from __future__ import annotations

from copy import deepcopy
from typing import Any, Final

import msgspec

from depgpo_jax.traces.names import SCHEMA_PATH, SCHEMA_PORT
from depgpo_jax.traces.rules import VERSIONS
from depgpo_jax.traces.structs import Trace

_END: Final = r"(?![\s\S])"
_FILE: Final = f"^{SCHEMA_PATH}{_END}"
_RESOURCE: Final = (
    rf"^(?:(?:unix:|meta:)?{SCHEMA_PATH}|(?:tcp|udp):{SCHEMA_PORT}|process:[\s\S]+){_END}"
)


def json_schema() -> dict[str, Any]:
    """The schema of one trace, that is of one line of a file.

    Every valid trace passes it. A line that passes may still break a rule that no schema can state.

    Source: docs/trace.md.

    Returns:
        The schema as JSON-ready objects; a fresh copy on each call.
    """
    (_,), definitions = msgspec.json.schema_components([Trace], ref_template="#/$defs/{name}")
    trace = definitions.pop("Trace")
    command, write = (definitions[name] for name in ("Command", "Write"))
    trace["properties"]["version"] = {"enum": list(VERSIONS)}
    definitions["Resource"] = {
        "type": "string",
        "description": "The name of a file, port, socket, process, or of a file's mode and owner.",
        "pattern": _RESOURCE,
    }
    resources = {"type": "array", "items": {"$ref": "#/$defs/Resource"}}
    trace["properties"]["verifier"] = resources
    command["properties"]["reads"] = resources
    # An empty tuple in Python, which JSON does not know.
    for name in ("reads", "writes", "stdout_from"):
        command["properties"][name] = {**command["properties"][name], "default": []}
    command["properties"]["untraced"] = resources
    _complete_write(write)
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        **trace,
        "title": "Trace",
        "$defs": definitions,
    }


def _complete_write(write: dict[str, Any]) -> None:
    properties = write["properties"]
    properties["resource"] = {"$ref": "#/$defs/Resource"}
    properties["whole"] = {"const": True}
    properties["moved_from"] = {"type": "string", "pattern": _FILE}
    properties["hunks"]["items"]["allOf"] = deepcopy(_HUNK)
    write["oneOf"] = [{"required": [form]} for form in ("lines", "hunks", "whole")]
    write["dependentRequired"] = {"deleted": ["whole"], "moved_from": ["whole"]}
    write["allOf"] = [
        {
            "if": {"not": {"properties": {"resource": {"pattern": "^/"}}}},
            "then": {"required": ["whole"], "not": {"required": ["moved_from"]}},
        },
        {
            "if": {"required": ["moved_from"]},
            "then": {"properties": {"deleted": {"const": False}}},
        },
    ]


_POSITIVE: Final = {"minimum": 1}
_HUNK: Final = [
    {"not": {"prefixItems": [{}, {"const": 0}, {}, {"const": 0}]}},
    {
        "if": {"prefixItems": [{}, _POSITIVE]},
        "then": {"prefixItems": [_POSITIVE]},
    },
    {
        "if": {"prefixItems": [{}, {}, {}, _POSITIVE]},
        "then": {"prefixItems": [{}, {}, _POSITIVE]},
    },
]
