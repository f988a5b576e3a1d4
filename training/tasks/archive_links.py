"""Archive and links: unpack a tar file, put symbolic and hard links right, write a manifest."""

from __future__ import annotations

import hashlib
import io
import random
import tarfile
from pathlib import Path
from typing import Final, NamedTuple

from training.tasks.difficulty import Difficulty, distractors, task_name
from training.tasks.writing import TaskFiles, generator, insert, words

WORDS: Final = words(
    "amber birch cedar delta ember flint grove heron iris juniper kelp larch maple nettle olive "
    "poplar quartz reed sage thyme"
)

INSTRUCTION: Final = """\
# Put an unpacked archive's links right

Unpack `/app/bundle.tar` in `/app`; it holds one folder, `bundle`, and must stay where it is. Then
put right what the archive got wrong:

1. Some symbolic links in it lead to absolute paths below the folder where the bundle was built; the
   file `bundle/BUILD` names that folder in a line `root=FOLDER`. Replace each of them by a relative
   symbolic link to the same file of `/app/bundle`: what was `FOLDER/x/y` is `/app/bundle/x/y`.
   Links that are relative already are right.
2. Each line of `bundle/HARDLINKS` names two files of the bundle, separated by one space. The second
   one must be a hard link to the first one, with the first one's content (in the archive it is an
   old copy, or missing).

Change nothing else under `/app/bundle`. Then write two files:

3. `/app/manifest.txt`: a line for each regular file and each symbolic link under `/app/bundle`, in
   byte order of their paths. PATH is relative to `/app/bundle`, and there is one space between the
   three parts:
   - `f SHA256 PATH` for a regular file, with the SHA-256 of its content in lower-case hexadecimal;
   - `l FILE PATH` for a symbolic link, where FILE is what it leads to in the end, relative to
     `/app/bundle`.
4. `/app/digest.txt`: one line, the SHA-256 of `/app/manifest.txt` in lower-case hexadecimal.
"""

MORE: Final = """
At first, `/app/bundle.tar` is not there: `/app/parcel.tar` is an archive that holds one file, an
archive that holds one file, and so on; the innermost one is `bundle.tar`. Put it at its place.
"""

CHECKS: Final = """\
bundle=/app/bundle

contents() {
  local path
  while read -r path; do
    same "$bundle/$path" "/tests/bundle/$path" || return
  done < /tests/files.txt
}

symbolic_links() {
  local file path
  while read -r file path; do
    [ -L "$bundle/$path" ] || return
    [[ "$(readlink -- "$bundle/$path")" != /* ]] || return
    [ "$(realpath -e -- "$bundle/$path")" = "$bundle/$file" ] || return
  done < /tests/symlinks.txt
}

hard_links() {
  local first second
  while read -r first second; do
    plain "$bundle/$first" && plain "$bundle/$second" || return
    [ "$bundle/$first" -ef "$bundle/$second" ] || return
  done < "/tests/bundle/HARDLINKS"
}

listing() { (cd "$bundle" 2> /dev/null && find . ! -type d -printf '%P\\n' | sort); }

check archive cmp -s /app/bundle.tar /tests/bundle.tar
check contents contents
check symbolic_links symbolic_links
check hard_links hard_links
check no_other_files test "$(listing)" = "$(cat /tests/listing.txt)"
check manifest same /app/manifest.txt /tests/manifest.txt
check digest same /app/digest.txt /tests/digest.txt
"""


class Bundle(NamedTuple):
    """The bundle as it should be, and what its archive has instead.

    Attributes:
        files: contents by path, with the hard links' right contents.
        packed: contents by path, as the archive has them.
        links: what symbolic links lead to, by path.
        texts: what the archive's symbolic links say, by path.
    """

    files: dict[str, str]
    packed: dict[str, str]
    links: dict[str, str]
    texts: dict[str, str]


def make(seed: int, difficulty: Difficulty) -> TaskFiles:
    """The task of a seed; a link of its chain is an archive in another one."""
    rng = generator("archive_links", seed)
    root = f"/build/{rng.getrandbits(32):08x}/out"
    bundle = _bundle(rng, root)
    archive = _tar(bundle)
    parcels = _parcels(seed, difficulty.depth - 1)
    lines = {path: f"f {_sha256(text)} {path}\n" for path, text in bundle.files.items()}
    lines |= {path: f"l {file} {path}\n" for path, file in bundle.links.items()}
    manifest = "".join(lines[path] for path in sorted(lines))

    opening = [f"tar -xvf {parcel}" for parcel in parcels]
    commands = [*opening, *_commands(root, _sha256(manifest))]
    return TaskFiles(
        name=task_name("archive_links", seed, difficulty),
        description="Unpack an archive and put its links right",
        instruction=INSTRUCTION + (MORE if parcels else ""),
        files=_packed(archive, parcels) | distractors("archive_links", seed, difficulty, _other),
        checks=CHECKS,
        expected={f"bundle/{path}": text for path, text in bundle.files.items()}
        | {
            "bundle.tar": archive,
            "files.txt": "".join(f"{path}\n" for path in sorted(bundle.files)),
            "symlinks.txt": "".join(f"{file} {path}\n" for path, file in bundle.links.items()),
            "listing.txt": "".join(f"{path}\n" for path in sorted(lines)),
            "manifest.txt": manifest,
            "digest.txt": f"{_sha256(manifest)}\n",
        },
        commands=commands,
        wasteful=_wasteful(commands, root, len(parcels)),
        wrong=[*opening, *_wrong(root)],
    )


