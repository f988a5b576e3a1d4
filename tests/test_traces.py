"""One trace: every rule of docs/trace.md, and the message when it is broken."""

import json
import pickle
import random
from copy import deepcopy
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import UNSET

from depgpo_jax.errors import DepgpoError, MissingExtraError, TraceError
from depgpo_jax.traces import (
    Command,
    Step,
    TestResult,
    Trace,
    Write,
    encode_trace,
    parse_trace,
    validate_trace,
)
from depgpo_jax.traces import names as names_module
from depgpo_jax.traces.diagnosis import explain
from depgpo_jax.traces.duplicates import has_duplicate_keys
from depgpo_jax.traces.fields import ALLOWED
from depgpo_jax.traces.names import name_problem
from depgpo_jax.traces.parse import decode_trace

ROOT = Path(__file__).resolve().parent
Json = dict[str, Any]

FULL: Json = {
    "version": 1,
    "trace_id": "a",
    "group_id": "g",
    "reward": 0.5,
    "verifier": ["/app/x", "tcp:80", "/app/x"],
    "invalid": "crashed",
    "tests": [{"name": "t", "passed": False}],
    "extra": {"any": [1, None, {"thing": 1.5}]},
    "steps": [
        {
            "loss_tokens": 2,
            "state": "s",
            "reward": -1,
            "token_ids": [5, 6],
            "logprobs": [-0.5, 0],
            "context_token_ids": [1, 2, 3],
            "extra": {},
            "commands": [
                {
                    "text": "mv é",
                    "exit_code": None,
                    "backend": "strace",
                    "started": 1.5,
                    "ended": "2025-01-01T00:00:00Z",
                    "stdout": "",
                    "background": True,
                    "recorded": False,
                    "unrecorded_reason": "why",
                    "untraced": ["/app/u"],
                    "extra": {"version": 2},
                    "reads": ["/app/x", "/app/x"],
                    "writes": [
                        {"resource": "/app/x", "lines": [[1, 1], [2, 5]]},
                        {"resource": "/app/y", "hunks": [[0, 0, 1, 2], [3, 2, 4, 0]]},
                        {"resource": "/app/z", "whole": True, "moved_from": "/app/w"},
                        {"resource": "/app/w", "whole": True, "deleted": True},
                        {"resource": "process:x", "whole": True},
                    ],
                    "stdout_from": [],
                },
                {"stdout_from": [0, 0]},
            ],
        },
        {"loss_tokens": 0, "commands": []},
    ],
}


def encode(tree: object) -> bytes:
    return json.dumps(tree, ensure_ascii=False).encode()


def with_value(path: list[str | int], value: object) -> bytes:
    """FULL with one value replaced; `...` removes it."""
    tree = deepcopy(FULL)
    holder: Any = tree
    for key in path[:-1]:
        holder = holder[key]
    if value is ...:
        del holder[path[-1]]
    else:
        holder[path[-1]] = value
    return encode(tree)


def error_of(line: bytes) -> TraceError:
    with pytest.raises(TraceError) as caught:
        parse_trace(line, source="f.jsonl", line_number=7)
    assert caught.value.file == "f.jsonl"
    assert caught.value.line == 7
    return caught.value


STEP = ["steps", 0]
COMMAND = [*STEP, "commands", 0]
WRITES = [*COMMAND, "writes"]


def w(**fields: object) -> list[Json]:
    return [{"resource": "/a", **fields}]


