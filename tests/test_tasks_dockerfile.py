"""The honoured subset of a Dockerfile: its plan, its messages, and the tree that it makes."""

import os
import stat
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from depgpo_jax.tasks import (
    Copy,
    Limits,
    Plan,
    Run,
    Task,
    TaskError,
    Workdir,
    build,
    dockerfile,
    parse_dockerfile,
    read_task,
)
from depgpo_jax.tasks.dockerfile import SYSTEM
from depgpo_jax.tasks.plan import START

PATH = START["PATH"]
Make = Callable[..., Task]


def parse(text: str) -> Plan:
    return parse_dockerfile("FROM x\n" + text, file="Dockerfile")


def refusal(text: str) -> str:
    """The message, without the file and the line, which is the text's last one."""
    with pytest.raises(TaskError) as caught:
        parse(text)
    place = f"Dockerfile, line {text.rstrip().count(chr(10)) + 2}: found "
    assert str(caught.value).startswith(place)
    return str(caught.value).removeprefix(place)


# Reading.


def test_a_whole_dockerfile() -> None:
    plan = parse_dockerfile(
        "\ufeff# syntax=docker/dockerfile:1\r\n"
        "# escape=\\\n"
        "FROM --platform=linux/amd64 debian:12 AS base\n"
        "\n"
        "env A=1 B='$A' \\\n"
        "# a comment between\n"
        "\n"
        '    C="x $PATH" D=a\\ b\n'
        "WORKDIR /app\n"
        "WORKDIR sub/../deep\n"
        "COPY --chmod=750 a b* ./\n"
        'COPY --link ["one two", "/srv/$A"]\n'
        "ENV E ${A} and $PATH\n"
        "RUN echo $A && \\\n"
        "    echo b\n"
        'RUN ["printf", "%s\\n", "it\'s"]\n'
        "RUN [ -f x ] || true\n",
        file="Dockerfile",
    )
    first = {"PATH": PATH, "A": "1"}
    assert plan.environment["B"] == "$A"
    assert plan.environment["C"] == f"x {PATH}"
    assert plan.environment["D"] == "a b"
    assert plan.environment["E"] == f"1 and {PATH}"
    assert {name: plan.environment[name] for name in first} == first
    assert plan.workdir == "/app/deep"
    assert plan.folders == ("/app", "/srv")
    assert plan.steps == (
        Workdir("/app", 9),
        Workdir("/app/deep", 10),
        Copy(("a", "b*"), "/app/deep", True, 0o750, 11),
        Copy(("one two",), "/srv/1", False, None, 12),
        Run("echo $A &&     echo b", "/app/deep", plan.environment, 14),
        Run("printf '%s\n' 'it'\"'\"'s'", "/app/deep", plan.environment, 16),
        Run("[ -f x ] || true", "/app/deep", plan.environment, 17),
    )
    assert plan.warnings == (
        "Dockerfile, line 3: the base image debian:12 is ignored: commands find this machine's "
        "own programs",
    )


def test_variables_of_one_instruction_come_from_before_it() -> None:
    plan = parse('ENV A=old\nENV A=new B=$A\nENV C=\\$A D=${A}x E=a$ F=\'\' G="\\"\\n" H=x\\')
    expected = {"A": "new", "B": "old", "C": "$A", "D": "newx", "E": "a$", "F": "", "G": '"\\n'}
    assert plan.environment == {"PATH": PATH, **expected, "H": "x"}


def test_run_sees_the_variables_set_so_far() -> None:
    plan = parse("ENV A=1\nRUN x\nENV A=2\nRUN y")
    runs = [step for step in plan.steps if isinstance(step, Run)]
    assert [run.environment["A"] for run in runs] == ["1", "2"]
    assert [run.workdir for run in runs] == ["/", "/"]


def test_two_backslashes_continue_nothing() -> None:
    assert [step.line for step in parse("RUN a \\\\\nRUN b\nRUN c \\").steps] == [2, 3, 4]


def test_shell_redirections_are_no_here_documents() -> None:
    texts = ["cat <<< word", "echo $((1 << 2))", "a<b", "x 2>&1 < y"]
    steps = parse("\n".join(f"RUN {text}" for text in texts)).steps
    assert [step.text for step in steps if isinstance(step, Run)] == texts


