#!/usr/bin/env bash
# Prints the newest Python of this machine that Vetro supports: on PATH, or among those that pyenv keeps.
set -euo pipefail
shopt -s nullglob
for version in 3.13 3.12 3.11; do
  for python in $(type -ap "python$version" || true) "${PYENV_ROOT:-$HOME/.pyenv}"/versions/$version.*/bin/python3; do
    # A shim of pyenv is there for every version and runs only those that are switched on.
    if "$python" -c 'import ssl, sqlite3' 2>/dev/null; then
      echo "$python"
      exit 0
    fi
  done
done
echo "There is no Python from 3.11 to 3.13 here." >&2
exit 1
