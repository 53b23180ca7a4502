#!/usr/bin/env bash
# The clients of Murano in a virtual environment of their own, for the tests: `stock-clients.sh PYTHON VENV`.
# Versions are locked by stock-clients.txt.
set -euo pipefail
python=$1 venv=$2 list="$(dirname "$0")/stock-clients.txt"
cmp -s "$list" "$venv/.installed" && exit 0
echo "Installing the stock clients into $venv"
"$python" -m venv "$venv"
. "$(dirname "$0")/pip-kept.sh"
# Some are published as sources only, and a new environment of Debian's Python 3.11 has no package `wheel`:
# they are built in an environment of their own.
pip_install_kept "$venv/bin/python" wheel --use-pep517 --no-deps -r "$list"
cp "$list" "$venv/.installed"
