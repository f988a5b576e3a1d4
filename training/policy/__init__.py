"""Policies: token ids in, next-token logits out."""
