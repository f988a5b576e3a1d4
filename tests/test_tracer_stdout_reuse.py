"""Which printed value a text uses: every rule hits what it is for and leaves what is beside it."""

from __future__ import annotations

import pytest
from msgspec import UNSET

from depgpo_jax.errors import ConfigError
from depgpo_jax.explain.deeds import first_reused_value
from depgpo_jax.tracer.reuse_config import RULES
from depgpo_jax.tracer.stdout_reuse import Reuse, ReuseConfig, StdoutReuse
from depgpo_jax.tracer.workplace import with_sources
from depgpo_jax.traces import Command


def after(*outputs: str, prompt: str = "", config: ReuseConfig | None = None) -> StdoutReuse:
    """A matcher that has seen these outputs, of commands whose texts say nothing."""
    reuse = StdoutReuse(prompt, config or ReuseConfig())
    for output in outputs:
        reuse.add("./run", output)
    return reuse


def rules(reuse: StdoutReuse, text: str) -> dict[int, str]:
    return {number: found.rule for number, found in reuse.sources(text).items()}


def test_the_first_printer_of_a_value_gets_the_edge_and_says_why():
    reuse = after("4217 data\n", "4217 data\n")
    assert reuse.sources("echo 4217 > answer.txt") == {0: Reuse("4217", "4217", "literal")}


def test_values_of_the_prompt_and_of_the_agents_own_text_are_nobodys():
    reuse = StdoutReuse("Listen on port 8123 and write /app/answer.txt with Key-Of-Nine.")
    reuse.add("echo token_abc123 1,500,321", "8123 token_abc123 /app/answer.txt 1500321\n")
    reuse.add("cat x", "KEY_OF_NINE\n")
    text = "cat /app/answer.txt; nc localhost 8123; echo token_abc123 1500321 KEY_OF_NINE"
    assert reuse.sources(text) == {}


def test_a_value_that_the_agent_wrote_only_afterwards_still_has_its_printer():
    reuse = after("session q7x9k2\n")
    reuse.add("login q7x9k2", "welcome\n")
    assert rules(reuse, "logout q7x9k2") == {0: "literal"}


def test_several_producers_in_their_order():
    reuse = after("alpha42\n", "beta-77\n", "nothing\n")
    assert list(reuse.sources("use beta-77 and alpha42")) == [0, 1]


@pytest.mark.parametrize(
    ("printed", "text", "rule"),
    [
        ("total 48213 rows", "echo 48213 > answer", "literal"),
        ("peer 10.44.81.7 gone", "ping -c 1 admin@10.44.81.7", "literal"),
        ("pandas 1.5.2", "pip install pandas==1.5.2", "literal"),
        ("scipy=1.9.0", "pip install 'scipy>=1.9.0'", "literal"),
        ("ERR_BAD_CRC in part 3", "grep ERR_BAD_CRC log", "literal"),
        ("ledger.csv  notes.md", "wc -l in/ledger.csv", "literal"),
        ("/srv/data/blob/part", "ls /srv/data/blob", "literal"),
        ("\x1b[01;34mq3_report\x1b[0m\r\n", "cd q3_report", "literal"),
        ("sum 1,876,543 in all", "echo 1876543", "number"),
        ("sum 1876543 in all", "echo 1,876,543", "number"),
        ("sum 1876543 in all", "echo 1_876_543 0x1ca23f", "number"),
        ("at 0x4a36dd", "echo 4863709", "number"),
        ("0000000000401156 T main", "break *0x401156", "number"),
        ("took 8927ms", "limit=8927", "number"),
        ("mean 66.405300", "echo 66.4053", "number"),
        ("on 2031-04-05", "touch -d 2031/04/05 x", "date"),
        ("on 2031-04-05", "echo 05.04.2031 20310405", "date"),
        ("id QX-4821-K7", "grep qx-4821-k7 log", "spelling"),
        ("No module named 'jupyter_client'", "pip install jupyter-client", "spelling"),
        ("mean 66.405367", "echo 66.41", "rounded"),
        ("mean 66.405367", "echo 66.405", "rounded"),
        ("9f31c07be5a2d4408c1e7", "git show 9f31c07", "prefix"),
        ("ae86a205-377e-4f38-9392-3b4227955730", "grep ae86a205 log", "prefix"),
        ("q3_ledger.csv", "mv x q3_ledger.json", "stem"),
        ("quarry.csv 8", "sort quarry.csv > quarry.out", "literal"),
        ("37\n", "echo 37 > answer", "alone"),
        ("37 rows\n", "echo 'rows: 37'", "alone"),
        ("walrus\n", "git switch walrus", "alone"),
        ("lagoon\npayroll\n", "ls teams/payroll", "listed"),
        ("-rw-r--r-- 1 a b 9 Jan 1 1:00 payroll\nx y", "cat payroll", "listed"),
        ("telnet      frames:36\nx y", "tshark -Y telnet", "listed"),
        ("      3 walrus\n      2 otter\n", "grep walrus log", "listed"),
        ("a\n  if not self._relaxed and len(self.names) == 0:\nb",
         "x.replace('if not self._relaxed and len(self.names) == 0:', y)", "line"),
    ],
)  # fmt: skip
def test_what_counts(printed: str, text: str, rule: str):
    assert rules(after(printed), text) == {0: rule}


