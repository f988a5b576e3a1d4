"""Every example in README and docs runs, and every name and link in them leads somewhere."""

import doctest
import re
import shlex
import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner

from depgpo_jax.cli import cli
from training.tasks import FAMILIES

ROOT = Path(__file__).resolve().parent.parent
README = ROOT / "README.md"
PAGES = [README, ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
FENCE = re.compile(r"^[ \t]*(?:```|~~~)(.*)$", re.MULTILINE)
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\((?!https?://|mailto:)([^)#\s]*)(?:#([^)\s]+))?\)")
HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)
TEST = re.compile(r"(tests/test_\w+\.py)(?:::(test_\w+))?")
MAKE = re.compile(r"`make ([a-z-]+)")
LANGUAGES = {"python", "sh", "json", ""}


def blocks(text: str, language: str) -> list[tuple[int, str]]:
    """The blocks of one language, each with the number of its first line."""
    return [
        (text[: block.start(2)].count("\n") + 1, block.group(2))
        for block in BLOCK.finditer(text)
        if block.group(1) == language
    ]


def run_examples(text: str, name: str) -> int:
    """Runs the Python blocks of a page and returns how many there were.

    The blocks share their names, as a reader who pastes them one by one would have it.
    """
    names: dict[str, object] = {"__name__": "example"}
    found = blocks(text, "python")
    for line, code in found:
        if ">>>" not in code:
            exec(compile("\n" * (line - 1) + code, name, "exec"), names)
            continue
        test = doctest.DocTestParser().get_doctest(code, names, f"{name}:{line}", name, line - 1)
        runner = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS)
        report: list[str] = []
        runner.run(test, out=report.append, clear_globs=False)
        names.update(test.globs)
        if report:
            raise AssertionError("".join(report))
    return len(found)


def page_of(page: Path):
    return page.name


@pytest.mark.parametrize("page", PAGES, ids=page_of)
def test_examples_run(page: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(ROOT)
    count = run_examples(page.read_text("utf-8"), page.name)
    least = {"README.md": 4, "method.md": 10, "trace.md": 2}
    assert count >= least.get(page.name, 0)


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("```python\nassert 1 + 1 == 3, 'no'\n```\n", "no"),
        ("```python\n>>> 1 + 1\n3\n```\n", "Expected:\n    3\nGot:\n    2"),
        ("```python\nvalue = 2\n```\n```python\n>>> value\n3\n```\n", "Got:\n    2"),
    ],
    ids=["assert", "doctest", "names are shared"],
)
def test_a_wrong_example_is_found(text: str, error: str):
    with pytest.raises(AssertionError, match=re.escape(error)):
        run_examples(text, "page.md")


@pytest.mark.parametrize("page", PAGES, ids=page_of)
def test_no_block_is_overlooked(page: Path):
    text = page.read_text("utf-8")
    assert len(FENCE.findall(text)) == 2 * len(BLOCK.findall(text))
    assert {language for language, _ in BLOCK.findall(text)} <= LANGUAGES
    assert not [code for _, code in blocks(text, "") if ">>>" in code]


def test_the_commands_of_the_readme_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    shutil.copy(ROOT / "tests" / "real" / "log-summary-group.jsonl", tmp_path / "rollouts.jsonl")
    FAMILIES["text_to_csv"](0, tmp_path / "task")
    monkeypatch.chdir(tmp_path)
    [(_, code)] = blocks(README.read_text("utf-8"), "sh")
    commands = [shlex.split(line, comments=True) for line in code.splitlines()]
    assert {arguments[1] for arguments in commands} == set(cli.commands)
    for arguments in commands:
        assert arguments[0] == "depgpo"
        result = CliRunner().invoke(cli, arguments[1:])
        assert result.exit_code == 0, f"{arguments}: {result.output}"
        if "--out" in arguments:
            assert Path(arguments[arguments.index("--out") + 1]).stat().st_size > 0


@pytest.mark.parametrize("page", PAGES, ids=page_of)
def test_links_lead_somewhere(page: Path):
    for path, anchor in LINK.findall(page.read_text("utf-8")):
        target = page.parent / path if path else page
        assert target.exists(), f"{page.name} links to {path}"
        if anchor:
            headings = HEADING.findall(target.read_text("utf-8"))
            assert anchor in map(anchor_of, headings), f"{page.name} links to {path}#{anchor}"


def anchor_of(heading: str) -> str:
    """What the usual renderers make of a heading."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-")


@pytest.mark.parametrize("page", PAGES, ids=page_of)
def test_named_tests_and_make_targets_exist(page: Path):
    text = page.read_text("utf-8")
    for file, name in TEST.findall(text):
        assert (ROOT / file).is_file(), f"{page.name} names {file}"
        code = (ROOT / file).read_text("utf-8")
        assert not name or f"def {name}(" in code, f"{page.name} names {file}::{name}"
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE))
    assert set(MAKE.findall(text)) <= targets


def test_readme_is_short():
    assert len(README.read_text("utf-8").splitlines()) < 200


def test_the_readme_has_one_place_for_the_speed_table():
    text = README.read_text("utf-8")
    assert text.count("<!-- bench -->") == text.count("<!-- /bench -->") == 1
    assert text.index("<!-- bench -->") < text.index("<!-- /bench -->")
