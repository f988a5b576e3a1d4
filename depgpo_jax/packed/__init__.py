"""The fast kernel family: bit rows over commands, a tile of rollouts at a time.

Same meaning as the dense modules `graph`, `relevance` and `reads`; the layout is private and
described in `depgpo_jax.packed.bits`.
"""
