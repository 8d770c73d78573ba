#!/usr/bin/env bash
# run_tsan.sh <build folder> <test executable>…: runs tests that were built with ThreadSanitizer.
# Fixed addresses: g++ 12's ThreadSanitizer refuses the wide address randomisation of newer kernels.
set -eu
build=$1
shift
export TSAN_OPTIONS="halt_on_error=1:second_deadlock_stack=1:${TSAN_OPTIONS:-}"
status=0
for name in "$@"; do
  setarch "$(uname -m)" -R "$build/bin/$name" --gtest_brief=1 || status=1
done
exit $status
