#!/usr/bin/env bash
# Puts the Debian packages of one directory of apt into another that lacks them: `keep-archives.sh FROM TO`.
# They are links where both are on one file system: apt replaces its files and never writes into them.
set -euo pipefail
find "$1" -maxdepth 1 -name '*.deb' -exec cp --link --no-clobber --target-directory="$2" {} + 2>/dev/null \
  || find "$1" -maxdepth 1 -name '*.deb' -exec cp --no-clobber --preserve=timestamps --target-directory="$2" {} +
