#!/usr/bin/env bash
# find-python.sh 3.13: prints a working interpreter of that version, or fails.
# pyenv's shims exist for every version it knows, also where they would not run, so each is tried.
version=$1
candidates=("$(command -v "python$version")")
pyenv_root=${PYENV_ROOT:-$HOME/.pyenv}
for found in "$pyenv_root"/versions/"$version".*/bin/python"$version"; do candidates+=("$found"); done
for python in "${candidates[@]}"; do
  if [ -n "$python" ] && "$python" -c 'import ensurepip, venv' >/dev/null 2>&1; then
    echo "$python"
    exit 0
  fi
done
exit 1
