"""Training on dependency-aware advantages: policy, objectives, update. Runs from the checkout."""
