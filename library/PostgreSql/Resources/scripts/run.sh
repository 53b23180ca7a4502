#!/bin/sh
# run.sh HOST PORT DATABASE USER PASSWORD SQL: runs SQL there and prints what comes back.
set -eu
if ! command -v psql >/dev/null 2>&1; then
  export DEBIAN_FRONTEND=noninteractive
  apt-get update -qq
  apt-get install -y -qq --no-install-recommends postgresql-client
fi
export PGPASSWORD=$5 PGCONNECT_TIMEOUT=30
printf '%s\n' "$6" | psql -qAtX -v ON_ERROR_STOP=1 -h "$1" -p "$2" -U "$4" "$3"
