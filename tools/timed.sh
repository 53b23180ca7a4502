#!/usr/bin/env bash
# Runs a step of set-up and says how long it took: `timed.sh TITLE COMMAND...`. Steps may run side by side.
set -uo pipefail
title=$1
shift
began=${EPOCHREALTIME/./}
"$@"
status=$?
ended=${EPOCHREALTIME/./}
tenths=$(((ended - began) / 100000))
# What was there already took no time, and is not worth a line.
[ "$status" != 0 ] || [ "$tenths" -lt 5 ] || echo "$title: $((tenths / 10)).$((tenths % 10)) s"
[ "$status" = 0 ] || echo "$title failed after $((tenths / 10)) s; see above." >&2
exit "$status"
