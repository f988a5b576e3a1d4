"""What each field of the JSON may hold, in words: the "allowed" part of messages."""

import json
import re
from typing import Final

from depgpo_jax.errors import printable
from depgpo_jax.traces.names import NAMES_ALLOWED

MAX_INTEGER_TEXT: Final = "9007199254740992 (2^53)"

_COUNT = f"an integer from 0 to {MAX_INTEGER_TEXT}"
_TEXT = "text"
_ID = "text that is not empty"
_NUMBER = "a finite number"
_BOOL = "true or false"
_NAMES = "an array of resource names"
_OBJECT = "an object"
_TIME = "a finite number of seconds, or text"
_TOKENS = "an array of token ids, each an integer from 0"

ALLOWED: Final = {
    "": "one trace, an object",
    "version": "the integer 1",
    "trace_id": _ID,
    "group_id": _ID,
    "reward": _NUMBER,
    "verifier": _NAMES,
    "verifier[]": NAMES_ALLOWED,
    "invalid": "text that says why the rollout must not be trained on",
    "tests": 'an array of {"name", "passed"}',
    "tests[]": 'an object {"name", "passed"}',
    "tests[].name": _TEXT,
    "tests[].passed": _BOOL,
    "extra": _OBJECT,
    "steps": "an array of steps",
    "steps[]": "a step, an object",
    "steps[].loss_tokens": _COUNT,
    "steps[].state": _TEXT,
    "steps[].reward": _NUMBER,
    "steps[].token_ids": _TOKENS,
    "steps[].token_ids[]": _COUNT,
    "steps[].context_token_ids": _TOKENS,
    "steps[].context_token_ids[]": _COUNT,
    "steps[].logprobs": "an array of finite numbers",
    "steps[].logprobs[]": _NUMBER,
    "steps[].extra": _OBJECT,
    "steps[].commands": "an array of commands",
    "steps[].commands[]": "a command, an object",
    "steps[].commands[].reads": _NAMES,
    "steps[].commands[].reads[]": NAMES_ALLOWED,
    "steps[].commands[].writes": "an array of writes",
    "steps[].commands[].stdout_from": "an array of numbers of earlier commands",
    "steps[].commands[].stdout_from[]": _COUNT,
    "steps[].commands[].recorded": _BOOL,
    "steps[].commands[].unrecorded_reason": _TEXT,
    "steps[].commands[].untraced": _NAMES,
    "steps[].commands[].untraced[]": NAMES_ALLOWED,
    "steps[].commands[].text": _TEXT,
    "steps[].commands[].exit_code": "an integer within ±2^53, or null",
    "steps[].commands[].backend": _TEXT,
    "steps[].commands[].started": _TIME,
    "steps[].commands[].ended": _TIME,
    "steps[].commands[].stdout": _TEXT,
    "steps[].commands[].background": _BOOL,
    "steps[].commands[].extra": _OBJECT,
    "steps[].commands[].writes[]": "a write, an object",
    "steps[].commands[].writes[].resource": NAMES_ALLOWED,
    "steps[].commands[].writes[].lines": "an array of at least one [first, last]",
    "steps[].commands[].writes[].lines[]": "[first, last], two integers from 1 to 2^53",
    "steps[].commands[].writes[].lines[][]": f"an integer from 1 to {MAX_INTEGER_TEXT}",
    "steps[].commands[].writes[].hunks": (
        "an array of at least one [old_start, old_count, new_start, new_count]"
    ),
    "steps[].commands[].writes[].hunks[]": (
        "[old_start, old_count, new_start, new_count], four integers from 0 to 2^53"
    ),
    "steps[].commands[].writes[].hunks[][]": _COUNT,
    "steps[].commands[].writes[].whole": "true",
    "steps[].commands[].writes[].deleted": _BOOL,
    "steps[].commands[].writes[].moved_from": "the absolute normalised path of a file",
}


def allowed_at(field: str) -> str:
    """What may stand at a field path such as `steps[3].loss_tokens`."""
    return ALLOWED[re.sub(r"\[\d+\]", "[]", field)]


def show(value: object, limit: int = 80) -> str:
    """A value as JSON for a message, cut at `limit` characters."""
    if isinstance(value, str):
        return f'"{printable(value, limit)}"'
    if isinstance(value, dict):
        return "an object" if value else "an empty object"
    return printable(json.dumps(value, ensure_ascii=False), limit)
