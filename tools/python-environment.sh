#!/usr/bin/env bash
# Makes the virtual environment: `python-environment.sh PYTHON VENV`. Versions are locked by constraints.txt, and
# their files by hashes.txt, which tools/write_hashes.sh writes (docs/decisions/0256).
set -euo pipefail
python=$1 venv=$2
"$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' || {
  echo "Python 3.11 or newer is needed; $python is $("$python" -V 2>&1). Set PYTHON=/path/to/python3.11." >&2
  exit 1
}
[ -x "$venv/bin/python" ] || "$python" -m venv "$venv"
echo "Installing the Python packages into $venv"
pip() {
  "$venv/bin/python" -m pip "$1" -q --disable-pip-version-check "${@:2}" 2> >(grep -v '^WARNING: Location' >&2)
}
pip install --require-hashes -r hashes.txt
pip install --no-deps --no-build-isolation -e .
# A requirement of pyproject.toml that hashes.txt does not have was not installed.
pip check || { echo "Run tools/write_hashes.sh: hashes.txt is older than pyproject.toml." >&2; exit 1; }
# Imports then read compiled code from the first run on, also where PYTHONDONTWRITEBYTECODE is set.
"$venv/bin/python" -m compileall -q src/vetro || true