# path, value, field in the message, words in "found", words in "allowed"
BAD_VALUES: list[tuple[list[str | int], object, str | None, str, str]] = [
    (["version"], 2, "version", "version 2", "version 1, the only one that this build reads"),
    (["version"], True, "version", "true", "the integer 1"),
    (["version"], 1.0, "version", "1.0", "the integer 1"),
    (["version"], ..., None, "no field `version`", "version, trace_id, verifier, steps"),
    (["trace_id"], "", "trace_id", '""', "not empty"),
    (["trace_id"], ..., None, "no field `trace_id`", "trace_id"),
    (["group_id"], "", "group_id", '""', "not empty"),
    (["group_id"], None, "group_id", "null", "not empty"),
    (["reward"], None, "reward", "null", "a finite number"),
    (["reward"], True, "reward", "true", "a finite number"),
    (["reward"], "1", "reward", '"1"', "a finite number"),
    (["verifier"], ..., None, "no field `verifier`", "verifier"),
    (["verifier"], "/a", "verifier", '"/a"', "array of resource names"),
    (["verifier", 1], "a", "verifier[1]", '"a", which is neither an absolute path', "tcp:PORT"),
    (["verifier", 1], 3, "verifier[1]", "3", "tcp:PORT"),
    (["steps"], ..., None, "no field `steps`", "steps"),
    (["steps"], {}, "steps", "an empty object", "an array of steps"),
    (["steps", 1], [], "steps[1]", "[]", "a step, an object"),
    (["invalid"], False, "invalid", "false", "text that says why"),
    (["tests"], {"name": "t"}, "tests", "an object", 'array of {"name", "passed"}'),
    (["tests", 0], {"name": "t"}, "tests[0]", "no field `passed`", "name, passed"),
    (["tests", 0, "passed"], 1, "tests[0].passed", "1", "true or false"),
    (["extra"], [], "extra", "[]", "an object"),
    (["extra", "n"], 2**53 + 1, "extra.n", "9007199254740993", "2^53"),
    (["extra", "n"], [{"m": -(2**60)}], "extra.n[0].m", "-1152921504606846976", "2^53"),
    (["surprise"], 1, "surprise", 'the unknown field "surprise"', "version, trace_id"),
    ([*STEP, "surprise"], 1, "steps[0].surprise", "unknown field", "loss_tokens, commands"),
    ([*STEP, "loss_tokens"], ..., "steps[0]", "no field `loss_tokens`", "loss_tokens, commands"),
    ([*STEP, "loss_tokens"], -1, "steps[0].loss_tokens", "-1", "from 0 to 9007199254740992"),
    ([*STEP, "loss_tokens"], 2**53 + 1, "steps[0].loss_tokens", "9007199254740993", "from 0"),
    ([*STEP, "loss_tokens"], 10**30, "steps[0].loss_tokens", "1000000000000", "from 0"),
    ([*STEP, "loss_tokens"], 1.0, "steps[0].loss_tokens", "1.0", "an integer from 0"),
    ([*STEP, "loss_tokens"], True, "steps[0].loss_tokens", "true", "an integer from 0"),
    ([*STEP, "commands"], ..., "steps[0]", "no field `commands`", "loss_tokens, commands"),
    ([*STEP, "commands"], None, "steps[0].commands", "null", "an array of commands"),
    ([*STEP, "state"], 1, "steps[0].state", "1", "text"),
    ([*STEP, "reward"], "x", "steps[0].reward", '"x"', "a finite number"),
    ([*STEP, "token_ids"], [5], "steps[0].token_ids", "1 entries where loss_tokens is 2", "one"),
    ([*STEP, "token_ids", 0], -1, "steps[0].token_ids[0]", "-1", "from 0"),
    ([*STEP, "logprobs"], [0, 0, 0], "steps[0].logprobs", "3 entries", "one entry for each"),
    ([*STEP, "logprobs", 1], "x", "steps[0].logprobs[1]", '"x"', "a finite number"),
    ([*STEP, "context_token_ids"], 1, "steps[0].context_token_ids", "1", "an array of token ids"),
    ([*STEP, "extra"], None, "steps[0].extra", "null", "an object"),
    ([*STEP, "extra", "n"], 2**54, "steps[0].extra.n", "18014398509481984", "2^53"),
    ([*COMMAND, "surprise"], 1, "steps[0].commands[0].surprise", "unknown field", "reads, writes"),
    ([*COMMAND, "text"], None, "steps[0].commands[0].text", "null", "text"),
    ([*COMMAND, "exit_code"], "0", "steps[0].commands[0].exit_code", '"0"', "or null"),
    ([*COMMAND, "exit_code"], 2**53 + 1, "steps[0].commands[0].exit_code", "9007", "or null"),
    ([*COMMAND, "exit_code"], 0.0, "steps[0].commands[0].exit_code", "0.0", "or null"),
    ([*COMMAND, "backend"], 1, "steps[0].commands[0].backend", "1", "text"),
    ([*COMMAND, "started"], None, "steps[0].commands[0].started", "null", "seconds, or text"),
    ([*COMMAND, "ended"], [], "steps[0].commands[0].ended", "[]", "seconds, or text"),
    ([*COMMAND, "stdout"], 1, "steps[0].commands[0].stdout", "1", "text"),
    ([*COMMAND, "background"], 1, "steps[0].commands[0].background", "1", "true or false"),
    ([*COMMAND, "recorded"], None, "steps[0].commands[0].recorded", "null", "true or false"),
    ([*COMMAND, "unrecorded_reason"], 1, "steps[0].commands[0].unrecorded_reason", "1", "text"),
    ([*COMMAND, "untraced", 0], "x", "steps[0].commands[0].untraced[0]", '"x"', "meta:/path"),
    ([*COMMAND, "extra"], 1, "steps[0].commands[0].extra", "1", "an object"),
    ([*COMMAND, "extra", "n"], 2**53 + 1, "steps[0].commands[0].extra.n", "9007", "2^53"),
    ([*COMMAND, "reads"], None, "steps[0].commands[0].reads", "null", "an array"),
    ([*COMMAND, "reads", 1], "/a/", "steps[0].commands[0].reads[1]", "a / at its end", "tcp:PORT"),
    (
        [*COMMAND, "stdout_from"],
        [0],
        "steps[0].commands[0].stdout_from[0]",
        "0 in command 0",
        "nothing, for the trace's first command",
    ),
    (
        [*STEP, "commands", 1, "stdout_from"],
        [0, 1],
        "steps[0].commands[1].stdout_from[1]",
        "1 in command 1",
        "the number of a strictly earlier command, 0 to 0",
    ),
    ([*COMMAND, "stdout_from"], [-1], "steps[0].commands[0].stdout_from[0]", "-1", "from 0"),
    (WRITES, {}, "steps[0].commands[0].writes", "an empty object", "an array of writes"),
    (WRITES, [{"whole": True}], "@", "no field `resource`", "resource"),
    (WRITES, w(whole=True, surprise=1), "@.surprise", "unknown field", "resource, lines, hunks"),
    (WRITES, [{"resource": "", "whole": True}], "@.resource", "an empty name", "tcp:PORT"),
    (WRITES, w(), "@", "none of `lines`, `hunks` and `whole`", "exactly one"),
    (WRITES, w(lines=[[1, 1]], whole=True), "@", "`lines` and `whole`", "exactly one"),
    (WRITES, w(hunks=[[0, 0, 1, 1]], whole=True), "@", "`hunks` and `whole`", "exactly one"),
    (WRITES, w(hunks=[[0, 0, 1, 1]], lines=[[1, 1]]), "@", "`lines` and `hunks`", "exactly one"),
    (WRITES, w(lines=None, whole=True), "@.lines", "null", "at least one [first, last]"),
    (WRITES, w(whole=False), "@.whole", "false", "true"),
    (WRITES, w(whole=1), "@.whole", "1", "true"),
    (WRITES, w(lines=[[1, 1]], deleted=True), "@.deleted", "`deleted` beside `lines`", "beside"),
    (WRITES, w(hunks=[[0, 0, 1, 1]], deleted=False), "@.deleted", "beside `hunks`", "beside"),
    (WRITES, w(whole=True, deleted=1), "@.deleted", "1", "true or false"),
    (WRITES, w(lines=[[1, 1]], moved_from="/b"), "@.moved_from", "beside `lines`", "`whole`"),
    (WRITES, w(whole=True, moved_from="b"), "@.moved_from", '"b"', "path of a file"),
    (WRITES, w(whole=True, moved_from="tcp:80"), "@.moved_from", '"tcp:80"', "path of a file"),
    (WRITES, w(whole=True, moved_from=1), "@.moved_from", "1", "path of a file"),
    (WRITES, w(whole=True, moved_from="/a"), "@.moved_from", "the resource itself", "another"),
    (
        WRITES,
        w(whole=True, moved_from="/b", deleted=True),
        "@",
        "`deleted` and `moved_from`",
        "at most one",
    ),
    (
        WRITES,
        [{"resource": "tcp:80", "whole": True, "moved_from": "/b"}],
        "@.moved_from",
        '"/b" beside the resource "tcp:80"',
        "path of a file",
    ),
    (
        WRITES,
        [{"resource": "meta:/a", "lines": [[1, 1]]}],
        "@.lines",
        '`lines` for "meta:/a", which is no file',
        "only `whole`",
    ),
    (
        WRITES,
        [{"resource": "process:p", "hunks": [[0, 0, 1, 1]]}],
        "@.hunks",
        "which is no file",
        "only `whole`",
    ),
    (
        WRITES,
        [*w(whole=True), *w(lines=[[1, 1]])],
        "steps[0].commands[0].writes[1].resource",
        '"/a" again, as in writes[0]',
        "one entry for each resource",
    ),
    (
        WRITES,
        [
            {"resource": "/b", "whole": True},
            {"resource": "/c", "whole": True, "moved_from": "/a"},
            {"resource": "/d", "whole": True, "moved_from": "/a"},
        ],
        "steps[0].commands[0].writes[2].moved_from",
        '"/a" again, as in writes[1]',
        "one destination for each moved path",
    ),
    (WRITES, w(lines=[]), "@.lines", "[]", "at least one [first, last]"),
    (WRITES, w(lines=[[1]]), "@.lines[0]", "[1]", "two integers"),
    (WRITES, w(lines=[[1, 2, 3]]), "@.lines[0]", "[1, 2, 3]", "two integers"),
    (WRITES, w(lines=[[0, 1]]), "@.lines[0][0]", "0", "an integer from 1"),
    (WRITES, w(lines=[[1, "2"]]), "@.lines[0][1]", '"2"', "an integer from 1"),
    (WRITES, w(lines=[[1, 2.0]]), "@.lines[0][1]", "2.0", "an integer from 1"),
    (WRITES, w(lines=[[3, 2]]), "@.lines[0]", "[3, 2], which ends before", "first <= last"),
    (WRITES, w(lines=[[1, 3], [3, 4]]), "@.lines[1]", "[3, 4] below [1, 3]", "ascending"),
    (WRITES, w(lines=[[5, 6], [1, 2]]), "@.lines[1]", "[1, 2] below [5, 6]", "ascending"),
    (WRITES, w(hunks=[]), "@.hunks", "[]", "at least one [old_start"),
    (WRITES, w(hunks=[[1, 1, 1]]), "@.hunks[0]", "[1, 1, 1]", "four integers"),
    (WRITES, w(hunks=[[1, 1, 1, -1]]), "@.hunks[0][3]", "-1", "from 0"),
    (WRITES, w(hunks=[[1, 1, True, 1]]), "@.hunks[0][2]", "true", "from 0"),
    (WRITES, w(hunks=[[1, 0, 1, 0]]), "@.hunks[0]", "both counts are 0", "at least one line"),
    (WRITES, w(hunks=[[0, 1, 1, 1]]), "@.hunks[0]", "old_start is 0", "a start from 1"),
    (WRITES, w(hunks=[[1, 1, 0, 1]]), "@.hunks[0]", "new_start is 0", "a start from 1"),
    (WRITES, w(hunks=[[1, 2, 1, 1], [2, 1, 1, 1]]), "@.hunks[1]", "below [1, 2, 1, 1]", "overlap"),
    (WRITES, w(hunks=[[1, 2, 1, 1], [3, 1, 2, 1]]), "@.hunks[1]", "below [1, 2, 1, 1]", "touch"),
    (WRITES, w(hunks=[[1, 2, 1, 1], [2, 0, 2, 1]]), "@.hunks[1]", "below", "touch"),
    (WRITES, w(hunks=[[5, 1, 5, 1], [1, 1, 1, 1]]), "@.hunks[1]", "below", "ascending"),
    (WRITES, w(hunks=[[3, 1, 4, 1]]), "@.hunks[0]", "new_start is 4", "new_start 3,"),
    (WRITES, w(hunks=[[3, 2, 3, 0]]), "@.hunks[0]", "new_start is 3", "new_start 2,"),
    (
        WRITES,
        w(hunks=[[0, 0, 1, 4], [7, 1, 12, 3]]),
        "@.hunks[1]",
        "new_start is 12",
        "new_start 11,",
    ),
    (
        WRITES,
        [*w(lines=[[1, 2**24]]), {"resource": "/b", "whole": True}],
        "steps[0].commands[0].writes",
        "16777217 records",
        "at most 2^24",
    ),
    (
        WRITES,
        w(hunks=[[0, 0, 1, 2**24], [5, 1, 5 + 2**24 - 1, 0]]),
        "steps[0].commands[0].writes",
        "16777217 records",
        "at most 2^24",
    ),
]


