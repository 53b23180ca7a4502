#!/usr/bin/env bash
# Writes hashes.txt, the digests of every file of the releases that constraints.txt names, for every Python
# and platform, and hashes-run.txt, those of them that Vetro runs with: `write_hashes.sh [PYTHON]`.
# Run it when constraints.txt has changed (docs/decisions/0256 and 0781).
set -euo pipefail
cd "$(dirname "$0")/.."
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
"${1:-python3}" -m venv "$scratch/venv"
"$scratch/venv/bin/python" -m pip install -q --disable-pip-version-check uv 2> >(grep -v '^WARNING: Location' >&2)
# What builds the project itself is installed with the rest: a build environment of its own would have no digests.
printf 'hatchling\neditables\n' >"$scratch/build.in"
lock() {
  "$scratch/venv/bin/uv" pip compile -q --universal --python-version 3.11 --generate-hashes --no-header --no-annotate \
    "${@:2}" -c constraints.txt -o "$scratch/$1" pyproject.toml "$scratch/build.in"
  # One line a release, and none for systems that Vetro does not run on.
  sed -e ':join' -e '/\\$/{N;s/ *\\\n */ /;bjoin}' "$scratch/$1" |
    grep -v -e "== 'win32'" -e "== 'emscripten'" >"$1"
}
lock hashes.txt --extra dev
lock hashes-run.txt
