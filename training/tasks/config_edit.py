"""Config edit: a rule picks some of many files, and two of their keys; the rest stays as it is."""

from __future__ import annotations

import random
from typing import Final, NamedTuple

from training.tasks.difficulty import TRAIL, Difficulty, Trail, distractors, task_name, trail
from training.tasks.writing import TaskFiles, generator, insert, words

NAMES: Final = words(
    "alerts audit backup cache crawler digest export gateway import index ledger mailer metrics "
    "notify orders payments profile quota reports search sessions stock tokens uploads"
)
TIERS: Final = ("gold", "silver", "bronze")

INSTRUCTION: Final = """\
# Raise the time-outs of one tier

Each file `/app/services/NAME.conf` configures one service, with sections such as `[server]` and
lines `key = value`. A line that begins with `#` is a comment and means nothing. `/app/policy.ini`
gives a time-out for each tier.

For every service whose section `[server]` has both `tier = {tier}` and `enabled = yes`:

1. In its section `[server]`, set `timeout` to the time-out that the policy gives for `{tier}`.
2. In its section `[log]`, set `level` to `warn`.

Change the two values only (the line stays `key = value`, in its place). Every other line of these
files (comments and equal keys of other sections, too) and every other file must stay as it is, byte
by byte, and `/app/services` must hold no other files afterwards.

Then write `/app/changed.txt`: the names of the services you changed (without `.conf`), one a line,
in byte order.
"""

CHECKS: Final = """\
edited() {
  local name
  while read -r name; do same "/app/services/$name" "/tests/services/$name" || return; done < "$1"
}

listing() { [ -d /app/services ] && [ ! -L /app/services ] && ls -A /app/services; }

check edited_files edited /tests/edited.txt
check untouched_files edited /tests/untouched.txt
check policy same /app/policy.ini /tests/policy.ini
check no_other_files test "$(listing)" = "$(ls -A /tests/services)"
check changed_list same /app/changed.txt /tests/changed.txt
"""


class Service(NamedTuple):
    """One service and what its file says."""

    name: str
    tier: str
    enabled: bool
    noise: int
    timeout: int
    upstream: int
    level: str


def make(seed: int, difficulty: Difficulty) -> TaskFiles:
    """The task of a seed; a link of its chain is a policy that another file has."""
    rng = generator("config_edit", seed)
    tier = rng.choice(TIERS)
    policy = dict(zip(TIERS, rng.sample(range(1001, 9999), len(TIERS)), strict=True))
    services = _services(rng, tier)
    chosen = [each for each in services if each.tier == tier and each.enabled]

    policy_text = "# milliseconds\n[timeout]\n" + "".join(f"{t} = {policy[t]}\n" for t in TIERS)
    policies = trail("config_edit", seed, difficulty, "policy.ini", policy_text)
    before = {f"{each.name}.conf": _config(each) for each in services}
    after = before | {
        f"{each.name}.conf": _config(each._replace(timeout=policy[tier], level="warn"))
        for each in chosen
    }
    edited = [f"{each.name}.conf\n" for each in chosen]
    commands = _commands(policies, tier, policy[tier])
    return TaskFiles(
        name=task_name("config_edit", seed, difficulty),
        description="Edit the config files that a rule picks, and no others",
        instruction=INSTRUCTION.format(tier=tier) + (TRAIL if difficulty.depth > 1 else ""),
        files={f"services/{name}": text for name, text in before.items()}
        | policies.files
        | distractors("config_edit", seed, difficulty, _old_config),
        checks=CHECKS
        + "".join(
            f"check policy_{number} same /app/{path} /tests/{path}\n"
            for number, path in enumerate(list(policies.files)[1:], 1)
        ),
        expected={f"services/{name}": text for name, text in after.items()}
        | policies.files
        | {
            "edited.txt": "".join(edited),
            "untouched.txt": "".join(f"{name}\n" for name in before if f"{name}\n" not in edited),
            "changed.txt": "".join(f"{each.name}\n" for each in chosen),
        },
        commands=commands,
        wasteful=_wasteful(commands, tier, services[0].name, difficulty.depth - 1),
        wrong=_wrong(policies, tier, policy[tier]),
    )


