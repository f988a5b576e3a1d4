"""The matcher on rollouts of others: pairs that were read and labelled by hand.

    python -m benchmarks.reuse_wild TEXTS.jsonl [--out FILE]

Only labels and digests are kept here (`reuse_wild.jsonl`). The texts belong to those who published
them; TEXTS.jsonl holds rollouts as `{"repo", "path", "prompt", "commands": [[text, stdout], ...]}`,
one a line. A pair whose texts have other digests ends the run: its label would mean nothing.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from benchmarks.report import table
from benchmarks.reuse_score import CONFIGS, Score
from depgpo_jax.tracer.stdout_reuse import ReuseConfig, StdoutReuse

LABELS = Path(__file__).resolve().parent / "reuse_wild.jsonl"
DEFAULT_OUT = Path(__file__).resolve().parent / "results" / "reuse-wild.json"
KINDS = ("literal", "transformed", "none")


class TextsError(Exception):
    """The given texts are not those that were labelled."""


@dataclass(frozen=True)
class WildPair:
    """A command of a rollout and an earlier one, and whether the later text reuses what it printed.

    Attributes:
        sample: a name of `SAMPLES`.
        earlier: number of the earlier command.
        later: number of the later one.
        printed: SHA-256 of what the earlier one printed.
        text: SHA-256 of the later one's text.
        label: a name of `KINDS`; `none` also where another command printed the value first.
        stratum: who proposed the pair when it was drawn.
        weight: pairs of its stratum for each one drawn of it.
        doubtful: whether an honest reader may say otherwise.
        first: whether the matcher made the edge before it had been tuned on this sample.
    """

    sample: str
    repo: str
    path: str
    earlier: int
    later: int
    printed: str
    text: str
    label: str
    stratum: str
    weight: float
    doubtful: bool = False
    first: bool = False


SAMPLES = {
    "terminal": "mini-swe-agent on terminal-bench tasks, and demonstrations of CTF tasks",
    "code": "mini-swe-agent on repositories of Python projects",
    "editor": "SWE-agent, with an editor as a tool, on other issues of Python projects",
}
"""In the order in which they were drawn; later ones were not looked at before."""


def read_pairs(file: Path = LABELS) -> list[WildPair]:
    """The labels."""
    pairs: list[WildPair] = []
    for line in file.read_text("utf-8").splitlines():
        rollout = json.loads(line)
        labelled = rollout.pop("pairs")
        pairs += [WildPair(**rollout, **pair) for pair in labelled]
    return pairs


def digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


class Texts:
    """Rollouts with their texts.

    Raises:
        TextsError: a line of the file is not such a rollout.
    """

    def __init__(self, file: Path) -> None:
        self._rollouts: dict[tuple[str, str], tuple[str, list[tuple[str, str]]]] = {}
        self._found: dict[tuple[str, str, str], list[set[int]]] = {}
        for number, line in enumerate(file.read_text("utf-8").splitlines(), 1):
            try:
                it = json.loads(line)
                commands = [(text, stdout) for text, stdout in it["commands"]]
                self._rollouts[it["repo"], it["path"]] = it["prompt"], commands
            except (ValueError, KeyError, TypeError) as error:
                raise TextsError(
                    f"{file}, line {number}: found {error!r}. Allowed: an object with repo, path, "
                    "prompt and commands, a list of [text, stdout]. Write one rollout a line."
                ) from None

    def check(self, pair: WildPair) -> None:
        """Compares a pair's texts with their digests.

        Raises:
            TextsError: they are missing or are others.
        """
        where = f"{pair.repo}/{pair.path}, commands {pair.earlier} and {pair.later}"
        rollout = self._rollouts.get((pair.repo, pair.path))
        commands = rollout[1] if rollout else []
        if len(commands) <= pair.later:
            raise TextsError(
                f"{where}: found {len(commands)} commands in the texts. Allowed: the rollout that "
                "was labelled. Add it to the file."
            )
        found = digest(commands[pair.earlier][1]), digest(commands[pair.later][0])
        if found != (pair.printed, pair.text):
            raise TextsError(
                f"{where}: found other texts than those that were labelled. Allowed: their very "
                "bytes, as the digests say. Take them from the repository as it was then."
            )

    def has_edge(self, pair: WildPair, name: str, config: ReuseConfig) -> bool:
        """Whether a matcher that follows the rollout makes the edge."""
        key = (pair.repo, pair.path, name)
        if key not in self._found:
            prompt, commands = self._rollouts[pair.repo, pair.path]
            matcher = StdoutReuse(prompt, config)
            self._found[key] = []
            for text, stdout in commands:
                self._found[key].append(set(matcher.sources(text)))
                matcher.add(text, stdout)
        return pair.earlier in self._found[key][pair.later]


FIRST = "matcher, before tuning on it"


def scores(
    pairs: Sequence[WildPair], texts: Texts, *, doubtful: bool
) -> dict[tuple[str, str], Score]:
    """Counts by sample and rule; without doubtful pairs unless they are asked for."""
    found: dict[tuple[str, str], Score] = {}
    for pair in pairs:
        if pair.doubtful and not doubtful:
            continue
        true = [pair.earlier] if pair.label != "none" else []
        says = {name: texts.has_edge(pair, name, config) for name, config in CONFIGS.items()}
        for name, edge in (*says.items(), (FIRST, pair.first)):
            score = found.setdefault((pair.sample, name), Score())
            score.add([pair.earlier] if edge else [], true)
    return found


def markdown(pairs: Sequence[WildPair], texts: Texts) -> str:
    """The whole report."""
    return "\n".join(_sections(pairs, texts)).rstrip() + "\n"


def _sections(pairs: Sequence[WildPair], texts: Texts) -> Iterator[str]:
    yield f"{len(pairs)} pairs of rollouts of others, labelled by hand; 95 % intervals (Wilson)."
    yield ""
    rows = [
        [sample, what, *(str(count) for count in _labels(pairs, sample))]
        for sample, what in SAMPLES.items()
    ]
    yield from table(["sample", "of", *KINDS, "of these doubtful"], rows, left=2)
    for doubtful in (False, True):
        yield f"**{'With' if doubtful else 'Without'} doubtful pairs**"
        yield ""
        rows = [
            [sample, name, str(score.precision), str(score.recall)]
            for (sample, name), score in scores(pairs, texts, doubtful=doubtful).items()
        ]
        yield from table(["sample", "rule", "precision", "recall"], rows, left=2)


def _labels(pairs: Sequence[WildPair], sample: str) -> Iterator[int]:
    here = [pair for pair in pairs if pair.sample == sample]
    counted = Counter(pair.label for pair in here)
    yield from (counted[kind] for kind in KINDS)
    yield sum(pair.doubtful for pair in here)


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.reuse_wild", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("texts", type=Path, metavar="TEXTS.jsonl")
    parser.add_argument("--out", type=Path, default=DEFAULT_OUT, metavar="FILE")
    options = parser.parse_args(argv)
    pairs = read_pairs()
    try:
        texts = Texts(options.texts)
        for pair in pairs:
            texts.check(pair)
    except (TextsError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    report = markdown(pairs, texts)
    print(report, end="")
    found = {
        f"{sample}, {name}, {'with' if doubtful else 'without'} doubtful": asdict(score)
        for doubtful in (False, True)
        for (sample, name), score in scores(pairs, texts, doubtful=doubtful).items()
    }
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_text(json.dumps(found, indent=1) + "\n", "utf-8")
    options.out.with_suffix(".md").write_text(report, "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
