#!/usr/bin/env bash
# install.sh PYTHON VENV CONSTRAINTS: makes the environment and installs the project into it, editable.
set -euo pipefail
python=$1 venv=$2 constraints=$3

# An environment of another Python, or one whose Python has gone, is made anew.
version_of() { "$1" -c 'import sys; print(sys.version_info[:2])' 2>/dev/null; }
if [ -e "$venv" ] && [ "$(version_of "$venv/bin/python")" != "$(version_of "$python")" ]; then
  echo "$venv has another Python than $python: it is made anew"
  rm -rf "$venv"
fi
[ -e "$venv" ] || "$python" -m venv "$venv"

started=$SECONDS
echo "installing into $venv ($("$venv/bin/python" -V), $constraints) ..."
"$venv/bin/python" -m pip install -qq --disable-pip-version-check -c "$constraints" -e ".[dev]"
echo "installed in $((SECONDS - started)) s"
