"""The one shape check that every objective begins with."""

from __future__ import annotations

from jaxtyping import Array

from depgpo_jax.errors import ShapeError


def same_shapes(where: str, **arrays: Array) -> None:
    """Checks that all arrays are [B, L] of one size; the message names each."""
    shapes = {name: array.shape for name, array in arrays.items()}
    if len(set(shapes.values())) != 1 or any(len(shape) != 2 for shape in shapes.values()):
        found = ", ".join(f"{name} {shape}" for name, shape in shapes.items())
        raise ShapeError(f"{where}: found {found}; all must be [B, L], one entry a token")