def test_the_full_example_is_good_and_keeps_every_value():
    trace = parse_trace(encode(FULL))
    assert trace.trace_id == "a"
    assert trace.steps[0].commands[0].exit_code is None
    assert trace.steps[0].commands[1].exit_code is UNSET
    assert trace.steps[0].commands[1].recorded
    assert trace.steps[0].commands[0].writes[1].hunks == [(0, 0, 1, 2), (3, 2, 4, 0)]
    assert trace.extra == FULL["extra"]
    assert parse_trace(encode_trace(trace)) == trace


@pytest.mark.parametrize(("path", "value", "field", "found", "allowed"), BAD_VALUES)
def test_a_bad_value_is_named_with_its_place(
    path: list[str | int], value: object, field: str | None, found: str, allowed: str
):
    if field is not None and field.startswith("@"):
        field = "steps[0].commands[0].writes[0]" + field[1:]
    error = error_of(with_value(path, value))
    assert error.field == field
    assert found in error.found
    assert allowed in error.allowed
    assert error.remedy.endswith((".", ":"))
    assert error.trace_id == (
        None if path == ["trace_id"] and value is ... else FULL["trace_id"]
    ) or (path == ["trace_id"])
    text = str(error)
    assert text.startswith("f.jsonl, line 7")
    for part in (found, allowed, error.remedy, field or ""):
        assert part in text


