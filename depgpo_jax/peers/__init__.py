"""Step-level peers of DepGPO: advantages and weights that other methods give to steps.

`gigpo`, `graph` and `turns` compare steps with each other and give every step an advantage,
[B, T], which `step_token_advantages` hands to its tokens. `controls` replaces the dependency
weights of a credit (last write, uniform, shuffled), for `token_advantages`. All are pure functions
of padded arrays; `states` takes what they need from traces.
"""
