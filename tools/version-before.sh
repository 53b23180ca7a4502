#!/usr/bin/env bash
# Writes src and library of the last commit before the newest migration to a directory: `version-before.sh DIRECTORY`.
# A rolling upgrade is tested from there. It needs the history of this tree: `git fetch --unshallow`.
set -euo pipefail
top=$(cd "$(dirname "$0")/.." && pwd)
newest=$(git -C "$top" log -1 --diff-filter=A --format=%H -- 'src/vetro/*/migrations/0*.py')
git -C "$top" rev-parse --quiet --verify "$newest^" > /dev/null || {
  echo "The version before is not in this tree's history: git fetch --unshallow" >&2
  exit 1
}
mkdir -p "$1"
git -C "$top" archive "$newest^" src library | tar --extract --directory="$1"
