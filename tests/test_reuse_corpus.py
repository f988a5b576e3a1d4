"""The labelled corpus is what it says, and the matcher is as good on it as it is said to be."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from benchmarks import reuse, reuse_wild, run
from benchmarks.reuse_pairs import REUSED, Pair, make_pairs
from benchmarks.reuse_score import NEW, OLD, Score, share
from benchmarks.reuse_worlds import HALVES, NOUNS, Half, Maker, make_world

WORLDS = 5
"""Of a half; the benchmark has more."""


@pytest.fixture(scope="module")
def halves() -> dict[Half, list[Pair]]:
    return {half: make_pairs(half, WORLDS) for half in HALVES}


@pytest.fixture(scope="module")
def found() -> dict[Half, dict[str, dict[str, Score]]]:
    results = reuse.ReuseResults(reuse.describe(pinned=False), quick=True)
    return {half: reuse.scores(half, results, worlds=WORLDS) for half in HALVES}


def test_the_corpus_is_the_same_every_time(halves: dict[Half, list[Pair]]):
    assert make_pairs("held-out", WORLDS) == halves["held-out"]
    assert make_world("development", 3) == make_world("development", 3)


def test_there_are_enough_pairs_of_every_kind(halves: dict[Half, list[Pair]]):
    pairs = [pair for half in HALVES for pair in halves[half]]
    assert len(pairs) >= 500
    kinds = {pair.kind for pair in pairs}
    assert kinds == {*REUSED, "coincidence", "prompt", "own", "unrelated"}


def test_nothing_printed_belongs_to_this_machine(halves: dict[Half, list[Pair]], tmp_path: Path):
    outputs = {output for pairs in halves.values() for p in pairs for _, output in p.earlier}
    text = "\n".join(outputs)
    assert not re.search(r"/home/|/root/|/tmp/|/usr/local/|root root", text)
    assert str(tmp_path.parent.parent) not in text


def test_the_halves_share_no_names_and_no_commands(halves: dict[Half, list[Pair]]):
    assert not set(NOUNS["development"]) & set(NOUNS["held-out"])
    development, held_out = (
        {text for pair in halves[half] for text, _ in pair.earlier if pair.kind in REUSED}
        for half in HALVES
    )
    assert not development & held_out


def pieces(text: str) -> set[str]:
    """Words of a text, paths whole and in parts."""
    words = [word.rstrip(".,") for word in re.findall(r"[\w.,:/-]{2,}", text)]
    return {*words, *(part for word in words for part in word.split("/") if len(part) > 1)}


def test_labels_are_right_by_what_the_texts_say(halves: dict[Half, list[Pair]]):
    """Whatever was reused as it is stands in its producer's output, and in none before it."""
    checked = 0
    for pair in (p for pairs in halves.values() for p in pairs):
        assert (pair.producer is not None) == (pair.kind in REUSED)
        if pair.kind not in ("literal", "twice") or pair.producer is None:
            continue
        if pair.detail == "short":  # its digits stand in longer numbers, too
            continue
        outputs = [output for _, output in pair.earlier]
        said = pieces(pair.text)
        longest = max((p for p in said if p in outputs[pair.producer]), key=len, default="")
        assert longest, pair.text
        assert not any(longest in output for output in outputs[: pair.producer])
        checked += 1
    assert checked > 150


def test_known_values_are_known_and_unrelated_ones_unprinted(halves: dict[Half, list[Pair]]):
    for pair in (p for pairs in halves.values() for p in pairs):
        if pair.kind == "own":
            texts = " ".join(text for text, _ in pair.earlier)
            assert pieces(pair.text) & pieces(texts), pair.text
        if pair.kind == "prompt" and pair.detail != "other form":
            assert pieces(pair.text) & pieces(pair.prompt), pair.text


def test_a_template_that_prints_something_else_is_found(tmp_path: Path):
    maker = Maker("development", 0, tmp_path)
    with pytest.raises(ValueError, match=r"world development/0: found no 'b' in what 'echo a' pr"):
        maker.run("echo a", id="b")


@pytest.mark.parametrize("half", HALVES)
def test_the_matcher_reaches_the_aims(half: Half, found: dict[Half, dict[str, dict[str, Score]]]):
    kinds = found[half][NEW]
    assert reuse.total(kinds).precision.value >= 0.98
    assert kinds["literal"].recall.value >= 0.9
    assert kinds["reformatted"].recall.value >= 0.5
    assert kinds["cut"].recall.value >= 0.5
    assert kinds["twice"].recall.value >= 0.95
    assert sum(kinds[kind].wrong for kind in ("coincidence", "prompt", "own")) == 0


