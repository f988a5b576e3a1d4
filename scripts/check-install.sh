#!/usr/bin/env bash
# check-install.sh BUILDER: builds sdist and wheel, then installs each into a fresh environment of every
# Python found, without extras and away from the checkout, and tries the command there.
set -euo pipefail
cd "$(dirname "$0")/.."
builder=$PWD/$1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

"$builder" -m build --outdir "$work/dist" . >"$work/build.log" 2>&1 || { cat "$work/build.log"; exit 1; }
wheel=$(echo "$work"/dist/*.whl) sdist=$(echo "$work"/dist/*.tar.gz)
ls -l "$wheel" "$sdist" | awk '{print $5, $NF}' | sed "s#$work/##"

stray=$("$builder" -m zipfile -l "$wheel" | awk 'NR > 1 {print $1}' | grep -vE '^depgpo_jax(/|-[0-9.]+\.dist-info/)' || true)
[ -z "$stray" ] || { echo "the wheel ships more than depgpo_jax: $stray"; exit 1; }

cp tests/golden/traces.jsonl "$work/traces.jsonl"
tried=0
for version in 3.11 3.12 3.13; do
  python=$(scripts/find-python.sh "$version") || { echo "Python $version: not found, left out"; continue; }
  constraints=$PWD/constraints/py${version/./}.txt
  for package in "$wheel" "$sdist"; do
    rm -rf "$work/venv"
    "$python" -m venv "$work/venv"
    "$work/venv/bin/python" -m pip install -qq --disable-pip-version-check -c "$constraints" "$package"
    (
      cd "$work"
      venv/bin/depgpo --version
      venv/bin/depgpo validate traces.jsonl
      venv/bin/depgpo credit traces.jsonl --advantage none --out credit.jsonl
      venv/bin/python -c "import depgpo_jax; [getattr(depgpo_jax, name) for name in depgpo_jax.__all__]"
      test "$(wc -l <credit.jsonl)" = "$(wc -l <traces.jsonl)"
      venv/bin/depgpo report traces.jsonl --advantage none --out report
      test -s report/index.html
      rm -r credit.jsonl report
    )
    echo "Python $version: $(basename "$package") installs and works"
    tried=$((tried + 1))
  done
done
[ "$tried" -gt 0 ] || { echo "no Python found to try the packages on"; exit 1; }