def test_the_trace_id_is_named_even_where_the_line_is_cut():
    assert error_of(encode(FULL)[:-10]).trace_id == "a"
    assert error_of(b'{"trace_id" : "a\\u00e9\\"b", "x').trace_id == 'aé"b'
    assert error_of(b'{"trace_id": "\\x", "x').trace_id is None
    assert error_of(b'{"trace_id": 3, "x').trace_id is None


@pytest.mark.parametrize("message", ["odd", "odd - at `$.nowhere`", "odd - at `$.steps[9]`"])
def test_what_nobody_foresaw_is_passed_on_in_the_decoder_s_words(message: str):
    problem = explain(encode(FULL), ValueError(message))
    assert problem.found == "what the decoder refuses (odd)"
    assert problem.allowed == "what docs/trace.md describes"
    assert problem.trace_id == "a"


def test_a_whole_message_reads_well():
    line = with_value(WRITES, w(lines=[[3, 2]]))
    assert str(error_of(line)) == (
        'f.jsonl, line 7, trace "a", steps[0].commands[0].writes[0].lines[0]: found [3, 2], which '
        "ends before it begins. Allowed: [first, last] with first <= last. Swap or correct the two "
        "numbers."
    )
    assert "only exit_code may be null" in str(error_of(with_value(["reward"], None)))
    assert "without a fraction or exponent" in str(error_of(with_value(["version"], 1.0)))
    assert "move it into `extra`" in str(error_of(with_value(["surprise"], 1)))
    assert "`extra`" not in str(error_of(with_value([*WRITES, 0, "surprise"], 1)))


