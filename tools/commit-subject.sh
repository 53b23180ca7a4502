#!/usr/bin/env bash
# Refuses a commit whose subject is longer than 72 characters or whose second line is not empty: `commit-subject.sh FILE`.
set -euo pipefail
subject=$(sed -n 1p "$1") second=$(sed -n 2p "$1")
[ "${#subject}" -le 72 ] || {
  echo "The subject has ${#subject} characters; at most 72. Move the why into the body." >&2
  exit 1
}
[ -z "$second" ] || [[ "$second" == \#* ]] || {
  echo "Leave the second line empty: the body begins on the third." >&2
  exit 1
}