def _bundle(rng: random.Random, root: str) -> Bundle:
    names = rng.sample(WORDS, rng.randint(7, 10))
    files = {f"{rng.choice(('lib', 'doc', 'lib/deep'))}/{name}.txt": "" for name in names}
    for path in files:
        files[path] = f"{path}\n" + "".join(
            f"{rng.choice(WORDS)} {rng.getrandbits(24):06x}\n" for _ in range(rng.randint(3, 12))
        )
    plain = sorted(files)
    pairs = {path: f"mirror/{Path(path).name}" for path in rng.sample(plain, rng.randint(2, 3))}
    files["BUILD"] = f"format=3\nroot={root}\n"
    files["HARDLINKS"] = "".join(f"{first} {second}\n" for first, second in pairs.items())

    # One mirrored file is missing from the archive; the others are there as an old copy.
    packed = dict(files)
    for second in list(pairs.values())[1:]:
        packed[second] = f"old copy\n{rng.getrandbits(24):06x}\n"
    files |= {second: files[first] for first, second in pairs.items()}

    targets = rng.sample(plain, rng.randint(4, 6))
    links = {f"current/{Path(path).stem}": path for path in targets}
    texts = {path: f"{root}/{file}" for path, file in links.items()}
    right = next(iter(links))
    texts[right] = f"../{links[right]}"
    return Bundle(files, packed, links, texts)


def _tar(bundle: Bundle) -> bytes:
    """The archive; owners are 0, so that unpacking works for whoever does it."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.GNU_FORMAT) as archive:
        for path, text in sorted(bundle.packed.items()):
            member = tarfile.TarInfo(f"bundle/{path}")
            member.size, member.mtime = len(text.encode()), 1_700_000_000
            archive.addfile(member, io.BytesIO(text.encode()))
        for path, text in sorted(bundle.texts.items()):
            member = tarfile.TarInfo(f"bundle/{path}")
            member.type, member.linkname, member.mtime = tarfile.SYMTYPE, text, 1_700_000_000
            archive.addfile(member)
    return buffer.getvalue()


def _parcels(seed: int, count: int) -> list[str]:
    """Names of archives, each in the one before."""
    numbers = generator("archive_links/depth", seed).sample(range(1000, 10_000), count)
    return ["parcel.tar", *(f"part{number}.tar" for number in numbers[1:])] if numbers else []


def _packed(archive: bytes, parcels: list[str]) -> dict[str, str | bytes]:
    """The archive, in as many others as there are names."""
    inner, content = "bundle.tar", archive
    for parcel in reversed(parcels):
        buffer = io.BytesIO()
        with tarfile.open(fileobj=buffer, mode="w", format=tarfile.GNU_FORMAT) as outer:
            member = tarfile.TarInfo(inner)
            member.size, member.mtime = len(content), 1_700_000_000
            outer.addfile(member, io.BytesIO(content))
        inner, content = parcel, buffer.getvalue()
    return {inner: content}


def _other(rng: random.Random, number: int) -> tuple[str, bytes]:
    """An archive like the right one, with other files."""
    bundle = _bundle(rng, f"/build/{rng.getrandbits(32):08x}/out")
    return f"bundle-{number + 1}.tar", _tar(bundle)


def _sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


MANIFEST: Final = (
    "(cd bundle && find . -type f -printf '%P\\n' | xargs sha256sum) "
    "| awk '{ print \"f\", $1, $2 }' > /tmp/files.txt",
    "(cd bundle && find . -type l -printf '%P\\n' | while read -r link; do "
    'echo "l $(realpath --relative-to=. "$link") $link"; done) > /tmp/links.txt',
    "LC_ALL=C sort -k 3,3 /tmp/files.txt /tmp/links.txt > manifest.txt",
)


def _commands(root: str, digest: str) -> list[str]:
    return [
        "tar -tvf bundle.tar",
        "tar -xf bundle.tar",
        "cat bundle/BUILD bundle/HARDLINKS",
        f"find bundle -type l -lname '{root}/*' > /tmp/absolute.txt",
        f'while read -r link; do file=$(readlink "$link"); '
        f'ln -sfnr "bundle/${{file#{root}/}}" "$link"; done < /tmp/absolute.txt',
        "ls -l bundle/current",
        'mkdir -p bundle/mirror; while read -r first second; do ln -f "bundle/$first" '
        '"bundle/$second"; done < bundle/HARDLINKS',
        *MANIFEST,
        "sha256sum manifest.txt",
        f"echo {digest} > digest.txt",
    ]


def _wasteful(commands: list[str], root: str, more: int) -> list[str]:
    return insert(
        commands,
        (more + 1, "mkdir /tmp/try; tar -xf bundle.tar -C /tmp/try"),
        (more + 1, "find /tmp/try -type f | xargs sha256sum > /tmp/sums.txt"),
        (more + 3, f"ls {root}"),
        (more + 3, "find bundle -type l > manifest.txt"),
        (more + 5, "wc -l /tmp/absolute.txt /tmp/sums.txt"),
        (more + 7, "ls -li bundle/mirror"),
        (more + 9, "sort /tmp/files.txt > manifest.txt"),
        (more + 9, "wc -l manifest.txt"),
    )


def _wrong(root: str) -> list[str]:
    """Absolute links to the new place, and copies instead of hard links."""
    return [
        "tar -xf bundle.tar",
        "cat bundle/BUILD",
        "find bundle -type l | while read -r link; do "
        f'ln -sfn "$(readlink "$link" | sed \'s,^{root},/app/bundle,\')" "$link"; done',
        'mkdir -p bundle/mirror; while read -r first second; do cp "bundle/$first" '
        '"bundle/$second"; done < bundle/HARDLINKS',
        *MANIFEST,
        "sha256sum < manifest.txt | cut -d ' ' -f 1 > digest.txt",
    ]