GOOD_WRITES = [
    w(lines=[[1, 1], [2, 2]]),
    w(lines=[[1, 2**24]]),
    w(lines=[[2**53, 2**53]]),
    w(hunks=[[0, 0, 1, 2**24]]),
    w(hunks=[[1, 2, 0, 0]]),
    w(hunks=[[3, 2, 2, 0]]),
    w(hunks=[[1, 1, 1, 3], [3, 1, 5, 1], [4, 0, 7, 1]]),
    w(hunks=[[1, 1, 1, 1], [2, 0, 3, 1]]),
    w(whole=True, deleted=False, moved_from="/b"),
    [
        {"resource": "/a", "whole": True, "moved_from": "/b"},
        {"resource": "/b", "whole": True, "moved_from": "/a"},
    ],
    [{"resource": "tcp:80", "whole": True, "deleted": True}],
]


@pytest.mark.parametrize("writes", GOOD_WRITES[:7] + GOOD_WRITES[8:])
def test_writes_at_the_edge_of_a_rule_are_good(writes: list[Json]):
    parse_trace(with_value(WRITES, writes))


BAD_LINES = [
    (b"", "is not JSON: Expecting value at column 1", None),
    (b"[1]", "found [1]. Allowed: one trace, an object", None),
    (b"null", "found null. Allowed: one trace", None),
    (b"{", "is not JSON", None),
    (encode(FULL) + b"x", "Extra data", None),
    (encode(FULL) + encode(FULL), "Extra data", None),
    (encode(FULL)[:-10], "is not JSON", None),
    (encode(FULL).replace(b" 0.5,", b" .5,"), "is not JSON", None),
    (b"\xef\xbb\xbf" + encode(FULL), "found a byte-order mark", None),
    (encode(FULL).decode().encode("utf-16"), "found a byte-order mark", None),
    (encode(FULL).replace(b'"mv', b'"\xff'), "byte 0xff at offset", None),
    (encode(FULL).replace(b'"mv', b'"\xed\xa0\x80'), "byte 0xed at offset", None),
    (encode(FULL).replace(b'"mv', b'"\\ud800'), "half a surrogate pair", "commands[0].text"),
    (encode(FULL).replace(b'"any"', b'"\\udc00"'), "half a surrogate pair", "extra"),
    (encode(FULL).replace(b'"mv', b'"a\tb'), "Invalid control character", None),
    (encode(FULL).replace(b" 0.5,", b" NaN,"), "found NaN. Allowed: a finite number", "reward"),
    (encode(FULL).replace(b" 0.5,", b" -Infinity,"), "found -Infinity", "reward"),
    (encode(FULL).replace(b" 0.5,", b" 1e999,"), "found 1e999", "reward"),
    (encode(FULL).replace(b" 0.5,", b" " + b"1" * 400 + b","), "found 1111111", "reward"),
    (encode(FULL).replace(b" 0.5,", b" " + b"1" * 6000 + b","), "found 1111111", "reward"),
    (encode(FULL).replace(b"1.5}", b"1e999}"), "found 1e999", "extra.any[2].thing"),
    (encode(FULL).replace(b"1.5}", b"NaN}"), "found NaN", "extra.any[2].thing"),
    (encode(FULL).replace(b"1.5}", b"1" * 6000 + b"}"), "found 1111111", "extra.any[2].thing"),
    (encode(FULL).replace(b"[-0.5", b"[NaN"), "found NaN", "steps[0].logprobs[0]"),
    (encode(FULL).replace(b"1.5}", b"[" * 5000 + b"]" * 5000 + b"}"), "too deeply", None),
]


