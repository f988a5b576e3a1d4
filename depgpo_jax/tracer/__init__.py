"""The tracer: runs commands in a sandbox and records what they read and wrote. No JAX.

==================  ================================================================================
`session`           `TracedTerminal`: texts go in, commands with their records come out
`terminal`          `Terminal`: one bash on a pseudo-terminal; `shell`, `output` and `descendants`
`sandbox`           `Sandbox`: namespaces, copy-on-write workspaces, limits; its parts beside it
`workplace`         a sandbox over a real directory, for `depgpo trace` and `depgpo shell`
`recorder`          from events to records; `record`, `tree`, `file_watch` and `noise`
`strace_log`        strace's lines to events, in bulk; `strace_calls`, `strace_pids`, `processes`
`content`           what files held when last looked at; `files`, `linediff`
`stdout_reuse`      which command printed a value that a later one uses; its rule: `reuse_config`
                    and the modules beside it
`verifier`          what a verifier's run inspected
`doctor`            what this machine lacks
==================  ================================================================================
"""