ENV_NAMES = "Allowed: names of letters, digits and _, not beginning with a digit. Rename it."
HEREDOC = (
    "a here-document. Allowed: instructions without one. "
    "Put the text into a file of environment/ and COPY it."
)
FOLDERS = (
    "Allowed: folders of the task's own, such as /app; not the system's, nor the verifier's "
    "/tests, /solution and /logs. Use a folder under /app; for programs, put it on PATH with ENV."
)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "FROM y",
            "a second FROM. Allowed: one stage. "
            "Build what the first stage makes beforehand, and COPY it.",
        ),
        (
            "RUN",
            "RUN with nothing after it. Allowed: an instruction with its arguments. "
            "Complete or remove it.",
        ),
        (
            "RUN --mount=type=cache,target=/x y",
            "--mount=type=cache,target=/x. Allowed: RUN without options. Remove the option.",
        ),
        ("RUN cat <<EOF", HEREDOC),
        ("RUN python3 - <<-'EOF'", HEREDOC),
        ('COPY <<"EOF" /app/x', HEREDOC),
        (
            "RUN []",
            "an empty list. Allowed: a list of texts. Complete or remove the instruction.",
        ),
        (
            'RUN ["a", ""]',
            "an empty text, a NUL or half a character in the list. Allowed: texts that a command "
            "line can hold. Write the instruction without a list.",
        ),
        (
            "ENV A",
            "A without a value. Allowed: NAME=VALUE …. Write NAME=VALUE.",
        ),
        ("ENV A=1 B", "B without a value. Allowed: NAME=VALUE …. Write NAME=VALUE."),
        ("ENV 1A=2", f"the variable 1A. {ENV_NAMES}"),
        ("ENV A-b c", f"the variable A-b. {ENV_NAMES}"),
        (
            "ENV A='x",
            "a quote ' without its partner in 'x. Allowed: quotes in pairs. "
            "Close the quote, or write a backslash before it.",
        ),
        (
            "ENV A=$HOME/x",
            "$HOME, which nothing above sets. Allowed: PATH and what an ENV above it sets. "
            "Set it with ENV before this line (the base image, which may set it, is ignored), "
            "or write a backslash before the $.",
        ),
        (
            "ENV A=${PATH:-x}",
            "${PATH:-x}. Allowed: $NAME and ${NAME}. Write the value itself.",
        ),
        ("ENV A=${}", "${}. Allowed: $NAME and ${NAME}. Write the value itself."),
        ("WORKDIR ''", "a path of 0 characters. Allowed: 1 to 1000. Write a path."),
        (
            "WORKDIR " + "a" * 1001,
            "a path of 1001 characters. Allowed: 1 to 1000. Write a path.",
        ),
        ("WORKDIR /app/../../usr/local", f"the folder /usr/local. {FOLDERS}"),
        ("COPY x //tests/y", f"the folder /tests/y. {FOLDERS}"),
        (
            "COPY x /",
            "the root as target. Allowed: a folder of the task's own, such as /app. "
            "Copy each folder by its name: COPY app /app.",
        ),
        (
            "COPY x",
            "one path. Allowed: sources and a target. Write COPY SOURCE… TARGET.",
        ),
        (
            "COPY --link",
            "0 paths. Allowed: sources and a target. Write COPY SOURCE… TARGET.",
        ),
        (
            "COPY a b /app",
            "several sources and the target /app. Allowed: a folder as the target of several "
            "sources. End the target with /.",
        ),
        (
            "COPY a/../../b /app/",
            "the source a/../../b. Allowed: files of environment/, without ... "
            "Move what is copied into environment/.",
        ),
        (
            "COPY --chown=me a /app/",
            "--chown=me. Allowed: --chmod=OCTAL and --link. Remove the option: a sandbox has one "
            "user, and files come from environment/.",
        ),
        (
            "COPY --from=other a /app/",
            "--from=other. Allowed: --chmod=OCTAL and --link. Remove the option: a sandbox has "
            "one user, and files come from environment/.",
        ),
        (
            "COPY --chmod=u+x a /app/",
            "--chmod=u+x. Allowed: --chmod with an octal mode. Write for example --chmod=755.",
        ),
        (
            "ADD a /app/",
            "ADD. Allowed: FROM, COPY, WORKDIR, ENV, RUN. "
            "Use COPY for files, and RUN tar for archives; nothing is fetched.",
        ),
        (
            "\n  \\\n# x\n\n  gibberish\\\n and more",
            "GIBBERISH. Allowed: FROM, COPY, WORKDIR, ENV, RUN. "
            "Remove it, or do the same with RUN.",
        ),
    ],
)
def test_refused_instructions(text: str, expected: str) -> None:
    if "gibberish" in text:  # its line is the one where it begins
        with pytest.raises(TaskError) as caught:
            parse(text)
        assert str(caught.value) == f"Dockerfile, line 3: found {expected}"
    else:
        assert refusal(text) == expected