@pytest.mark.parametrize(
    ("printed", "text"),
    [
        ("#!/usr/bin/env python3", "python3 run.py"),
        ("result = subprocess.run(x)", "python -c 'import subprocess; subprocess.run([])'"),
        ("Successfully installed", "echo Successfully written"),
        ("port 8080, 4096 bytes, 2024", "nc -l 8080; dd bs=4096; date -d 2024-01-01"),
        ("read/write access", "echo read/write"),
        ("row_count = len(rows)", "row_count = 0; print(row_count)"),
        ("file_ids = []", "for file_ids in x: print(file_ids)"),
        ("use $QUEUE_NAME here", "echo $QUEUE_NAME ${QUEUE_NAME}"),
        ("--dry_run_all", "./x --dry_run_all"),
        ("37 a b c d\n", "echo 37"),  # a short number that is not all of the output
        ("37\n", "head -n 37 x"),  # nor as the value of an option
        ("20\n", "echo 20"),  # nor a common one
        ("a 1.5 b", "echo 1.5"),
        ("mean 66.405367", "echo 66.4 66"),  # too few digits are left
        ("9f31c07be5a2d4408c1e7", "git show 9f31c"),
        ("9f31c07be5", "git show 9f31c07"),  # no long value
        ("lagoon\npayroll x\n", "ls teams/payroll"),
        ("decorators\nx", "nl django/views/decorators/common.py"),
        ("db/utils.py:3: x", "cat test/utils.py"),  # a file of that name elsewhere
        ("settings.conf x", "from settings.conf import y"),
        ("numpy 1.9.0", "pip install scipy==1.9.0"),
        ("access.log", "access_log off;"),
        ("userName: x", "echo username"),
    ],
)
def test_what_does_not_count(printed: str, text: str):
    assert after(printed).sources(text) == {}


def test_a_number_out_of_many_is_met_by_chance():
    many = "".join(f"{n}\n" for n in range(1001, 2000, 7))
    assert after(many).sources("echo 1456") == {}
    assert after("".join(f"{n}\n" for n in range(480_001, 481_000, 7))).sources("echo 480456")
    versions = " ".join(f"1.{n}.4" for n in range(10, 60))
    assert after(versions).sources("echo 1.24.4") == {}


def test_numbers_of_lines_count_in_the_same_file():
    reuse = StdoutReuse()
    reuse.add("grep -n 'def load' lib/store.py", "477:def load(path):\n")
    reuse.add("nl -ba lib/index.py", "".join(f"{n:6}\tx\n" for n in range(1, 300)))
    assert rules(reuse, "sed -n '477,500p' lib/store.py") == {0: "line"}
    assert rules(reuse, "sed -n '123,160p' lib/index.py") == {1: "line"}
    assert rules(reuse, "sed -n '477,500p' lib/other.py") == {}
    assert rules(reuse, "sed -n '120,160p' lib/index.py") == {}  # a round number
    assert rules(reuse, "head -c 123 lib/index.py") == {}


def test_numbers_before_names_are_no_numbers_of_lines():
    table = "62989\tledger.tsv\n46653\tnotes.txt\n28363\tplan.sql\n"
    assert rules(after(table), "echo 46653") == {0: "literal"}


def test_a_listing_keeps_its_edge_when_the_folder_is_printed_with_the_names():
    reuse = StdoutReuse()
    reuse.add("ls in", "ledger.csv\n")
    reuse.add("sha256sum in/*", "9f31c07be5a2d4408c1e7  in/ledger.csv\n")
    assert list(reuse.sources("cat in/ledger.csv")) == [0]


def test_plain_names_and_short_numbers_count_in_short_texts_only():
    program = "cat > x.py <<'EOF'\n" + "value = compute(value)\n" * 30 + "print(37, walrus)\nEOF"
    assert after("37\n", "walrus\n").sources(program) == {}
    assert after("37\n", config=ReuseConfig(max_words=500)).sources(program)


