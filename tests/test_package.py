"""The package as a whole: its version, its public names, and what importing it costs."""

import ast
import re
import shutil
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import pytest

import depgpo_jax

ROOT = Path(__file__).resolve().parent.parent


def run_python(code: str) -> str:
    run = subprocess.run(
        [sys.executable, "-W", "error", "-c", code],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    return run.stdout


def test_version_is_that_of_the_distribution():
    assert depgpo_jax.__version__ == metadata.version("depgpo-jax")


def test_changelog_has_a_section_for_this_version():
    changelog = (ROOT / "CHANGELOG.md").read_text("utf-8")
    assert re.search(rf"^## \[{re.escape(depgpo_jax.__version__)}\]", changelog, re.MULTILINE)


@pytest.mark.parametrize("name", depgpo_jax.__all__)
def test_every_public_name_can_be_imported(name: str):
    assert getattr(depgpo_jax, name) is not None


def test_public_names_are_sorted_and_the_type_checker_sees_the_same():
    tree = ast.parse((ROOT / "depgpo_jax" / "__init__.py").read_text("utf-8"))
    block = next(node for node in tree.body if isinstance(node, ast.If))
    typed = {
        (alias.name, node.module)
        for node in block.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    lazy = {(name, f"depgpo_jax.{home}") for name, home in depgpo_jax._HOME.items()}
    assert typed == lazy
    assert {name for name, _ in lazy} | {"__version__"} == set(depgpo_jax.__all__)
    assert len(set(depgpo_jax.__all__)) == len(depgpo_jax.__all__)
    assert set(depgpo_jax.__all__) <= set(dir(depgpo_jax))


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="module 'depgpo_jax' has no attribute 'nothing'"):
        depgpo_jax.nothing  # noqa: B018


def test_the_trace_side_does_not_import_jax():
    heavy = run_python(
        "import sys, depgpo_jax, depgpo_jax.errors, depgpo_jax.traces\n"
        "import depgpo_jax.ownership, depgpo_jax.cli\n"
        "print(*(name for name in ('jax', 'flax', 'pyarrow', 'numba') if name in sys.modules))"
    )
    assert heavy.split() == []


def test_the_package_does_not_import_training_or_benchmarks():
    for file in (ROOT / "depgpo_jax").rglob("*.py"):
        assert not re.search(
            r"^\s*(import|from) (training|benchmarks|tests)\b",
            file.read_text("utf-8"),
            re.MULTILINE,
        ), file


def tracked_files() -> list[Path]:
    if shutil.which("git") is None or not (ROOT / ".git").exists():
        return [path for path in ROOT.glob("*.*") if path.is_file()]
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        check=True,
    )
    return [ROOT / name for name in listed.stdout.decode().split("\0") if name]


def test_no_file_names_a_folder_of_one_machine_or_is_huge():
    # /app, /tmp and the like stand in traces and are meant; a person's folders are not.
    machine = re.compile(rb"(?<![\w.])/(?:root|work|farm|home/[a-z]+)/")
    for file in tracked_files():
        if file.is_file() and file.suffix != ".ipynb":
            content = file.read_bytes()
            assert len(content) < 2 << 20, file
            if "tests" not in file.relative_to(ROOT).parts:
                assert not machine.search(content), file
