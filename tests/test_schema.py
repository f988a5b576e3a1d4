"""The JSON Schema: what it lets through and what it stops."""

import json
import re
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest

from depgpo_jax.errors import TraceError
from depgpo_jax.schema import json_schema
from depgpo_jax.traces import Trace, encode_trace, parse_trace
from tests.test_traces import (
    BAD_NAMES,
    BAD_VALUES,
    COMMAND,
    FULL,
    GOOD_NAMES,
    GOOD_WRITES,
    WRITES,
    with_value,
)

ROOT = Path(__file__).resolve().parent
SCHEMA = json_schema()
TYPES: dict[str, tuple[type, ...]] = {
    "object": (dict,),
    "array": (list,),
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "null": (type(None),),
}
ANNOTATIONS = {"$schema", "$defs", "title", "description", "default", "then"}


def is_type(value: Any, name: str) -> bool:
    return isinstance(value, TYPES[name]) and not (isinstance(value, bool) and name != "boolean")


def same(a: Any, b: Any) -> bool:
    return type(a) is type(b) and a == b


def valid(value: Any, schema: Any) -> bool:
    """A validator of exactly those keywords that the schema uses; another one is a KeyError."""
    if isinstance(schema, bool):
        return schema
    return all(
        CHECKS[key](value, argument, schema)
        for key, argument in schema.items()
        if key not in ANNOTATIONS
    )


def members(value: Any, properties: Any, _: Any) -> bool:
    return not isinstance(value, dict) or all(
        valid(value[key], inner) for key, inner in properties.items() if key in value
    )


def positional(value: Any, schemas: Any, _: Any) -> bool:
    return not isinstance(value, list) or all(
        valid(item, inner) for item, inner in zip(value, schemas, strict=False)
    )


def remaining(value: Any, inner: Any, schema: Any) -> bool:
    skipped = len(schema.get("prefixItems", []))
    return not isinstance(value, list) or all(valid(item, inner) for item in value[skipped:])


def closed(value: Any, inner: Any, schema: Any) -> bool:
    assert inner is False
    return not isinstance(value, dict) or set(value) <= set(schema["properties"])


CHECKS: dict[str, Any] = {
    "$ref": lambda v, ref, _: valid(v, SCHEMA["$defs"][ref.removeprefix("#/$defs/")]),
    "type": lambda v, name, _: is_type(v, name),
    "enum": lambda v, options, _: any(same(v, option) for option in options),
    "const": lambda v, constant, _: same(v, constant),
    "properties": members,
    "additionalProperties": closed,
    "required": lambda v, names, _: not isinstance(v, dict) or set(names) <= set(v),
    "dependentRequired": lambda v, needs, _: (
        not isinstance(v, dict) or all(set(n) <= set(v) for k, n in needs.items() if k in v)
    ),
    "prefixItems": positional,
    "items": remaining,
    "minItems": lambda v, n, _: not isinstance(v, list) or len(v) >= n,
    "maxItems": lambda v, n, _: not isinstance(v, list) or len(v) <= n,
    "minLength": lambda v, n, _: not isinstance(v, str) or len(v) >= n,
    "minimum": lambda v, n, _: not is_type(v, "number") or v >= n,
    "maximum": lambda v, n, _: not is_type(v, "number") or v <= n,
    "pattern": lambda v, p, _: not isinstance(v, str) or re.search(p, v) is not None,
    "anyOf": lambda v, schemas, _: any(valid(v, inner) for inner in schemas),
    "allOf": lambda v, schemas, _: all(valid(v, inner) for inner in schemas),
    "oneOf": lambda v, schemas, _: sum(valid(v, inner) for inner in schemas) == 1,
    "not": lambda v, inner, _: not valid(v, inner),
    "if": lambda v, inner, s: not valid(v, inner) or valid(v, s["then"]),
}

# What a schema cannot say: order, arithmetic, sums, numbers of commands, lengths that are fields.
BEYOND = "twice|again|below|ends before|new_start is [1-9]|records|in command|entries|itself"


def test_the_schema_is_json_of_the_draft_and_fresh_on_each_call():
    schema = json_schema()
    assert schema["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    assert json.loads(json.dumps(schema)) == schema == SCHEMA
    before = json.dumps(schema)
    schema["properties"].clear()
    schema["$defs"]["Write"]["allOf"].clear()
    schema["$defs"]["Write"]["properties"]["hunks"]["items"]["allOf"].clear()
    assert json.dumps(json_schema()) == before


def test_every_reference_leads_somewhere():
    references = set(re.findall(r'"#/\$defs/(\w+)"', json.dumps(SCHEMA)))
    assert references == set(SCHEMA["$defs"]) - {"Trace"}


def test_the_schema_names_the_fields_of_the_structs():
    assert list(SCHEMA["properties"]) == list(Trace.__struct_fields__)
    assert SCHEMA["required"] == ["version", "trace_id", "verifier", "steps"]
    assert SCHEMA["$defs"]["Step"]["required"] == ["loss_tokens", "commands"]
    assert SCHEMA["$defs"]["Write"]["required"] == ["resource"]


@pytest.mark.parametrize("name", ["golden/traces.jsonl", "real/log-summary-group.jsonl"])
def test_recorded_traces_pass(name: str):
    for line in (ROOT / name).read_bytes().splitlines():
        assert valid(json.loads(line), SCHEMA)
        assert valid(json.loads(encode_trace(parse_trace(line))), SCHEMA)


@pytest.mark.parametrize("writes", GOOD_WRITES)
def test_good_writes_pass(writes: list[dict[str, Any]]):
    assert valid(json.loads(with_value(WRITES, writes)), SCHEMA)


@pytest.mark.parametrize(("path", "value", "field", "found", "allowed"), BAD_VALUES)
def test_bad_values_are_stopped_where_a_schema_can(
    path: list[str | int], value: object, field: str | None, found: str, allowed: str
):
    beyond = re.search(BEYOND, found) is not None or path[-2:] == ["extra", "n"]
    assert valid(json.loads(with_value(path, value)), SCHEMA) is beyond


@pytest.mark.parametrize("name", GOOD_NAMES)
def test_good_names_pass(name: str):
    assert valid(json.loads(with_value([*COMMAND, "reads"], [name])), SCHEMA)


# To tell these a schema would have to decode, which a regular expression cannot.
DECODED = ("together are valid UTF-8", "half a surrogate pair")


@pytest.mark.parametrize("name", [name for name, words in BAD_NAMES if words not in DECODED])
def test_bad_names_are_stopped(name: str):
    tree = deepcopy(FULL)
    tree["steps"][0]["commands"][0]["reads"] = [name]
    assert not valid(tree, SCHEMA)
    with pytest.raises(TraceError, match="found"):
        parse_trace(json.dumps(tree).encode())