def test_the_plain_rule_is_measured_beside_it(found: dict[Half, dict[str, dict[str, Score]]]):
    kinds = found["held-out"][OLD]
    assert kinds["reformatted"].right == 0
    assert 0.4 < kinds["literal"].recall.value < 0.8


def test_intervals_are_wilsons():
    assert [round(x, 3) for x in (share(10, 10).low, share(0, 10).high)] == [0.722, 0.278]
    assert str(share(9, 10)) == "0.900 (0.596–0.982), 9/10"
    assert str(share(0, 0)) == "–"
    both = Score(1, 2, 3) + Score(4, 5, 6)
    assert (both.precision.part, both.recall.whole) == (5, 14)


def test_the_time_goes_with_the_length():
    small, large = reuse.speed(20, 500), reuse.speed(20, 1000)
    assert 1.9 < large.characters / small.characters < 2.1


def test_reuse_is_measured_alone(capsys: pytest.CaptureFixture[str]):
    with pytest.raises(SystemExit, match="2"):
        run.main(["--only", "reuse", "host"])
    assert "--only reuse: allowed alone, since it is no matter of speed" in capsys.readouterr().err


def test_a_report_has_every_part(found: dict[Half, dict[str, dict[str, Score]]], tmp_path: Path):
    results = reuse.ReuseResults(reuse.describe(pinned=False), quick=False)
    results.scores = {str(half): kinds for half, kinds in found.items()}
    results.details = {"literal: id": Score(3, 0, 1)}
    results.own = reuse.OwnRollouts(3, 10, {OLD: 4, NEW: 6})
    results.speed = [reuse.Speed(500, 1_000_000, 1.25)]
    files = reuse.write(results, tmp_path / "r.json")
    page = files[1].read_text("utf-8")
    assert "| precision, all kinds | >= 0.98 |" in page
    assert "6 of 10" in page
    assert "1.25" in page
    assert json.loads(files[0].read_text("utf-8"))["own"]["read_only"] == 10


def test_labels_of_rollouts_of_others():
    pairs = reuse_wild.read_pairs()
    assert len(pairs) >= 400
    assert {pair.sample for pair in pairs} == set(reuse_wild.SAMPLES)
    assert {pair.label for pair in pairs} == set(reuse_wild.KINDS)
    assert all(re.fullmatch("[0-9a-f]{64}", p.text) and p.earlier < p.later for p in pairs)


TEXTS = {"repo": "a/b", "path": "x.traj", "prompt": "Do it.", "commands": [
    ["wc -c x", "48213 x\n"], ["echo 48213 > y", ""]]}  # fmt: skip


def wild(**changes: object) -> reuse_wild.WildPair:
    values = {
        "sample": "terminal", "repo": "a/b", "path": "x.traj", "earlier": 0, "later": 1,
        "printed": reuse_wild.digest("48213 x\n"), "text": reuse_wild.digest("echo 48213 > y"),
        "label": "literal", "stratum": "matcher", "weight": 1.0,
    }  # fmt: skip
    return reuse_wild.WildPair(**(values | changes))  # pyright: ignore[reportArgumentType]


def test_pairs_are_scored_when_their_texts_are_given(tmp_path: Path):
    file = tmp_path / "texts.jsonl"
    file.write_text(json.dumps(TEXTS) + "\n", "utf-8")
    texts = reuse_wild.Texts(file)
    pairs = [wild(), wild(label="none", doubtful=True)]
    texts.check(pairs[0])
    counted = reuse_wild.scores(pairs, texts, doubtful=False)["terminal", NEW]
    assert counted == Score(right=1)
    assert reuse_wild.scores(pairs, texts, doubtful=True)["terminal", NEW] == Score(1, 1, 0)
    assert "| terminal | matcher" in reuse_wild.markdown(pairs, texts)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"text": "0" * 64}, r"a/b/x.traj, commands 0 and 1: found other texts than those"),
        ({"path": "y"}, r"a/b/y, commands 0 and 1: found 0 commands in the texts. Allowed: the"),
    ],
)
def test_other_texts_are_refused(tmp_path: Path, changes: dict[str, object], message: str):
    file = tmp_path / "texts.jsonl"
    file.write_text(json.dumps(TEXTS) + "\n", "utf-8")
    with pytest.raises(reuse_wild.TextsError, match=message):
        reuse_wild.Texts(file).check(wild(**changes))


def test_a_file_of_other_lines_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    file = tmp_path / "texts.jsonl"
    file.write_text("{}\n", "utf-8")
    with pytest.raises(reuse_wild.TextsError, match=r"line 1: found KeyError.*Write one rollout"):
        reuse_wild.Texts(file)
    assert reuse_wild.main([str(file), "--out", str(tmp_path / "o.json")]) == 1
    assert "error: " in capsys.readouterr().err
