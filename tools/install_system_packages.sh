#!/usr/bin/env bash
# install_system_packages.sh python <interpreter> | tests | perf: installs from Debian what is missing to make a virtual
# environment and Python modules, to build the C++ tests, or to count the instructions of the compiler. Without root this says what to install, and goes on.
set -eu
missing=()
case "$1" in
  python)
    "$2" -c 'import ensurepip, venv' 2>/dev/null || missing+=(python3-venv)
    "$2" -c 'import os, sysconfig; os.stat(sysconfig.get_path("include") + "/Python.h")' 2>/dev/null ||
      missing+=(python3-dev)
    ;;
  tests)
    [ -e /usr/include/gtest/gtest.h ] || missing+=(libgtest-dev)
    ;;
  perf)
    command -v valgrind >/dev/null || missing+=(valgrind)
    ;;
esac
[ "${#missing[@]}" != 0 ] || exit 0
if [ "$(id -u)" != 0 ]; then
  echo "missing, install as root: apt-get install ${missing[*]}" >&2
  exit 0
fi
export DEBIAN_FRONTEND=noninteractive
apt-get update -qq
apt-get install -y -qq "${missing[@]}"