@pytest.mark.parametrize(("line", "words", "field"), BAD_LINES)
def test_a_line_that_is_not_proper_json_is_explained(line: bytes, words: str, field: str | None):
    error = error_of(line)
    assert words in str(error)
    assert (error.field or "").endswith(field or "")
    assert len(str(error)) < 600


def test_nesting_between_the_limits_of_two_decoders_is_an_error_not_a_crash():
    for depth in range(100, 2000, 50):
        line = encode(FULL).replace(b"1.5}", b'{"a":' * depth + b"1" + b"}" * (depth + 1))
        try:
            parse_trace(line)
        except TraceError as error:
            assert "nested too deeply" in error.found  # noqa: PT017


@pytest.mark.parametrize(
    "change", [{"surprise": 1}, {"steps": 3}, {"trace_id": ""}, {"reward": None}]
)
def test_the_version_comes_before_all_other_rules(change: Json):
    error = error_of(encode({**FULL, "version": 2, **change}))
    assert error.field == "version"
    assert "version 1" in error.allowed
    assert "convert the file" in error.remedy


@pytest.mark.parametrize(
    ("old", "new", "key", "field"),
    [
        ('"version": 1,', '"version": 1, "version": 1,', "version", "version"),
        ('"reads"', '"reads" : [], "reads"', "reads", "steps[0].commands[0].reads"),
        ('"state"', '"st\\u0061te": "x", "state"', "state", "steps[0].state"),
        ('"passed"', '"passed"\t:true,"passed"', "passed", "tests[0].passed"),
        (
            '"deleted"',
            '"whole": true, "deleted"',
            "whole",
            "steps[0].commands[0].writes[3].whole",
        ),
        ('"thing"', '"thing": ":", "thing"', "thing", "extra.any[2].thing"),
        ('"version": 2', '"version": 2, "version": 2', "version", "extra.version"),
        ('"extra": {}', '"extra": {"\\"": 1, "\\"": 1}', '\\"', "steps[0].extra"),
        ('"extra": {}', '"\\u0065xtra": {"b": 1, "b": 1}', "b", "steps[0].extra.b"),
        ('"extra": {}', '"extra": {}, "extra": {}', "extra", "steps[0].extra"),
        # A second, bad problem does not hide the first.
        ('"state"', '"state": 3, "state"', "state", "steps[0].state"),
    ],
)
def test_a_key_that_occurs_twice_is_an_error(old: str, new: str, key: str, field: str):
    line = json.dumps(FULL).replace(old, new, 1).encode()
    if old == '"version": 2':
        field = "steps[0].commands[0].extra.version"
    error = error_of(line)
    assert "twice" in error.found
    assert (error.field or "").startswith(field)
    assert error.allowed == "each key once"
    assert error.trace_id == "a"


def dump(value: Any, rng: random.Random, doubled: list[int]) -> str:
    """JSON with random white space and escapes; doubled[0] counts down to the key written twice."""

    def space() -> str:
        return rng.choice(["", "", "", " ", "\t", " \r "])

    def text(string: str) -> str:
        out = json.dumps(string, ensure_ascii=rng.random() < 0.5)
        if rng.random() < 0.2 and string.isalnum():
            out = '"' + "".join(f"\\u{ord(c):04x}" for c in string) + '"'
        return out

    if isinstance(value, dict):
        members = []
        for key, item in value.items():
            member = f"{text(key)}{space()}:{space()}{dump(item, rng, doubled)}"
            doubled[0] -= 1
            if doubled[0] == 0:
                members.append(f"{text(key)}{space()}:{dump(item, rng, [0])}")
            members.append(member)
        rng.shuffle(members)
        return "{" + space() + f"{space()},{space()}".join(members) + space() + "}"
    if isinstance(value, list):
        return "[" + f"{space()},{space()}".join(dump(v, rng, doubled) for v in value) + "]"
    return text(value) if isinstance(value, str) else json.dumps(value)


TEXTS = st.text(st.sampled_from('ab:"\\ {}[],\n\té😀'), max_size=6)
EXTRAS = st.dictionaries(
    TEXTS | st.sampled_from(["extra", "reads"]),
    st.recursive(
        st.none() | st.integers(-5, 5) | TEXTS,
        lambda inner: st.lists(inner, max_size=2) | st.dictionaries(TEXTS, inner, max_size=3),
        max_leaves=5,
    ),
    max_size=3,
)


def without_extra(tree: Json) -> Json:
    if isinstance(tree, dict):
        return {key: without_extra(item) for key, item in tree.items() if key != "extra"}
    return [without_extra(item) for item in tree] if isinstance(tree, list) else tree


