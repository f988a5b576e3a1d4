"""Environments that run inside `jit`; so far one, the file world (docs/file-world.md).

============== ==================================================================
`commands`     verbs, families, the vocabulary of prompts, commands and feedback
`prompts`      every prompt, and which are held out
`tasks`        a task and the files it starts with
`records`      who read and wrote what, and the same as a `DenseRollout`
`state`        observation, state, and what a step leaves
`dynamics`     what each command does
`world_params` what may differ without compiling anew
`file_world`   `FileWorld`: reset and step
`presets`      regimes A, B, C and sizes
`rollouts`     a policy in the world, as one scan
`experts`      scripted and random policies, noisy demonstrations
`export`       finished rollouts as traces
============== ==================================================================
"""
