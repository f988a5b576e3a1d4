"""Executes every notebook's .py and stores it with its outputs as the .ipynb beside it.

    .venv/bin/python scripts/run-notebooks.py                       # all of notebooks/
    .venv/bin/python scripts/run-notebooks.py FILE.py --out FOLDER  # one, stored elsewhere
    .venv/bin/python scripts/run-notebooks.py --package FOLDER      # with depgpo_jax from there

Each notebook runs in a fresh kernel of this Python, in its folder, on the CPU, with settings of its
own: what a developer has configured for Jupyter, IPython, matplotlib or JAX does not get in. The
same outputs give the same file, so that only real changes show up in a diff.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import sys
import tempfile
from importlib import import_module
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
CELL_SECONDS = 300
CACHES = {"JAX_COMPILATION_CACHE_DIR", "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS"}
METADATA = {
    "jupytext": {"formats": "ipynb,py:percent"},
    "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
    "language_info": {"name": "python"},
}


def main() -> int:
    parser = argparse.ArgumentParser(description="Executes notebooks and stores their outputs.")
    parser.add_argument("sources", type=Path, nargs="*", help=".py files; none: all of notebooks/")
    parser.add_argument("--out", type=Path, help="folder of the .ipynb; without: beside the .py")
    parser.add_argument("--package", type=Path, help="folder from which depgpo_jax must come")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as home:
        own_settings(Path(home), options.package)
        from nbclient.exceptions import CellExecutionError

        for source in options.sources or sorted((ROOT / "notebooks").glob("*.py")):
            target = (options.out or source.parent) / source.with_suffix(".ipynb").name
            try:
                execute(source, target, options.package)
            except CellExecutionError as error:
                print(f"{source.name}: {error}", file=sys.stderr)
                return 1
            print(f"{target.name}: {target.stat().st_size / 1024:.0f} KiB")
    return 0


def own_settings(home: Path, package: Path | None) -> None:
    """Puts the kernel's surroundings into this process's environment, from where it inherits."""
    for name in list(os.environ):
        foreign = name.startswith(("JAX_", "JUPYTER_", "IPYTHON")) and name not in CACHES
        if foreign or name in {"XLA_FLAGS", "PYTHONPATH", "PYTHONSTARTUP"}:
            del os.environ[name]
    cache = ROOT / ".cache"
    os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", str(cache / "jax"))
    os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0")
    os.environ |= {
        "HOME": str(home),
        "IPYTHONDIR": str(home / "ipython"),
        "JUPYTER_CONFIG_DIR": str(home / "config"),
        "JUPYTER_DATA_DIR": str(home / "data"),
        "JUPYTER_RUNTIME_DIR": str(home / "runtime"),
        "JUPYTER_PATH": str(home / "share"),
        "JUPYTER_PLATFORM_DIRS": "1",
        "JAX_PLATFORMS": "cpu",
        "MPLBACKEND": "module://matplotlib_inline.backend_inline",
        "MPLCONFIGDIR": str(cache / "matplotlib"),
        "PYDEVD_DISABLE_FILE_VALIDATION": "1",
        # Two processes may meet over one half-written cache entry; JAX then compiles again.
        "PYTHONWARNINGS": ",".join(
            f"ignore:Error {doing} persistent compilation cache entry:UserWarning"
            for doing in ("reading", "writing")
        ),
    }
    if package is not None:
        os.environ["PYTHONPATH"] = str(package.resolve())
    kernel = home / "share" / "kernels" / "python3"
    kernel.mkdir(parents=True)
    argv = [sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}"]
    argv.append("--log-level=ERROR")  # it warns of its local port being a TCP port
    spec = {"argv": argv, "display_name": "Python 3", "language": "python"}
    (kernel / "kernel.json").write_text(json.dumps(spec), "utf-8")
    # Matplotlib lists the fonts once for each cache, slowly, and would say so in a cell's output.
    (cache / "matplotlib").mkdir(parents=True, exist_ok=True)
    import_module("matplotlib.font_manager")


def execute(source: Path, target: Path, package: Path | None) -> None:
    """Runs one notebook in its own folder; after an error in a cell nothing is stored."""
    import jupytext
    import nbformat
    from nbclient import NotebookClient

    notebook = jupytext.read(source)
    notebook.metadata = nbformat.from_dict(METADATA)
    for place, cell in enumerate(notebook.cells):
        cell["id"] = f"cell-{place}"
    if package is not None:
        notebook.cells.append(nbformat.v4.new_code_cell(provenance(package.resolve())))
    client = NotebookClient(
        notebook,
        timeout=CELL_SECONDS,
        kernel_name="python3",
        resources={"metadata": {"path": str(source.parent)}},
        record_timing=False,
        coalesce_streams=True,
    )
    client.execute()
    if package is not None:
        notebook.cells.pop()
    notebook.metadata = nbformat.from_dict(METADATA)  # the kernel had added its exact version
    for cell in notebook.cells:
        for output in cell.get("outputs", ()):
            clean(output)
    nbformat.validate(notebook)
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(nbformat.writes(notebook) + "\n", "utf-8")


def provenance(package: Path) -> str:
    """A cell that fails where the notebook did not use the package that was asked for."""
    return (
        "import depgpo_jax\nfrom pathlib import Path\n"
        f"assert Path(depgpo_jax.__file__).is_relative_to({str(package)!r}), depgpo_jax.__file__"
    )


def clean(output: dict[str, object]) -> None:
    """Drops what says nothing: a figure's size in words, colours and blanks of plain text."""
    data = output.get("data")
    if isinstance(data, dict):
        if "image/png" in data:
            data.pop("text/plain", None)
        elif "text/plain" in data:
            plain = re.sub(r"\x1b\[[0-9;]*m", "", data["text/plain"])
            data["text/plain"] = re.sub(r" +$", "", plain, flags=re.MULTILINE)


if __name__ == "__main__":
    sys.exit(main())
