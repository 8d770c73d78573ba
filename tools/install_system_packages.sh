#!/usr/bin/env bash
# Installs GoogleTest from Debian. Without root the C++ tests are left out, and this says so.
set -eu
if [ "$(id -u)" != 0 ]; then
  echo "GoogleTest is missing, so the C++ tests are not built; as root: apt-get install libgtest-dev" >&2
  exit 0
fi
export DEBIAN_FRONTEND=noninteractive
apt-get update -qq
apt-get install -y -qq libgtest-dev
