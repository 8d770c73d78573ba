#!/usr/bin/env bash
# The fast checks, in seconds. Runs all of them and fails if any does. `--fix` formats instead of complaining.
set -u
cd "$(dirname "$0")/.."
PATH="$PWD/.venv/bin:$PATH"
fix=${1:-}
failed=0
step() {
  local name=$1
  shift
  if output=$("$@" 2>&1); then
    printf 'ok    %s\n' "$name"
    # check_size prints its totals also when all is well.
    case "$name" in sizes) printf '%s\n' "$output" ;; esac
  else
    printf 'FAIL  %s\n%s\n' "$name" "$output"
    failed=1
  fi
}
# Names the files that clang-format would change, not each place.
unformatted() {
  local files
  files=$(clang-format --dry-run --Werror "$@" 2>&1 | sed -n 's/^\([^ :]*\):[0-9].*clang-formatted.*/\1/p' | sort -u)
  [ -z "$files" ] || { printf '%s\n' "$files" "run \`make format\`"; return 1; }
}
mapfile -t cpp < <(git ls-files '*.cpp' '*.h')
mapfile -t cmake < <(git ls-files 'CMakeLists.txt' '*/CMakeLists.txt' '*.cmake')
if [ "$fix" = --fix ]; then
  step clang-format clang-format -i "${cpp[@]}"
  step gersemi gersemi --in-place "${cmake[@]}"
  step ruff-fix ruff check --fix --quiet .
  step ruff-format ruff format --quiet .
else
  step clang-format unformatted "${cpp[@]}"
  step gersemi gersemi --check "${cmake[@]}"
  step ruff ruff check --quiet .
  step ruff-format ruff format --check --quiet .
fi
step mypy mypy
step layers python tools/check_layers.py
step sizes python tools/check_size.py
step docs python tools/gen_docs.py --check passes options
exit $failed