@pytest.mark.parametrize(
    "keyword",
    [keyword for keyword in dockerfile._REMEDIES if keyword != "ADD"],
)
def test_every_other_instruction_is_refused_with_what_to_do(keyword: str) -> None:
    found = refusal(f"RUN x\n{keyword.lower()} y")
    assert found.startswith(f"{keyword}. Allowed: FROM, COPY, WORKDIR, ENV, RUN. ")
    assert "or do the same with RUN" not in found


@pytest.mark.parametrize("folder", sorted(SYSTEM))
def test_the_system_is_not_written_over(folder: str) -> None:
    assert refusal(f"WORKDIR /\nCOPY x {folder}/y") == f"the folder /{folder}/y. {FOLDERS}"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "# nothing\n",
            "Dockerfile: found no FROM. Allowed: a Dockerfile, which begins with FROM. "
            "Write for example `FROM debian:bookworm` as its first line.",
        ),
        (
            "RUN x\nFROM y",
            "Dockerfile, line 1: found RUN before FROM. Allowed: FROM first. "
            "Move FROM to the first line.",
        ),
        (
            "FROM x\nRUN a\0b",
            "Dockerfile, line 2: found a NUL character. Allowed: text. "
            "Write the Dockerfile as plain text.",
        ),
        (
            "# escape = `\nFROM x",
            "Dockerfile, line 1: found another escape character, `. Allowed: the backslash. "
            "Remove the line and write continuations with a backslash.",
        ),
    ],
)
def test_refused_files(text: str, expected: str) -> None:
    with pytest.raises(TaskError) as caught:
        parse_dockerfile(text, file="Dockerfile")
    assert str(caught.value) == expected


KEYWORDS = ("FROM", "COPY", "RUN", "ENV", "WORKDIR", "ADD")
PIECES = st.sampled_from(
    (*KEYWORDS, *"#\\\n\r'\"${}A=[],/.*\0é ", "${", '["a","b"]', "--chmod=7", "<<E", "..")
)


@given(text=st.text(max_size=60) | st.lists(PIECES, max_size=25).map(" ".join))
def test_any_text_gives_a_plan_or_a_clear_error(text: str) -> None:
    for whole in (text, "FROM x\n" + text, "FROM x\nWORKDIR " + text, "FROM x\nENV A=" + text):
        try:
            plan = parse_dockerfile(whole, file="Dockerfile")
        except TaskError:
            continue
        assert plan.workdir.startswith("/")
        for step in plan.steps:
            path = step.target if isinstance(step, Copy) else getattr(step, "path", "/app")
            assert path == os.path.normpath(path)
            assert path.split("/")[1] not in SYSTEM


# Building.


@pytest.fixture
def make(tmp_path: Path) -> Make:
    """Writes a task whose environment holds some files, and reads it."""

    def write(dockerfile: str, settings: str = "", **files: str) -> Task:
        context = tmp_path / "task" / "environment"
        for name, text in {"Dockerfile": "FROM x\n" + dockerfile, **files}.items():
            path = context / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        (tmp_path / "task" / "tests").mkdir(exist_ok=True)
        (tmp_path / "task" / "tests" / "test.sh").touch()
        (tmp_path / "task" / "instruction.md").touch()
        (tmp_path / "task" / "task.toml").write_text(settings)
        return read_task(tmp_path / "task")

    return write


def tree(root: Path) -> dict[str, str | None]:
    """Content of each file, the text of each link, None for a folder."""
    found: dict[str, str | None] = {}
    for path in sorted(root.rglob("*")):
        name = str(path.relative_to(root))
        if path.is_symlink():
            found[name] = "-> " + os.readlink(path)  # noqa: PTH115 - keeps the last slash
        else:
            found[name] = path.read_text() if path.is_file() else None
    return found


def build_message(task: Task, root: Path, limits: Limits | None = None) -> str:
    with pytest.raises(TaskError) as caught:
        build(task, root, limits=limits)
    place = f"{task.plan.file}, line "
    assert str(caught.value).startswith(place)
    return str(caught.value).removeprefix(place)


