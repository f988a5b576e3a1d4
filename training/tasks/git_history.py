"""Git history: find the commit that changed a value, follow its notes, set the value right."""

from __future__ import annotations

import random
from typing import Final, NamedTuple

from training.tasks.difficulty import Difficulty, distractors, task_name
from training.tasks.git_objects import Repository
from training.tasks.writing import TaskFiles, generator, insert, words

NEEDS: Final = ("git",)

KEYS: Final = words(
    "batch_size burst_limit cache_pages idle_seconds max_clients queue_length retry_delay "
    "worker_count"
)
TOPICS: Final = words("audit backup export import mailer queue report search")
LIMITS: Final = "settings/limits.ini"
DAY: Final = 86_400
START: Final = 1_704_100_000
"""1 January 2024, about nine in the morning, UTC."""

INSTRUCTION: Final = """\
# Find the commit that changed a limit, and set it right

`/app/project.git` is a bare git repository with one branch, `main`. Its file `{limits}`
has lines `key = value`. The value of `{key}` was changed more than once. (`git` is here.)

1. Write `/app/commit.txt`: one line, the full hash of the first commit that changed `{key}` from
   the value that it had when the file was added.
2. Write `/app/before.ini`: `{limits}` as it was just before that commit.
3. The message of that commit has a line `See: HASH`, which names another commit; go there,
   {hops}. Where you arrive, the message has a line `Agreed: VALUE`.
4. In the repository, make a branch `fix`: exactly one commit on top of `main`, which sets `{key}`
   in `{limits}` to that value and changes nothing else. Author, date and message do not
   matter. `main` must stay as it is.
"""

CHECKS: Final = """\
export GIT_CONFIG_NOSYSTEM=1 GIT_CONFIG_GLOBAL=/dev/null GIT_NO_REPLACE_OBJECTS=1
project=/app/project.git

# The commit of a branch, from its own file or the list of all.
branch() {
  local hash=
  if plain "$project/refs/heads/$1"; then
    read -r hash < "$project/refs/heads/$1"
  elif plain "$project/packed-refs"; then
    hash=$(grep " refs/heads/$1\\$" "$project/packed-refs" | cut -d ' ' -f 1)
  fi
  [[ "$hash" =~ ^[0-9a-f]{40}$ ]] && echo "$hash"
}

# A repository of our own borrows the objects: nothing that the other's settings name is run.
own=$(mktemp -d -p /logs/verifier)
mkdir -p "$own/objects" "$own/refs"
echo 'ref: refs/heads/none' > "$own/HEAD"
object() { GIT_DIR=$own GIT_ALTERNATE_OBJECT_DIRECTORIES=$project/objects git cat-file "$@"; }

one_commit() {
  local hash
  hash=$(branch fix) || return
  [ "$(object commit "$hash" | sed '/^$/,$d' | grep -E '^(tree|parent) ')" = "$(cat /tests/fix)" ]
}

value() {
  local hash
  hash=$(branch fix) || return
  object blob "$hash:settings/limits.ini" | cmp -s - /tests/fixed.ini
}

check commit same /app/commit.txt /tests/commit.txt
check before same /app/before.ini /tests/before.ini
check main test "$(branch main)" = "$(cat /tests/main)"
check one_commit one_commit
check value value
rm -r "$own"
"""


class History(NamedTuple):
    """What was made of a seed.

    Attributes:
        repository: the whole.
        key: whose value was changed.
        chain: the first commit that changed it, and those that the notes lead to.
        agreed: the value that they lead to.
        before: the limits before that change.
        files: the newest content, by path.
    """

    repository: Repository
    key: str
    chain: list[str]
    agreed: int
    before: str
    files: dict[str, str]


def make(seed: int, difficulty: Difficulty) -> TaskFiles:
    """The task of a seed; a link of its chain is a commit that another one names."""
    rng = generator("git_history", seed)
    history = _history(rng, difficulty.depth)
    repository, key = history.repository, history.key
    main = repository.branches["main"]
    fixed = _set(history.files[LIMITS], key, history.agreed)
    # The tree's hash comes from a repository that nobody gets to see.
    tree = Repository().tree(history.files | {LIMITS: fixed})
    commands = _commands(history)
    hops = "once" if difficulty.depth == 1 else f"{difficulty.depth} times"
    return TaskFiles(
        name=task_name("git_history", seed, difficulty),
        description="Find the commit that changed a value, and set it right on a branch",
        instruction=INSTRUCTION.format(key=key, limits=LIMITS, hops=hops),
        files={f"project.git/{name}": content for name, content in repository.files().items()}
        | distractors("git_history", seed, difficulty, _old_limits),
        checks=CHECKS,
        expected={
            "commit.txt": f"{history.chain[0]}\n",
            "before.ini": history.before,
            "main": f"{main}\n",
            "fix": f"tree {tree}\nparent {main}\n",
            "fixed.ini": fixed,
        },
        commands=commands,
        wasteful=_wasteful(commands, key),
        wrong=_wrong(key),
        needs=NEEDS,
    )


