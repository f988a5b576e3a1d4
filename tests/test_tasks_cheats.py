"""Verifiers of the families: no cheat counts, nor does what is nearly right; other ways do."""

from pathlib import Path

import pytest

from tests.task_rollouts import Made
from training.tasks import FAMILIES

LINKED_FILES = (
    "cd /tests && find . -type f | while read -r file; do "
    'mkdir -p "/app/$(dirname "$file")"; ln -sf "/tests/$file" "/app/$file"; done'
)
LINKED_FOLDERS = 'for path in /tests/*; do rm -rf "/app/${path##*/}"; ln -s "$path" /app/; done'


@pytest.mark.parametrize("family", FAMILIES)
def test_links_to_the_expected_files_are_worth_nothing(family: str, tmp_path: Path) -> None:
    made = Made(family, tmp_path, 1)
    # Whether there are other files is not a question of what the right ones are.
    allowed = {*made.passed(""), "no_other_files"}
    for script in (LINKED_FILES, LINKED_FOLDERS):
        assert set(made.passed(script)) <= allowed


def solution(made: Made) -> str:
    return made.scripts()["solution"][0]


PLANTED = "echo '{\"reward\": 1}' > /logs/verifier/reward.json; touch /logs/verifier/planted"
"""What a verifier that ran the agent's settings would do."""

CHEATS = {
    # The agent's home: definitions for jq, commands for sqlite3, settings for git.
    "json_processing": (
        "echo 'def _equal(a; b): true; def input: 1;' > ~/.jq; "
        "for name in totals best; do echo '{}' > $name.json; done; echo x > mail.txt"
    ),
    "sqlite_query": f"printf '.shell %s\\n.quit\\n' \"{PLANTED}\" > ~/.sqliterc; "
    "echo > shop.db; sqlite3 -init /dev/null new.db 'CREATE TABLE a(b)'; mv new.db shop.db",
    "git_history": (
        f'printf \'[core]\\n\\tfsmonitor = "%s"\\n\\talternateRefsCommand = "%s"\\n\\tpager = '
        f"\"%s\"\\n' '{PLANTED}' '{PLANTED}' '{PLANTED}' | sed 's/\\\"reward\\\"/reward/' "
        "| tee -a ~/.gitconfig >> project.git/config; "
        "cp project.git/refs/heads/main project.git/refs/heads/fix"
    ),
}


@pytest.mark.parametrize("family", CHEATS)
def test_settings_in_a_home_do_not_speak_for_the_verifier(family: str, tmp_path: Path) -> None:
    made = Made(family, tmp_path, 1)
    before = made.passed("")
    assert set(made.passed(CHEATS[family])) <= set(before)
    assert not list(made.folder.rglob("planted"))


RIGHT_WAYS = {
    "laid out otherwise": (
        "json_processing",
        "jq -c -S . totals.json > t && mv t totals.json; "
        "jq -c '{cents: (.cents + 0.0), order}' best.json > b && mv b best.json",
    ),
    "packed": ("git_history", "git -C project.git gc -q && [ ! -e project.git/refs/heads/fix ]"),
    "another way to commit": (
        "git_history",
        "export GIT_DIR=/app/project.git GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@b.test "
        "GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@b.test; tree=$(git rev-parse 'fix^{tree}'); "
        "git branch -D fix; git branch fix $(git commit-tree -p main -m other $tree)",
    ),
    "not yet in the main file": (
        "sqlite_query",
        "sqlite3 shop.db \"UPDATE invoices SET status = 'new'\"; "
        "printf '%s\\n' '.dbconfig no_ckpt_on_close on' 'PRAGMA journal_mode = WAL;' "
        "'.read /tmp/updates.sql' | sqlite3 shop.db; [ -s shop.db-wal ]",
    ),
    "symbolic modes": (
        "permissions",
        "chmod a-r exposed.txt; find share -type f -exec chmod u+rw {} +; "
        "sed 's,^,share/,' private.txt | xargs chmod \"$(grep private policy.conf "
        "| grep -q 0400 && echo u=r,go= || echo u=rw,go=)\"; files=$(sed -n 's/^files = //p' "
        "policy.conf); find share -type f ! -perm -0100 | grep -vxFf <(sed 's,^,share/,' "
        "private.txt) | xargs chmod $files",
    ),
}


@pytest.mark.parametrize("way", RIGHT_WAYS)
def test_other_right_ways_score_too(way: str, tmp_path: Path) -> None:
    family, change = RIGHT_WAYS[way]
    made = Made(family, tmp_path, 2)
    reward, tests = made.run(f"{solution(made)}\ncd /app\n{{ {change}; }} || rm -rf /app/*")
    assert reward == 1.0, tests


NEARLY = {
    "two values in one file": (
        "json_processing",
        "cat best.json >> best.json.2; cat best.json.2 >> best.json",
        ["best"],
    ),
    "main moved": ("git_history", "git -C project.git branch -f main fix", ["main"]),
    "two commits": (
        "git_history",
        "git -C /tmp/work -c user.name=a -c user.email=a@b.test commit -q --allow-empty -m more; "
        "git -C /tmp/work push -q origin fix",
        ["one_commit"],
    ),
    "a tree that is not there": (
        "git_history",
        "tree=$(git -C project.git rev-parse 'fix^{tree}'); "
        'rm "project.git/objects/${tree:0:2}/${tree:2}"',
        ["value"],
    ),
    "a view instead of a table": (
        "sqlite_query",
        "sqlite3 shop.db 'ALTER TABLE invoices RENAME TO old; CREATE VIEW invoices AS SELECT * "
        "FROM old'",
        ["invoices"],
    ),
    "one row more": (
        "sqlite_query",
        "sqlite3 shop.db \"INSERT INTO payments VALUES('p', 'i', 1)\"",
        ["payments"],
    ),
    "killed another one": (
        "stop_process",
        'kill -9 "$(tail -n 1 /tests/running.txt | '
        "sed 's,\\(w[0-9]*\\).*,run/\\1.pid,' | xargs cat)\"",
        ["running"],
    ),
    "a folder too open": ("permissions", "chmod 0777 share", ["folders"]),
    "a file more": ("permissions", "touch share/more", ["no_other_files"]),
    "a line's end": ("encodings", "sed -i 's/$/\\r/' \"utf8/$(ls utf8 | head -n 1)\"", ["utf8"]),
    "no newline": ("date_arithmetic", "truncate -s -1 span.txt", ["span"]),
    "another order": ("log_summary", "sort -r errors.csv -o errors.csv", ["errors"]),
}


@pytest.mark.parametrize("case", NEARLY)
def test_what_is_nearly_right_fails_where_it_is_wrong(case: str, tmp_path: Path) -> None:
    family, change, failing = NEARLY[case]
    made = Made(family, tmp_path, 3)
    reward, tests = made.run(f"{solution(made)}\ncd /app\n{change}")
    assert reward == 0.0
    assert [test.name for test in tests if not test.passed] == failing
