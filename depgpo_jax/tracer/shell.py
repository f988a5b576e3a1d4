"""The two bash scripts inside a sandbox: one that runs the agent's texts, one that revives it.

Commands come as NUL-ended fields on descriptor `COMMANDS`, answers go to `ANSWERS`, both closed
while a text runs. Opening a path that is never there marks the event stream: the tracer sees it in
order with everything else, so nothing has to be timed. After each text the terminal itself gets a
sentinel, because what a program printed reaches the reader some time after the program ended.
"""

from __future__ import annotations

from typing import Final

COMMANDS: Final = 200
ANSWERS: Final = 201
TERMINAL: Final = 202

MARK_ROOT: Final = "/.depgpo"
"""Where marks lie; nothing ever exists there."""

DIED: Final = "died"
"""In the place of a number: the mark of a shell that ended."""

BEGIN: Final = "begin"
"""The answer that says that a command's text is about to run."""

SENTINEL: Final = "\x1e"
"""Control character around the number that ends a command's output."""

# `eval` sees neither our descriptors nor, as far as a shell allows it, our variables. A text may
# leave by `exit`, `exec`, `set -e` or a signal: then the outer shell starts a new one. It may
# also leave `set -e` or functions behind that are called as our own commands are, hence `|| :` and
# `builtin`.
_INNER = r"""
trap : INT
__depgpo_status=0
__depgpo_return() { builtin return "$1"; }
while IFS= builtin read -r -d '' -u 200 __depgpo_mark &&
    IFS= builtin read -r -d '' -u 200 __depgpo_cwd &&
    IFS= builtin read -r -d '' -u 200 __depgpo_text; do
  builtin printf 'begin\0%s\0' "$__depgpo_mark" >&201 || break
  [[ -z $__depgpo_cwd || $__depgpo_cwd == "$PWD" ]] ||
    builtin cd -- "$__depgpo_cwd" 2>/dev/null || :
  { : <"$__depgpo_mark/begin"; } 2>/dev/null || :
  __depgpo_return "$__depgpo_status"
  builtin eval "$__depgpo_text" 200<&- 201>&- 202>&-
  __depgpo_status=$?
  builtin printf '%s\0%s\0' "$__depgpo_status" "$PWD" >&201 || break
  { : <"$__depgpo_mark/end"; } 2>/dev/null || :
  builtin printf '\036%s\036' "$__depgpo_mark" >&202 || :
done
"""

_OUTER = r"""
trap : INT HUP TERM QUIT
__commands=$3 __answers=$4
exec 200<&"$__commands" 201>&"$__answers" 202>&1 {__commands}<&- {__answers}>&-
exec 2>/dev/null
while :; do
  bash --norc --noprofile -c "$1" bash "$2" 2>&202
  __status=$?
  printf 'died %s\0\0' "$__status" >&201 || exit
  { : <"$2/died"; } 2>/dev/null
  printf '\036%s\036' "$2/died" >&202
done
"""


def shell_argv(nonce: str, commands: int, answers: int) -> list[str]:
    """The command line of the outer shell.

    Args:
        nonce: makes the marks of one rollout unlike those of any other.
        commands: the descriptor it inherits for commands; it becomes `COMMANDS`.
        answers: the one for answers; it becomes `ANSWERS`.
    """
    bash = ["bash", "--norc", "--noprofile", "-c", _OUTER, "bash"]
    return [*bash, _INNER, f"{MARK_ROOT}/{nonce}", str(commands), str(answers)]


def mark(nonce: str, number: int | str) -> str:
    """The path whose `begin` and `end` are the boundaries of a command."""
    return f"{MARK_ROOT}/{nonce}/{number}"


def request(nonce: str, number: int, text: str, cwd: str = "") -> bytes:
    """What to write on `COMMANDS` to run a text.

    Args:
        nonce: as in `shell_argv`.
        number: the command's number.
        text: the text, without NUL.
        cwd: where the shell shall be, for it may be a new one; empty: it stays.
    """
    fields = (mark(nonce, number), cwd, text)
    return b"".join(field.encode("utf-8", "surrogateescape") + b"\0" for field in fields)


def is_inner(cmdline: bytes, nonce: str) -> bool:
    """Whether a process's command line is that of the agent's shell, or of a subshell of it."""
    return cmdline.endswith(f"\0{MARK_ROOT}/{nonce}\0".encode())