def _services(rng: random.Random, tier: str) -> list[Service]:
    """Ten to fourteen services; at least three to edit, two of the tier that are not enabled."""
    names = sorted(rng.sample(NAMES, rng.randint(10, 14)))
    kinds = [(tier, True)] * 3 + [(tier, False)] * 2
    kinds += [(rng.choice(TIERS), rng.random() < 0.7) for _ in names[len(kinds) :]]
    rng.shuffle(kinds)
    return [
        Service(
            name,
            kind,
            enabled,
            rng.randrange(4),
            rng.randint(1, 9) * 100,
            rng.randint(1, 9) * 100,
            rng.choice(("info", "debug")),
        )
        for name, (kind, enabled) in zip(names, kinds, strict=True)
    ]


def _config(service: Service) -> str:
    """A service's file; the comments name a tier and a time-out, too."""
    other = TIERS[(TIERS.index(service.tier) + 1) % len(TIERS)]
    comments = (
        f"# tier = {other}\n",
        "# timeout = 50\n",
        f"# was: tier = {other}, enabled = yes\n",
        "",
    )
    return (
        f"# {service.name}\n[server]\nport = {8000 + 10 * service.noise}\n"
        f"{comments[service.noise]}tier = {service.tier}\n"
        f"enabled = {'yes' if service.enabled else 'no'}\ntimeout = {service.timeout}\n\n"
        f"[upstream]\nretries = 3\ntimeout = {service.upstream}\n\n"
        f"[log]\nlevel = {service.level}\nfile = /var/log/{service.name}.log\n\n"
        "[audit]\nlevel = info\n"
    )


def _old_config(rng: random.Random, number: int) -> tuple[str, str]:
    """A service's file from a copy of the folder."""
    service = Service(
        rng.choice(NAMES), rng.choice(TIERS), True, 3, rng.randint(1, 9) * 100, 300, "info"
    )
    return f"services.old/{service.name}-{number}.conf", _config(service)


def _commands(policies: Trail, tier: str, timeout: int) -> list[str]:
    return [
        *policies.commands,
        "head -n 20 services/*.conf | head -n 45",
        f"grep -l '^tier = {tier}$' services/*.conf > /tmp/tier.txt",
        "xargs grep -l '^enabled = yes$' < /tmp/tier.txt > /tmp/targets.txt",
        "cat /tmp/targets.txt",
        f"xargs sed -i '/^\\[server\\]$/,/^$/ s/^timeout = .*/timeout = {timeout}/' "
        "< /tmp/targets.txt",
        "xargs sed -i '/^\\[log\\]$/,/^$/ s/^level = .*/level = warn/' < /tmp/targets.txt",
        "sed 's,.*/,,; s,\\.conf$,,' /tmp/targets.txt | LC_ALL=C sort > changed.txt",
        "cat changed.txt",
        f"grep -c 'timeout = {timeout}' services/*.conf",
    ]


def _wasteful(commands: list[str], tier: str, name: str, more: int) -> list[str]:
    return insert(
        commands,
        (1, "ls -l services"),
        (more + 2, f"cp -r services /tmp/services-{tier}"),
        (more + 3, f"cat services/{name}.conf"),
        (more + 3, f"grep -rl '{tier}' services > /tmp/maybe.txt"),
        (more + 3, "sed 's,.*/,,' /tmp/maybe.txt > changed.txt"),
        (more + 5, "wc -l /tmp/tier.txt /tmp/maybe.txt"),
        (more + 9, f"diff -r /tmp/services-{tier} services | head -n 8"),
    )


def _wrong(policies: Trail, tier: str, timeout: int) -> list[str]:
    """Takes services of the tier that are not enabled, and keys of other sections, too."""
    return [
        *policies.commands,
        f"grep -l 'tier = {tier}' services/*.conf > /tmp/targets.txt",
        f"xargs sed -i 's/^timeout = .*/timeout = {timeout}/; s/^level = .*/level = warn/' "
        "< /tmp/targets.txt",
        "sed 's,.*/,,; s,\\.conf$,,' /tmp/targets.txt | LC_ALL=C sort > changed.txt",
    ]