@given(
    text=TEXTS,
    extra=EXTRAS,
    inner=EXTRAS,
    seed=st.integers(0, 2**32),
    double=st.integers(0, 60),
    plain=st.booleans(),
)
def test_duplicate_keys_are_found_exactly(
    text: str, extra: Json, inner: Json, seed: int, double: int, plain: bool
):
    """Whatever the white space and escapes: the fast count agrees with what was written."""
    tree = deepcopy(FULL)
    tree["extra"] = extra
    tree["steps"][0]["commands"][0] |= {"text": text, "stdout": f'{{"a":{text}', "extra": inner}
    if plain:
        tree = without_extra(tree)
    doubled = [double]
    line = dump(tree, random.Random(seed), doubled).encode()
    is_double = double > 0 and doubled[0] <= 0
    assert has_duplicate_keys(line, decode_trace(line)) is is_double
    if is_double:
        assert "twice" in error_of(line).found
    else:
        parse_trace(line)


GOOD_NAMES = [
    "/a",
    "/a/b.c",
    "/...",
    "/.a/..b/c..",
    "/a b/\n/\x01",
    "/é/😀/\u202e",
    "/a\\\\b",
    r"/\xff",
    r"/\xFf\x80",
    r"/\\x41",
    r"/\\xc3\xa9",
    r"/é\xa9",
    "/" + "a" * 5000,
    "/process:x",
    "tcp:1",
    "udp:65535",
    "tcp:59999",
    "unix:/run/s",
    "process:x y",
    "process:/",
    "meta:/a/b",
]
BAD_NAMES = [
    ("", "an empty name"),
    ("a", "neither an absolute path"),
    ("./a", "neither an absolute path"),
    ("/", "the root directory"),
    ("/a/", "a / at its end"),
    ("//a", "an empty component"),
    ("/a//b", "an empty component"),
    ("/.", 'the component "."'),
    ("/a/./b", 'the component "."'),
    ("/a/..", 'the component ".."'),
    ("/a\0", "a NUL"),
    ("/a\n/..", '".."'),
    ("/a\\", r'"\" is no escape'),
    ("/a\\b", r'"\b" is no escape'),
    (r"/\x41", r'"\x41" is no escape'),
    (r"/\x7f", r'"\x7f" is no escape'),
    (r"/\xf", r'"\xf" is no escape'),
    (r"/\xfg", r'"\xfg" is no escape'),
    (r"/\\\x4", r'"\x4" is no escape'),
    (r"/\xc3\xa9", "together are valid UTF-8"),
    (r"/\\\xff\xe2\x82\xac", "together are valid UTF-8"),
    ("/\ud800", "half a surrogate pair"),
    ("tcp:0", 'whose port is "0"'),
    ("tcp:080", 'whose port is "080"'),
    ("tcp:65536", 'whose port is "65536"'),
    ("tcp:", 'whose port is ""'),
    ("udp:1\n", 'whose port is "1\\n"'),
    ("udp:\u0661", "whose port is"),
    ("process:", "a process without a name"),
    ("unix:run", "neither an absolute path"),
    ("unix:/a/", "a / at its end"),
    ("meta:a", "neither an absolute path"),
    ("http://x", "neither an absolute path"),
    ("TCP:80", "neither an absolute path"),
]


@pytest.mark.parametrize("name", GOOD_NAMES)
def test_good_names(name: str):
    assert name_problem(name) is None
    assert name_problem(name) is None


@pytest.mark.parametrize(("name", "words"), BAD_NAMES)
def test_bad_names_are_explained(name: str, words: str):
    problem = name_problem(name)
    assert problem is not None
    assert words in problem[0]
    assert problem[1].endswith(".")
    assert problem[0].isprintable()


@given(st.lists(st.sampled_from(["/", ".", "a", "\\", "\\x", "ff", "4", "\0"]), max_size=8))
def test_names_follow_the_rule_read_literally(tail: list[str]):
    name = "/" + "".join(tail)
    parts = name[1:].split("/")
    good = all(part not in ("", ".", "..") for part in parts) and "\0" not in name
    rest = name
    while good and "\\" in rest:
        rest = rest[rest.index("\\") :]
        if rest.startswith("\\\\"):
            rest = rest[2:]
        else:
            good = rest.startswith("\\x") and rest[2:4] in ("ff", "fa", "aa", "af")
            rest = rest[4:]
    assert (name_problem(name) is None) is good