def test_rules_and_thresholds_are_arguments():
    assert after("walrus\n", config=ReuseConfig(rules=("literal",))).sources("cd walrus") == {}
    assert after("x 4217 y z", config=ReuseConfig(min_informative=6)).sources("echo 4217") == {}
    assert after("sea urchins", config=ReuseConfig(min_any=7)).sources("cd urchins")
    assert after("x 9f31c07be5 y", config=ReuseConfig(min_hex=10)).sources("git show 9f31c07")
    assert after("9f31c07be5a2d4408c1e7", config=ReuseConfig(min_prefix=5)).sources("use 9f31c")
    assert "design" not in RULES


def test_the_plain_rule_is_kept():
    reuse = after("python3 and a walrus of 1,234\n", config=ReuseConfig.design())
    assert reuse.sources("python3 x; echo walrus 1234") == {
        0: Reuse("python3", "python3", "design")
    }
    assert after("configuration", config=ReuseConfig.design()).sources("cat configuration")
    assert not after("x77", config=ReuseConfig.design(min_informative=4)).sources("cat x77")
    assert after("x77", config=ReuseConfig.design(min_informative=3)).sources("cat x77")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"rules": ("literal", "guess")}, r"rules: found 'guess'. Allowed: literal, number, .*"),
        ({"rules": None}, r"rules: found None. Allowed: a sequence of names, of literal, number, "),
        ({"rules": "literal"}, r"rules: found 'literal'. Allowed: .* Put a single name in a tuple"),
        ({"rules": b"line"}, r"rules: found b'line'. Allowed: a sequence of names, of literal"),
        ({"rules": [[]]}, r"rules: found \[\]. Allowed: literal, number, .*"),
        ({"min_any": 0}, r"min_any: found 0. Allowed: a whole number above 0. To switch a rule"),
        ({"chance": 1.5}, r"chance: found 1.5. Allowed: a whole number above 0. To switch a rule"),
        ({"min_prefix": 13}, r"min_prefix: found 13. Allowed: 1 to 12. To switch the rule off"),
    ],
)
def test_a_wrong_threshold_is_named(arguments: dict[str, object], message: str):
    with pytest.raises(ConfigError, match=f"ReuseConfig.{message}"):
        ReuseConfig(**arguments)  # pyright: ignore[reportArgumentType]


def test_rules_of_any_sequence_are_kept_as_a_tuple():
    config = ReuseConfig(rules=["literal", "line"])
    assert config.rules == ("literal", "line")
    assert {config} == {ReuseConfig(rules=("literal", "line"))}


def test_an_edge_of_a_trace_says_which_token_made_it():
    commands = [
        Command(text="wc -c x", stdout="48,213 x\n", extra={"mine": 1}),
        Command(text="echo 48213 > answer", extra={"mine": 2}),
        Command(text="true"),
    ]
    first, second, third = with_sources(commands)
    assert second.stdout_from == [0]
    assert second.extra == {
        "mine": 2,
        "stdout_reuse": {"0": {"token": "48213", "printed": "48,213", "rule": "number"}},
    }
    assert (first.extra, third.extra) == ({"mine": 1}, UNSET)
    assert first_reused_value(second) == "48213"


@pytest.mark.parametrize("extra", [{}, {"stdout_reuse": 3}, {"stdout_reuse": {"0": {"token": 1}}}])
def test_an_extra_of_another_form_tells_nothing(extra: dict[str, object]):
    assert first_reused_value(Command(text="x", extra=extra)) == ""


@pytest.mark.parametrize("unit", ["0f", "a/b/", "1,111 ", "'a\\\",", "a_b_", "a:1:", "\x1b]", "- "])
def test_an_output_of_one_endless_line_is_read_like_any_other(unit: str):
    line = unit * 20_000
    reuse = after(line + "\nticket QX-4821-K7\n", prompt=line[:9999])
    assert list(reuse.sources(f"{line} QX-4821-K7")) == [0]


def test_an_output_that_comes_again_and_a_number_of_a_hundred_digits_do_no_harm():
    long = "9" * 100 + "." + "8" * 100
    reuse = after(long, long)
    assert list(reuse.sources(f"echo {long}")) == [0]


@pytest.mark.parametrize(
    ("stdout", "text"),
    [
        ("4096\n", "dd if=a of=b bs=4096"),
        ("8080\n", "python -m http.server 8080"),
        ("2026\n", "cp report.txt archive/2026/"),
        ("1000000\n", "head -c 1000000 a"),
        ("100\n", "head -n 100 a"),
    ],
)
def test_numbers_that_everybody_uses_make_no_edge_even_alone(stdout: str, text: str):
    reuse = StdoutReuse()
    reuse.add("./show", stdout)
    assert reuse.sources(text) == {}
