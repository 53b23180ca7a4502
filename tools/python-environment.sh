#!/usr/bin/env bash
# Makes the virtual environment: `python-environment.sh PYTHON VENV`. Versions are locked by constraints.txt.
set -euo pipefail
python=$1 venv=$2
"$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' || {
  echo "Python 3.11 or newer is needed; $python is $("$python" -V 2>&1). Set PYTHON=/path/to/python3.11." >&2
  exit 1
}
[ -x "$venv/bin/python" ] || "$python" -m venv "$venv"
echo "Installing the Python packages into $venv"
"$venv/bin/python" -m pip install -q --disable-pip-version-check -c constraints.txt -e '.[dev]' 2> >(grep -v '^WARNING: Location' >&2)
# Imports then read compiled code from the first run on, also where PYTHONDONTWRITEBYTECODE is set.
"$venv/bin/python" -m compileall -q src/vetro || true
