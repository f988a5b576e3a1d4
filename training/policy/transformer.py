"""A small decoder-only transformer: RMSNorm, rotary positions, causal attention, SwiGLU.

The architecture of today's open language models at toy size. It has no state besides parameters
(no dropout, no cache), so a training state is a plain pytree and an update a pure function.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Bool, Float, Int

from depgpo_jax.errors import ShapeError
from training.config import PolicyConfig


class Transformer(nnx.Module):
    """Token ids [B, L] to next-token logits [B, L, vocabulary].

    Right-padded rows need no mask: causality keeps what follows out of what comes before.
    `is_token` matters for padding on the left; positions are relative, so such rows give the logits
    of the unpadded ones. Logits at padding mean nothing but are finite.
    """

    def __init__(self, config: PolicyConfig, *, rngs: nnx.Rngs) -> None:
        self.config = config
        small = nnx.initializers.normal(0.02)
        self.embedding = nnx.Embed(config.vocab_size, config.width, embedding_init=small, rngs=rngs)
        self.blocks = nnx.List([Block(config, rngs=rngs) for _ in range(config.num_layers)])
        self.norm = nnx.RMSNorm(config.width, rngs=rngs)
        self.head = nnx.Linear(
            config.width, config.vocab_size, use_bias=False, kernel_init=small, rngs=rngs
        )

    def __call__(
        self, tokens: Int[Array, "B L"], is_token: Bool[Array, "B L"] | None = None
    ) -> Float[Array, "B L _"]:
        """Next-token logits, float32.

        Args:
            tokens: ids in [0, vocab_size); padding may hold any of them.
            is_token: False at padding; None: no padding except, harmlessly, on the right.

        Returns:
            Logits of the token after each position.

        Raises:
            ShapeError: tokens are not [B, L], or is_token has another shape.
        """
        if tokens.ndim != 2 or (is_token is not None and is_token.shape != tokens.shape):
            mask = "" if is_token is None else f" and is_token {is_token.shape}"
            raise ShapeError(f"Transformer: found tokens {tokens.shape}{mask}; both must be [B, L]")
        visible = _visible(tokens.shape[1], is_token)
        rotation = _rotation(tokens.shape[1], self.config)
        hidden = self.embedding(tokens)
        for block in self.blocks:
            hidden = block(hidden, visible, rotation)
        return self.head(self.norm(hidden)).astype(jnp.float32)


class Block(nnx.Module):
    """h + attention(norm(h)), then h + mlp(norm(h))."""

    def __init__(self, config: PolicyConfig, *, rngs: nnx.Rngs) -> None:
        self.attention_norm = nnx.RMSNorm(config.width, rngs=rngs)
        self.attention = Attention(config, rngs=rngs)
        self.mlp_norm = nnx.RMSNorm(config.width, rngs=rngs)
        self.mlp = GatedMLP(config, rngs=rngs)

    def __call__(
        self,
        hidden: Float[Array, "B L _"],
        visible: Bool[Array, "#B L L"],
        rotation: Float[Array, "2 L _"],
    ) -> Float[Array, "B L _"]:
        """One layer; shapes stay."""
        hidden = hidden + self.attention(self.attention_norm(hidden), visible, rotation)
        return hidden + self.mlp(self.mlp_norm(hidden))


class Attention(nnx.Module):
    """Causal multi-head attention with rotary positions."""

    def __init__(self, config: PolicyConfig, *, rngs: nnx.Rngs) -> None:
        width = config.width
        self.config = config
        self.qkv = nnx.Linear(width, 3 * width, use_bias=False, rngs=rngs)
        self.out = nnx.Linear(width, width, use_bias=False, rngs=rngs)

    def __call__(
        self,
        hidden: Float[Array, "B L _"],
        visible: Bool[Array, "#B L L"],
        rotation: Float[Array, "2 L _"],
    ) -> Float[Array, "B L _"]:
        """softmax(q k / sqrt(head width)) v over the visible positions."""
        rows, length, _ = hidden.shape
        heads, head_width = self.config.num_heads, self.config.head_width
        query, key, value = jnp.unstack(
            self.qkv(hidden).reshape(rows, length, 3, heads, head_width), axis=2
        )
        query, key = _rotate(query, rotation), _rotate(key, rotation)
        scores = jnp.einsum("bqhd,bkhd->bhqk", query, key) * head_width**-0.5
        scores = jnp.where(visible[:, None], scores, jnp.finfo(scores.dtype).min)
        mixed = jnp.einsum("bhqk,bkhd->bqhd", jax.nn.softmax(scores, axis=-1), value)
        return self.out(mixed.reshape(rows, length, heads * head_width))


class GatedMLP(nnx.Module):
    """SwiGLU: down(silu(gate(h)) * up(h))."""

    def __init__(self, config: PolicyConfig, *, rngs: nnx.Rngs) -> None:
        self.gate = nnx.Linear(config.width, config.mlp_width, use_bias=False, rngs=rngs)
        self.up = nnx.Linear(config.width, config.mlp_width, use_bias=False, rngs=rngs)
        self.down = nnx.Linear(config.mlp_width, config.width, use_bias=False, rngs=rngs)

    def __call__(self, hidden: Float[Array, "B L _"]) -> Float[Array, "B L _"]:
        """Each position on its own."""
        return self.down(jax.nn.silu(self.gate(hidden)) * self.up(hidden))


def _visible(length: int, is_token: Bool[Array, "B L"] | None) -> Bool[Array, "#B L L"]:
    """Which positions (last axis) each position attends to."""
    causal = jnp.tril(jnp.ones((1, length, length), bool))
    if is_token is None:
        return causal
    # Every position sees itself, so that a padding row's softmax is not over nothing.
    return causal & is_token[:, None, :] | jnp.eye(length, dtype=bool)[None]


def _rotation(length: int, config: PolicyConfig) -> Float[Array, "2 L _"]:
    """Cosines and sines of the rotary angles, position * base^(-2i / head width)."""
    half = config.head_width // 2
    frequency = config.rope_base ** (-jnp.arange(half, dtype=jnp.float32) / half)
    angle = jnp.arange(length, dtype=jnp.float32)[:, None] * frequency[None, :]
    return jnp.stack([jnp.cos(angle), jnp.sin(angle)])


def _rotate(
    features: Float[Array, "B L _ _"], rotation: Float[Array, "2 L _"]
) -> Float[Array, "B L _ _"]:
    cosine, sine = rotation[0][None, :, None], rotation[1][None, :, None]
    first, second = jnp.split(features, 2, axis=-1)
    return jnp.concatenate(
        [first * cosine - second * sine, second * cosine + first * sine], axis=-1
    )
