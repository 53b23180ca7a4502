#!/usr/bin/env bash
# Installs the Python package for virtual machines into an environment: `vm-python.sh VENV`.
# It is compiled against the distribution's libvirt; without libvirt-dev there is nothing to do.
set -euo pipefail
venv=$1
"$venv/bin/python" -c 'import libvirt' 2>/dev/null && exit 0
if ! pkg-config --exists libvirt 2>/dev/null; then
  echo "Without libvirt-dev there are no virtual machines here (tools/system-packages.sh vm installs it)." >&2
  exit 0
fi
echo "Installing libvirt-python into $venv"
. "$(dirname "$0")/pip-kept.sh"
pip_install_kept "$venv/bin/python" wheel -c constraints.txt libvirt-python
