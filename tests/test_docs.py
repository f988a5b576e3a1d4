"""Every Python example in README and docs runs."""

import doctest
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
BLOCK = re.compile(r"^```python[^\n]*\n(.*?)^```", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\((?!https?://|#|mailto:)([^)#\s]+)")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_examples_run(page: Path, monkeypatch: pytest.MonkeyPatch):
    """The blocks of one page share their names, as a reader who pastes them one by one would."""
    monkeypatch.chdir(ROOT)
    names: dict[str, object] = {"__name__": "example"}
    for block in BLOCK.finditer(page.read_text("utf-8")):
        code, line = block.group(1), page.read_text("utf-8")[: block.start()].count("\n") + 1
        where = f"{page.name}:{line + 1}"
        if ">>>" not in code:
            exec(compile(code, where, "exec"), names)
            continue
        test = doctest.DocTestParser().get_doctest(code, names, where, str(page), line)
        runner = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS)
        report: list[str] = []
        runner.run(test, out=report.append, clear_globs=False)
        names.update(test.globs)
        assert not report, "".join(report)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path):
    broken = [
        link for link in LINK.findall(page.read_text("utf-8")) if not (page.parent / link).exists()
    ]
    assert not broken


def test_readme_is_short():
    assert len((ROOT / "README.md").read_text("utf-8").splitlines()) < 200