def test_the_cache_of_names_is_bounded(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(names_module, "_MAX_CACHED", 10)
    for k in range(100):
        assert name_problem(f"/cache/{k}") is None
        assert len(names_module.ACCEPTED) <= 10 or k == 0
    assert name_problem("/cache/" + "x" * 300) is None
    assert "/cache/" + "x" * 300 not in names_module.ACCEPTED


def one(**command: Any) -> Trace:
    return Trace(1, "t", [], [Step(1, [Command(**command)])])


CYCLE: Json = {}
CYCLE["x"] = CYCLE
NOT_JSON: list[tuple[Trace, str, str]] = [
    (msgspec.structs.replace(one(), reward=float("nan")), "nan", "reward"),
    (one(started=float("inf")), "inf", "steps[0].commands[0].started"),
    (one(extra={"a": [float("nan")]}), "nan", "steps[0].commands[0].extra.a[0]"),
    (one(text=b"ls"), "Python type builtins.bytes", "steps[0].commands[0].text"),
    (one(text="\ud800"), "half a surrogate pair", "steps[0].commands[0].text"),
    (one(reads={"/a"}), "Python type builtins.set", "steps[0].commands[0].reads"),
    (one(exit_code=2**70), str(2**70), "steps[0].commands[0].exit_code"),
    (one(exit_code=object()), "Python type builtins.object", "steps[0].commands[0].exit_code"),
    (one(writes=[{"resource": "/a", "whole": True}]), "builtins.dict", "writes[0]"),
    (one(extra={1: 2}), "builtins.dict", "steps[0].commands[0].extra"),
    (one(extra={"step": Step(1, [])}), "structs.Step", "extra.step"),
    (one(extra=CYCLE), "nested too deeply", "extra"),
    (one(reads=["a"]), "neither an absolute path", "steps[0].commands[0].reads[0]"),
    (one(writes=[Write("/a")]), "none of `lines`", "steps[0].commands[0].writes[0]"),
    (one(text=None), "null", "steps[0].commands[0].text"),
    (Trace(2, "t", [], []), "version 2", "version"),
]


@pytest.mark.parametrize(("trace", "found", "field"), NOT_JSON)
def test_a_trace_built_in_python_is_checked_too(trace: Trace, found: str, field: str):
    with pytest.raises(TraceError) as caught:
        validate_trace(trace)
    assert found in caught.value.found
    assert (caught.value.field or "").endswith(field)
    assert caught.value.trace_id == "t"
    assert caught.value.file is None
    assert str(caught.value).startswith('trace "t", ')


def test_lists_for_tuples_are_good_enough():
    lines: Any = [[1, 2]]
    validate_trace(one(writes=[Write("/a", lines=lines)]))


def test_something_else_than_a_trace_is_refused():
    anything: Any = object()
    with pytest.raises(TraceError, match=r"found a value of the Python type builtins\.object"):
        validate_trace(anything)


def test_helpers_fill_in_defaults():
    trace = parse_trace(encode(FULL))
    bare = Trace(1, "t", [], [Step(0, [Command()]), Step(0, [Command(reads=["/a"])])])
    assert (trace.group, bare.group) == ("g", "t")
    assert (trace.trainable, bare.trainable) == (False, False)
    assert msgspec.structs.replace(bare, reward=0.0).trainable
    assert bare.commands == [Command(), Command(reads=["/a"])]
    assert Command().reads == ()
    assert TestResult("t", True).passed


def test_every_field_has_words_for_what_it_may_hold():
    def paths(struct: type[msgspec.Struct], prefix: str) -> list[str]:
        inner = {"steps": Step, "commands": Command, "writes": Write, "tests": TestResult}
        found: list[str] = []
        for name in struct.__struct_fields__:
            path = f"{prefix}.{name}".removeprefix(".")
            found.append(path)
            if name in inner:
                found += [f"{path}[]", *paths(inner[name], f"{path}[]")]
        return found

    assert set(paths(Trace, "")) <= set(ALLOWED)


def test_errors_pickle_and_belong_to_the_hierarchy():
    error = error_of(with_value(["reward"], None))
    copy = pickle.loads(pickle.dumps(error))
    assert str(copy) == str(error)
    assert isinstance(error, DepgpoError)
    assert isinstance(error, ValueError)
    missing = MissingExtraError("parquet", "Writing .parquet")
    assert str(pickle.loads(pickle.dumps(missing))) == (
        "Writing .parquet needs the optional extra 'parquet', which is not installed. "
        "Install it with: pip install 'depgpo-jax[parquet]'"
    )
    assert isinstance(missing, ImportError)


@pytest.mark.parametrize("name", ["golden/traces.jsonl", "real/log-summary-group.jsonl"])
def test_recorded_traces_are_good_and_survive_a_round_trip(name: str):
    lines = (ROOT / name).read_bytes().splitlines()
    assert len(lines) >= 5
    for line in lines:
        trace = parse_trace(line)
        assert parse_trace(encode_trace(trace)) == trace
        assert json.loads(line)["trace_id"] == trace.trace_id
