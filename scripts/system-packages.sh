#!/usr/bin/env bash
# What the project needs from the system. Where we are root on Debian, what is missing is installed;
# elsewhere the names are printed. Silent when everything is there.
set -euo pipefail
python=${PYTHON:-python3}

missing=()
# Debian's python3 comes without ensurepip, so it cannot make environments by itself.
"$python" -c 'import ensurepip, venv' 2>/dev/null ||
  missing+=("$("$python" -c 'import sys; print("python%d.%d-venv" % sys.version_info[:2])' 2>/dev/null || echo python3-venv)")
[ ${#missing[@]} -eq 0 ] && exit 0

if [ "$(id -u)" = 0 ] && [ -f /etc/debian_version ] && command -v apt-get >/dev/null; then
  echo "installing system packages: ${missing[*]}"
  export DEBIAN_FRONTEND=noninteractive
  apt-get update -qq
  apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
else
  echo "Please install these system packages (Debian's names), then run again: ${missing[*]}" >&2
  exit 1
fi
