#!/usr/bin/env bash
# What the project needs from the system: to run, or with the argument "test" to run its tests too,
# which open pages in a browser. Where we are root on Debian, what is missing is installed; elsewhere
# the names are printed. Silent when everything is there.
#   PYTHON=python3 scripts/system-packages.sh [test]
set -euo pipefail
python=${PYTHON:-python3}
purpose=${1:-run}
case $purpose in
  run | test) ;;
  *)
    echo "system-packages.sh: found the argument \"$purpose\". Allowed: none, run or test. Leave it out to only run." >&2
    exit 2
    ;;
esac

missing=()
# Debian's python3 comes without ensurepip, so it cannot make environments by itself.
"$python" -c 'import ensurepip, venv' 2>/dev/null ||
  missing+=("$("$python" -c 'import sys; print("python%d.%d-venv" % sys.version_info[:2])' 2>/dev/null || echo python3-venv)")
# What watches a terminal; util-linux and its unshare are on every Debian system.
command -v strace >/dev/null || missing+=(strace)
if [ "$purpose" = test ]; then
  # What tasks of ours use beyond the base system.
  for program in git jq sqlite3; do
    command -v "$program" >/dev/null || missing+=("$program")
  done
  # The names that tests/browser.py looks for. Without any font, pages would show no letters.
  browser=$(command -v google-chrome || command -v chromium || command -v chromium-browser || true)
  if [ -z "$browser" ] || ! command -v chromedriver >/dev/null; then
    [ -n "$browser" ] || missing+=(chromium)
    missing+=(chromium-driver fonts-dejavu-core)
  fi
fi
[ ${#missing[@]} -eq 0 ] && exit 0

# Another apt may be at work: then its lock is waited for. Other failures are final at once.
apt() {
  local said
  for _ in {1..30}; do
    said=$(apt-get "$@" 2>&1) && return 0
    grep -qi 'could not get lock\|unable to lock' <<<"$said" || break
    sleep 5
  done
  echo "$said" >&2
  return 1
}

if [ "$(id -u)" = 0 ] && [ -f /etc/debian_version ] && command -v apt-get >/dev/null; then
  echo "installing system packages: ${missing[*]}"
  export DEBIAN_FRONTEND=noninteractive
  apt update -qq
  apt install -y -qq --no-install-recommends "${missing[@]}"
else
  echo "Please install these system packages (Debian's names), then run again: ${missing[*]}" >&2
  exit 1
fi