def test_copies(make: Make, tmp_path: Path) -> None:
    task = make(
        "WORKDIR /app\n"
        "COPY one ./\n"
        "COPY one two.txt\n"
        "COPY one /app/\n"
        "COPY one /app\n"
        "COPY folder /data\n"
        "COPY folder/*.txt texts/\n"
        "COPY [b-c]? [^x]* all/\n"
        "COPY --chmod=600 folder/sub modes\n",
        **{
            "one": "1",
            "bb": "bb",
            "folder/a.txt": "a",
            "folder/b.txt": "b",
            "folder/.hidden.txt": "h",
            "folder/sub/x": "x",
            "xenon": "no",
        },
    )
    context = tmp_path / "task" / "environment"
    (context / "folder" / "link").symlink_to("../../somewhere/")
    (context / "folder" / "a.txt").chmod(0o4751)
    os.utime(context / "folder" / "a.txt", (5, 5))
    build(task, tmp_path / "root")
    assert tree(tmp_path / "root") == {
        "app": None,
        "app/one": "1",
        "app/two.txt": "1",
        "app/all": None,
        "app/all/Dockerfile": (context / "Dockerfile").read_text(),
        "app/all/a.txt": "a",
        "app/all/b.txt": "b",
        "app/all/.hidden.txt": "h",
        "app/all/bb": "bb",
        "app/all/link": "-> ../../somewhere/",
        "app/all/one": "1",
        "app/all/sub": None,
        "app/all/sub/x": "x",
        "app/modes": None,
        "app/modes/x": "x",
        "app/texts": None,
        "app/texts/.hidden.txt": "h",
        "app/texts/a.txt": "a",
        "app/texts/b.txt": "b",
        "data": None,
        "data/.hidden.txt": "h",
        "data/a.txt": "a",
        "data/b.txt": "b",
        "data/link": "-> ../../somewhere/",
        "data/sub": None,
        "data/sub/x": "x",
    }
    copied = (tmp_path / "root" / "data" / "a.txt").stat()
    assert stat.S_IMODE(copied.st_mode) == 0o751
    assert copied.st_mtime == 5
    assert stat.S_IMODE((tmp_path / "root" / "app" / "modes" / "x").stat().st_mode) == 0o600
    assert stat.S_IMODE((tmp_path / "root" / "app").stat().st_mode) == 0o755


def test_a_later_copy_wins_and_links_are_replaced_not_followed(make: Make, tmp_path: Path) -> None:
    task = make("COPY a /app/x\nCOPY b /app/x\nCOPY links /app\nCOPY a /app/l\n", a="a", b="b")
    links = tmp_path / "task" / "environment" / "links"
    links.mkdir()
    (tmp_path / "outside").write_text("outside")
    (links / "l").symlink_to(tmp_path / "outside")
    build(task, tmp_path / "root")
    assert tree(tmp_path / "root") == {"app": None, "app/x": "b", "app/l": "a"}
    assert (tmp_path / "outside").read_text() == "outside"


def test_a_source_may_be_a_link_inside_the_context(make: Make, tmp_path: Path) -> None:
    task = make("COPY file-link folder-link /app/\n", **{"real/x": "x"})
    context = tmp_path / "task" / "environment"
    (context / "file-link").symlink_to("real/x")
    (context / "folder-link").symlink_to("real")
    build(task, tmp_path / "root")
    assert tree(tmp_path / "root") == {"app": None, "app/file-link": "x", "app/x": "x"}


def test_run_steps_come_at_their_place(make: Make, tmp_path: Path) -> None:
    task = make("COPY a /app/\nRUN one\nCOPY a /app/b\nRUN two", a="a")
    seen: list[tuple[str, bool]] = []

    def run(step: Run) -> None:
        seen.append((step.text, (tmp_path / "root" / "app" / "b").exists()))

    build(task, tmp_path / "root", run=run)
    assert seen == [("one", False), ("two", True)]


def test_a_link_that_run_left_leads_nowhere(make: Make, tmp_path: Path) -> None:
    (tmp_path / "outside").mkdir()

    def run(step: Run) -> None:
        (tmp_path / "root" / "app" / "out").symlink_to(tmp_path / "outside")

    task = make("WORKDIR /app\nRUN x\nCOPY a out/", a="a")
    with pytest.raises(TaskError) as caught:
        build(task, tmp_path / "root", run=run)
    assert str(caught.value) == (
        f"{task.plan.file}, line 4: found out on the way to its target (Not a directory). "
        "Allowed: folders, not links or files. Use the real folder's path."
    )
    assert list((tmp_path / "outside").iterdir()) == []


