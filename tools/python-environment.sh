#!/usr/bin/env bash
# Makes the virtual environment: `python-environment.sh PYTHON VENV [run]`. Versions are locked by constraints.txt,
# and their files by hashes.txt, which tools/write_hashes.sh writes (docs/decisions/0256). With `run` only what
# Vetro runs with is installed, by hashes-run.txt (docs/decisions/0781).
set -euo pipefail
python=$1 venv=$2 purpose=${3:-all}
lock=hashes.txt
[ "$purpose" != run ] || lock=hashes-run.txt
"$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' || {
  echo "Python 3.11 or newer is needed; $python is $("$python" -V 2>&1). Set PYTHON=/path/to/python3.11." >&2
  exit 1
}
[ -x "$venv/bin/python" ] || "$python" -m venv "$venv"
echo "Installing the Python packages into $venv"
. "$(dirname "$0")/pip-kept.sh"
pip() { pip_of "$venv/bin/python" "$@"; }
# The lock names everything, so nothing is left to resolve; imports compile what is used. `pip check` looks below.
pip_install_kept "$venv/bin/python" download --no-deps --require-hashes -r "$lock"
pip install --no-deps --no-build-isolation -e .
# A requirement of pyproject.toml that the lock does not have was not installed.
pip check || { echo "Run tools/write_hashes.sh: $lock is older than pyproject.toml." >&2; exit 1; }
# Imports then read compiled code from the first run on, also where PYTHONDONTWRITEBYTECODE is set.
"$venv/bin/python" -m compileall -q src/vetro || true
