"""The notebooks: pairs in step, small stored outputs, and the same outputs from the built wheel."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import jupytext
import nbformat
import pytest

ROOT = Path(__file__).resolve().parent.parent
SOURCES = sorted((ROOT / "notebooks").glob("*.py"))
RUN = str(ROOT / "scripts" / "run-notebooks.py")
RENEW = "run scripts/run-notebooks.py"
LARGEST = 300_000  # bytes of a notebook with its outputs
BUILD = "import sys; from hatchling.build import build_wheel; print(build_wheel(sys.argv[1]))"

every_notebook = pytest.mark.parametrize("source", SOURCES, ids=lambda path: path.stem)


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the package as the built wheel installs it, and nothing else."""
    work = tmp_path_factory.mktemp("wheel")
    wheel = run("-c", BUILD, str(work)).split()[-1]
    install = ("install", "-q", "--no-deps", "--no-index", "--disable-pip-version-check")
    run("-m", "pip", *install, "--target", str(work / "package"), str(work / wheel))
    return work / "package"


def run(*arguments: str) -> str:
    """What this Python prints; its complaints are the failure's text."""
    done = subprocess.run(
        [sys.executable, *arguments], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def read(path: Path) -> nbformat.NotebookNode:
    return nbformat.read(path, as_version=4)


def outputs(path: Path) -> list[tuple[str, dict[str, Any]]]:
    """Every output as its cell's source and what is compared: texts, and that a figure came."""
    return [
        (cell.source, shown(output))
        for cell in read(path).cells
        if cell.cell_type == "code"
        for output in cell.outputs
    ]


def shown(output: nbformat.NotebookNode) -> dict[str, Any]:
    if output.output_type == "stream":
        return {output.name: output.text}
    # Other versions of rich style the same table another way; its plain text is compared.
    data = {"text/plain": output.data.get("text/plain"), "figure": "image/png" in output.data}
    return {output.output_type: data}


def test_there_are_notebooks():
    assert SOURCES
    assert {path.stem for path in (ROOT / "notebooks").glob("*.ipynb")} == {
        path.stem for path in SOURCES
    }


@every_notebook
def test_pairs_have_the_same_cells(source: Path):
    pair = [jupytext.read(source), read(source.with_suffix(".ipynb"))]
    cells = [[(cell.cell_type, cell.source) for cell in notebook.cells] for notebook in pair]
    assert cells[0] == cells[1], RENEW
    for notebook in pair:
        assert notebook.metadata.jupytext.formats == "ipynb,py:percent"
        assert notebook.metadata.kernelspec.name == "python3"


@every_notebook
def test_stored_outputs_are_whole_and_small(source: Path):
    path = source.with_suffix(".ipynb")
    text = path.read_text("utf-8")
    assert path.stat().st_size < LARGEST
    assert not re.search(r"[\"'\s(=](/work|/home|/root|/tmp|/Users|/content)\b", text)
    assert str(ROOT) not in text
    code = [cell for cell in read(path).cells if cell.cell_type == "code"]
    assert [cell.execution_count for cell in code] == list(range(1, len(code) + 1)), RENEW
    found = [output for cell in code for output in cell.outputs]
    assert {output.output_type for output in found} <= {"stream", "display_data", "execute_result"}
    assert not [output.text for output in found if output.get("name") == "stderr"]


@every_notebook
def test_the_wheel_gives_the_stored_outputs(source: Path, package: Path, tmp_path: Path):
    # This fails, too, unless the kernel imported depgpo_jax from that very folder.
    run(RUN, str(source), "--package", str(package), "--out", str(tmp_path))
    name = source.with_suffix(".ipynb").name
    assert outputs(tmp_path / name) == outputs(source.parent / name), RENEW


def test_a_failing_cell_is_shown_and_nothing_is_stored(tmp_path: Path):
    """It also says that the kernel has neither the tests' devices nor a developer's settings."""
    message = fails(
        tmp_path,
        "# %%\nimport os, sys\n"
        "assert not {'XLA_FLAGS', 'JAX_DEBUG_NANS', 'PYTHONPATH'} & set(os.environ)\n"
        "# %%\nraise KeyError(sys.executable)\n",
    )
    assert f"KeyError: {sys.executable!r}" in message


@every_notebook
def test_without_a_checkout_it_says_how_to_get_one(source: Path, tmp_path: Path):
    message = fails(tmp_path, source.read_text("utf-8"))
    assert "Found no checkout of DepGPO-JAX. Put one next to this notebook" in message
    assert "!git clone ADDRESS_OF_THE_REPOSITORY depgpo-jax" in message


def fails(folder: Path, text: str) -> str:
    """What is said about a notebook with this text, alone in a folder, that must fail."""
    source = folder / "short.py"
    source.write_text(text, "utf-8")
    foreign = {"XLA_FLAGS": "--unknown", "JAX_DEBUG_NANS": "1", "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, RUN, str(source)],
        env={**os.environ, **foreign},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("short.py: ")
    assert list(folder.iterdir()) == [source]
    return re.sub(r"\x1b\[[0-9;]*m", "", done.stderr)
