"""What every test runs under: four devices, no NaN, no silent rank promotion, checked shapes."""

import os
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

# JAX reads these when it is first imported, so they stand before everything else.
if "xla_force_host_platform_device_count" not in os.environ.get("XLA_FLAGS", ""):
    os.environ["XLA_FLAGS"] = (
        os.environ.get("XLA_FLAGS", "") + " --xla_force_host_platform_device_count=4"
    ).strip()
os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", str(ROOT / ".cache" / "jax"))
os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0")

import jax
import jaxtyping
import pytest
from hypothesis import settings

jax.config.update("jax_debug_nans", True)
jax.config.update("jax_numpy_rank_promotion", "raise")
jax.config.update("jax_enable_x64", False)

# Compilation makes a first example slow and machines differ: no deadline, always the same examples.
settings.register_profile("depgpo", deadline=None, derandomize=True)
settings.load_profile("depgpo")


def modules_with_arrays() -> list[str]:
    """The modules of depgpo_jax and training that name JAX: those whose signatures carry shapes."""
    names: list[str] = []
    for package in ("depgpo_jax", "training"):
        for file in sorted((ROOT / package).rglob("*.py")):
            if re.search(
                r"^(import|from) (jax|jaxtyping)\b", file.read_text("utf-8"), re.MULTILINE
            ):
                parts = file.relative_to(ROOT).with_suffix("").parts
                names.append(".".join(parts[:-1] if parts[-1] == "__init__" else parts))
    return names


# Every array argument and result is checked against its annotation, for as long as the tests run.
jaxtyping.install_import_hook(modules_with_arrays(), "beartype.beartype")


@pytest.fixture(scope="session")
def golden() -> Path:
    """The folder of traces with exact answers."""
    return ROOT / "tests" / "golden"


@pytest.fixture
def unchecked(monkeypatch: pytest.MonkeyPatch) -> None:
    """As users have it: without the tests' check of annotations, which would speak first."""
    monkeypatch.setattr(jaxtyping.config, "jaxtyping_disable", True)
