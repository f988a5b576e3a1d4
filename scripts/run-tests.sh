#!/usr/bin/env bash
# Runs every test in groups, cheap ones first, and prints each group's time. All groups run even if
# one fails. A test file that no group names belongs to "kernels", so none can be forgotten.
#   PYTHON=.venv/bin/python scripts/run-tests.sh [pytest arguments]
set -uo pipefail
cd "$(dirname "$0")/.."
python=${PYTHON:-.venv/bin/python}
export PYTHONUNBUFFERED=1

host=() training=() commands=() pages=() tracer=() kernels=()
while IFS= read -r file; do
  case $(basename "$file") in
    test_tracer*|test_sandbox*|test_doctor*|test_task*|test_cli_trac*|test_cli_task*|\
    test_reuse*|test_replay*|test_cli_replay*)
      tracer+=("$file") ;;
    test_errors*|test_trace*|test_schema*|test_ownership*|test_line_map*|test_oracle*|test_package*)
      host+=("$file") ;;
    test_browser*|test_page*|test_report*|test_plot*|test_notebook*|test_why*|test_explain*)
      pages+=("$file") ;;
    test_cli*|test_docs*|test_demo*|test_benchmarks*|test_examples*) commands+=("$file") ;;
    test_training*|test_policy*|test_objectives*|test_rows*|test_update*) training+=("$file") ;;
    *) kernels+=("$file") ;;
  esac
done < <(find tests -name 'test_*.py' | sort)

failed=() table=()
group() {
  local name=$1 started=$SECONDS
  shift
  echo
  echo "== tests: $name"
  if "$python" -m pytest -q "$@"; then status=passed; else status=FAILED failed+=("$name"); fi
  table+=("$(printf '%-10s %-7s %4d s' "$name" "$status" $((SECONDS - started)))")
}

[ ${#host[@]} -eq 0 ] || group host "${host[@]}" "$@"
[ ${#tracer[@]} -eq 0 ] || group tracer "${tracer[@]}" "$@"
[ ${#kernels[@]} -eq 0 ] || group kernels "${kernels[@]}" "$@"
[ ${#training[@]} -eq 0 ] || group training "${training[@]}" "$@"
[ ${#commands[@]} -eq 0 ] || group commands "${commands[@]}" "$@"
[ ${#pages[@]} -eq 0 ] || group pages "${pages[@]}" "$@"
group docstrings --doctest-modules depgpo_jax -p no:xdist

echo
echo "== $("$python" -V)"
printf '%s\n' "${table[@]}"
if [ ${#failed[@]} -gt 0 ]; then
  echo "failed: ${failed[*]}"
  exit 1
fi