def _history(rng: random.Random, depth: int) -> History:
    """Notes first, then the change; later ones of the same value and of others around it."""
    keys = sorted(rng.sample(KEYS, 5))
    key = rng.choice(keys)
    values = rng.sample(range(1001, 9999), 9)
    files = {
        "README": "Settings of the project\n",
        LIMITS: "# limits\n" + "".join(f"{k} = {v}\n" for k, v in zip(keys, values, strict=False)),
    }
    agreed, changed, again = values[5:8]
    repository, time = Repository(), START
    subjects = iter(rng.sample(range(100, 1000), 40))

    def commit(message: str, change: dict[str, str]) -> str:
        nonlocal time
        time += rng.randint(1, 3 * DAY)
        files.update(change)
        return repository.commit("main", files, message, time)

    def other() -> None:
        topic, number = rng.choice(TOPICS), next(subjects)
        commit(f"Notes on {topic} {number}", {f"notes/{topic}{number}.txt": f"{topic} {number}\n"})

    commit("Begin", {})
    other()
    notes: list[str] = []
    # Notes name earlier ones, down to the one with the value; more of them than are needed.
    for number in range(max(depth, 3)):
        line = f"See: {notes[-1]}" if notes else f"Agreed: {agreed}"
        topic = rng.choice(TOPICS)
        text = {f"notes/meeting{next(subjects)}.txt": f"about {topic}\n"}
        notes.append(commit(f"Meeting {number + 1} about {topic}\n\n{line}", text))
        other()
    near = next(k for k in keys if k != key)
    commit(f"Tune {near}", {LIMITS: _set(files[LIMITS], near, values[8])})
    before = files[LIMITS]
    text = f"Speed up {rng.choice(TOPICS)}\n\nSee: {notes[depth - 1]}"
    culprit = commit(text, {LIMITS: _set(before, key, changed)})
    other()
    commit(f"Tune {key} once more", {LIMITS: _set(files[LIMITS], key, again)})
    for _ in range(rng.randint(1, 4)):
        other()
    chain = [culprit, *reversed(notes[:depth])]
    return History(repository, key, chain, agreed, before, files)


def _set(text: str, key: str, value: int) -> str:
    return "".join(
        f"{key} = {value}\n" if line.startswith(f"{key} = ") else line
        for line in text.splitlines(keepends=True)
    )


def _old_limits(rng: random.Random, number: int) -> tuple[str, str]:
    """Limits that somebody put aside."""
    text = "".join(f"{key} = {rng.randint(1001, 9999)}\n" for key in sorted(rng.sample(KEYS, 5)))
    return f"old/limits-{number + 1}.ini", f"# limits\n{text}"


# On a terminal, git would wait in a pager.
GIT: Final = "git --no-pager --git-dir project.git"
WORK: Final = "git -C /tmp/work -c user.name=Fixer -c user.email=fixer@depgpo.test"
DATE: Final = "2024-06-01T12:00:00Z"


def _branching(change: str) -> list[str]:
    """A clone, a branch with one change, and back."""
    return [
        "git clone -q -b main project.git /tmp/work",
        "git -C /tmp/work checkout -q -b fix",
        change,
        f"GIT_AUTHOR_DATE={DATE} GIT_COMMITTER_DATE={DATE} {WORK} commit -q -a -m 'Set it right'",
        "git -C /tmp/work push -q origin fix",
    ]


def _commands(history: History) -> list[str]:
    culprit, key = history.chain[0], history.key
    return [
        f"{GIT} log --oneline main",
        f"{GIT} log --reverse --format=%H -G '^{key} = ' main -- {LIMITS}",
        f"{GIT} show {culprit}",
        f"echo {culprit} > commit.txt",
        f"{GIT} show {culprit}^:{LIMITS} > before.ini",
        *(f"{GIT} log -1 --format=%B {note}" for note in history.chain[1:]),
        *_branching(f"sed -i 's/^{key} = .*/{key} = {history.agreed}/' /tmp/work/{LIMITS}"),
        f"{GIT} show fix",
    ]


def _wasteful(commands: list[str], key: str) -> list[str]:
    return insert(
        commands,
        (1, f"{GIT} branch -a"),
        (1, f"{GIT} show main:{LIMITS} > /tmp/now.ini"),
        (2, f"{GIT} log -1 --format=%H -G '^{key} = ' main -- {LIMITS} > commit.txt"),
        (3, f"{GIT} ls-tree -r main"),
        (4, "cp /tmp/now.ini before.ini"),
        (5, "diff /tmp/now.ini before.ini"),
    )


def _wrong(key: str) -> list[str]:
    """Takes the last commit that changed the value, and goes back to what was before it."""
    return [
        f"{GIT} log -1 --format=%H -G '^{key} = ' main -- {LIMITS} > commit.txt",
        f'{GIT} show "$(cat commit.txt)^:{LIMITS}" > before.ini',
        *_branching(f"cp before.ini /tmp/work/{LIMITS}"),
    ]
