#!/usr/bin/env bash
# Writes constraints/pyXY.txt for each Python given: what really gets installed into a fresh
# environment, exact versions, and nothing about where it came from.
#   scripts/update-constraints.sh python3.11 python3.12 python3.13
set -euo pipefail
cd "$(dirname "$0")/.."

for python in "$@"; do
  tag=$("$python" -c 'import sys; print("py%d%d" % sys.version_info[:2])')
  work=$(mktemp -d)
  trap 'rm -rf "$work"' EXIT
  "$python" -m venv "$work/venv"
  "$work/venv/bin/python" -m pip install -qq --disable-pip-version-check -e ".[dev]"
  {
    echo "# $("$work/venv/bin/python" -V): a working set of versions, made by scripts/update-constraints.sh."
    "$work/venv/bin/python" -m pip freeze --disable-pip-version-check --exclude-editable |
      grep -E '^[A-Za-z0-9._-]+==[^ ]+$' | sort --ignore-case
  } >"constraints/$tag.txt"
  rm -rf "$work"
  trap - EXIT
  echo "constraints/$tag.txt: $(grep -c == "constraints/$tag.txt") packages"
done
