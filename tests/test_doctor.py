"""The doctor: finds what is there, and says of what is not how to get it."""

import os
import subprocess
from pathlib import Path

import pytest

from depgpo_jax.tracer import doctor
from depgpo_jax.tracer.limits import Groups

NAMES = [
    "namespaces", "util-linux", "bash", "strace", "ptrace", "bwrap", "tmpfs", "overlay", "limits",
    "pty", "sandbox", "call filter", "python inside", "pygit2", "numba",
]  # fmt: skip


def by_name() -> dict[str, doctor.Check]:
    return {check.name: check for check in doctor.checks()}


def test_this_machine_has_what_the_tracer_needs() -> None:
    done = doctor.checks()
    assert [check.name for check in done] == NAMES
    assert [check for check in done if check.required and not check.ok] == []
    assert doctor.ready(done)
    text = doctor.text(done)
    assert "MISSING" not in text
    assert "ok      strace: version " in text
    assert all(check.purpose and check.found for check in done)
    assert all(bool(check.remedy) != check.ok for check in done)


def test_a_machine_with_nothing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))

    def missing(name: str) -> str:
        raise doctor.importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(doctor.importlib.metadata, "version", missing)
    monkeypatch.setattr(doctor, "filter_program", lambda: b"")
    found = by_name()
    for name in ("namespaces", "util-linux", "bash", "strace", "ptrace", "tmpfs", "overlay"):
        assert not found[name].ok, name
        assert found[name].remedy, name
    assert "apt install strace (5.19 or later)" in found["strace"].remedy
    assert "kernel.apparmor_restrict_unprivileged_userns=0" in found["namespaces"].remedy
    assert found["util-linux"].found.startswith("no unshare, nsenter")
    assert (found["pygit2"].found, found["pygit2"].required) == ("not installed", False)
    assert "depgpo-jax[fast]" in found["numba"].remedy
    assert "not filtered" in found["call filter"].found
    text = doctor.text(found.values())
    assert "MISSING namespaces: " in text
    assert "without numba: not installed (for fast ownership replay)\n        pip install" in text
    assert not doctor.ready(found.values())


@pytest.mark.parametrize(
    ("said", "code", "words"),
    [
        ("strace -- version 6.1\n", 0, (True, "version 6.1")),
        ("strace -- version 5.19\n", 0, (True, "version 5.19")),
        ("strace -- version 4.26.1\n", 0, (False, "version 4.26.1, older than 5.19")),
        ("what\n", 0, (False, "strace does not say its version")),
        ("version 6.1\n", 1, (False, "strace does not say its version")),
    ],
)
def test_versions(
    said: str, code: int, words: tuple[bool, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    done = subprocess.CompletedProcess(["strace"], code, said, "")
    monkeypatch.setattr(doctor, "_run", lambda _: done)
    assert {probe.name: probe for probe in doctor.PROBES}["strace"].look() == words


def test_limits_in_words(monkeypatch: pytest.MonkeyPatch) -> None:
    look = {probe.name: probe for probe in doctor.PROBES}["limits"].look
    monkeypatch.setattr(doctor, "find_groups", lambda: Groups(2, (Path("/sys/fs/cgroup/me"),)))
    assert look() == (True, "cgroup v2 at /sys/fs/cgroup/me")
    monkeypatch.setattr(doctor, "find_groups", lambda: None)
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    assert look() == (False, "no writable cgroups, and root, whom RLIMIT_NPROC does not hold")
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert look() == (True, "resource limits (memory for each process, not together)")


def test_failures_in_words(monkeypatch: pytest.MonkeyPatch) -> None:
    for said, words in (("a\nlast line\n", "last line"), ("", "exit status 2")):
        failed = subprocess.CompletedProcess(["x"], 2, "", said)
        monkeypatch.setattr(doctor, "_run", lambda _, failed=failed: failed)
        found = by_name()
        assert (found["overlay"].ok, found["overlay"].found) == (False, words)
        assert found["sandbox"].found == (words if said else "no answer")
        assert found["python inside"].found.startswith("no /usr/bin/python3")
        assert not found["python inside"].required