@pytest.mark.parametrize(
    ("dockerfile", "expected"),
    [
        (
            "COPY none /app/",
            "2: found nothing that none names. Allowed: files of environment/. "
            "Put the file there, or remove the instruction.",
        ),
        (
            "COPY [z-a]* /app/",
            "2: found nothing that [z-a]* names. Allowed: files of environment/. "
            "Put the file there, or remove the instruction.",
        ),
        (
            "COPY out /app/",
            "2: found out, a link that leads out of environment/. Allowed: files inside "
            "environment/. Replace the link by what it leads to.",
        ),
        (
            "COPY up/task/environment/../x /app/",
            "",
        ),
        (
            "COPY up/secret /app/",
            "2: found secret, a link that leads out of environment/. Allowed: files inside "
            "environment/. Replace the link by what it leads to.",
        ),
        (
            "COPY dangling /app/",
            "2: found nowhere, which cannot be read (No such file or directory). Allowed: files "
            "that can be read. Give yourself the right to read it.",
        ),
        (
            "COPY special /app/",
            "2: found pipe, which is no regular file. Allowed: regular files, folders and "
            "symbolic links. Remove it from environment/.",
        ),
        (
            "COPY a /app/d/x\nCOPY a /app/\nCOPY a /app/a/b",
            "4: found a on the way to its target (Not a directory). Allowed: folders, not links "
            "or files. Use the real folder's path.",
        ),
        (
            "COPY a /app/d/x\nCOPY files /app",
            "3: found a folder at d, where a file goes. Allowed: files over files. "
            "Rename one of the two.",
        ),
        (
            "COPY a /app/" + "n" * 300,
            f"2: found the name {'n' * 79}… (File name too long). Allowed: names that the file "
            "system takes. Rename it.",
        ),
        (
            "WORKDIR /app/" + "n" * 300,
            f"2: found the name {'n' * 79}… (File name too long). Allowed: names that the file "
            "system takes. Rename it.",
        ),
        (
            "COPY deep /app",
            "2: found folders deeper than 100. Allowed: 100 folders inside each other. "
            "Move the deepest ones up.",
        ),
    ],
)
def test_refused_copies(make: Make, tmp_path: Path, dockerfile: str, expected: str) -> None:
    if not expected:
        with pytest.raises(TaskError, match=r"without \.\."):
            make(dockerfile)
        return
    task = make(dockerfile, **{"a": "a", "files/d": "d"})
    context = tmp_path / "task" / "environment"
    (tmp_path / "secret").write_text("s")
    (context / "out").symlink_to("/etc")
    (context / "up").symlink_to("../..")
    (context / "dangling").symlink_to("nowhere")
    (context / "special").mkdir()
    os.mkfifo(context / "special" / "pipe")
    (context / "deep" / "/".join("d" * 102)).mkdir(parents=True)
    assert build_message(task, tmp_path / "root") == expected
    assert not (tmp_path / "root" / "app" / "secret").exists()


def test_too_much(make: Make, tmp_path: Path) -> None:
    task = make("COPY . /app", "environment.storage_mb = 1", a="a" * 600_000, b="b" * 600_000)
    end = "files and folders. Copy less, or raise storage_mb in task.toml."
    assert build_message(task, tmp_path / "one") == (
        f"2: found more files than a task may bring. Allowed: 1048576 bytes in 100000 {end}"
    )
    assert build_message(task, tmp_path / "two", limits=Limits(entries=2)) == (
        f"2: found more files than a task may bring. Allowed: 2147483648 bytes in 2 {end}"
    )
    build(task, tmp_path / "three", limits=Limits(entries=3))


def test_a_root_with_content_is_left_alone(make: Make, tmp_path: Path) -> None:
    (tmp_path / "root").mkdir()
    (tmp_path / "root" / "mine").touch()
    with pytest.raises(TaskError) as caught:
        build(make("WORKDIR /app"), tmp_path / "root")
    assert str(caught.value) == (
        f"{tmp_path}/root: found a folder with content. Allowed: an empty folder for the task's "
        "files. Empty it, or name another one."
    )


def test_no_descriptor_is_left_open(make: Make, tmp_path: Path) -> None:
    task = make("COPY folder /app\nCOPY none /app/", **{"folder/sub/x": "x"})
    before = len(list(Path("/proc/self/fd").iterdir()))
    build_message(task, tmp_path / "root")
    assert len(list(Path("/proc/self/fd").iterdir())) == before
