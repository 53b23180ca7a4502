#!/usr/bin/env bash
# Runs a command with a throw-away PostgreSQL server: VETRO_TEST_POSTGRES_URL names it. Nothing is left behind.
set -euo pipefail
. "$(dirname "$0")/foreground.sh"
bindir=$(ls -d /usr/lib/postgresql/*/bin 2>/dev/null | sort -V | tail -n 1 || true)
if [ -z "$bindir" ]; then
  if [ "${CI:-}" = true ]; then
    echo "PostgreSQL is not installed, and CI runs every test: apt-get install postgresql" >&2
    exit 1
  fi
  echo "PostgreSQL is not installed: its tests are skipped." >&2
  exec "$@"
fi
run_as=()
if [ "$(id -u)" = 0 ]; then
  run_as=(setpriv --reuid postgres --regid postgres --init-groups --)
fi
cleanup() {
  "${run_as[@]}" "$bindir/pg_ctl" -D "$root/data" -m immediate -w stop >/dev/null 2>&1 || true
  rm -rf "$root"
}
# In memory, where there is room: on ext4 the thousand databases of a run took a quarter of its processor time, as
# the file system looks through the inodes that were freed a moment ago.
parent=${TMPDIR:-/tmp}
read -r kind free < <(df --output=fstype,avail -k /dev/shm 2>/dev/null | tail -n 1) || true
[ "${kind:-}" != tmpfs ] || [ "${free:-0}" -lt 2000000 ] || parent=/dev/shm
own "$parent" postgres
[ ${#run_as[@]} = 0 ] || chown postgres "$root"
port=$(free_port)
cd "$root"
"${run_as[@]}" "$bindir/initdb" -D "$root/data" -U vetro --auth=trust --encoding=UTF8 --locale=C >/dev/null
cat >> "$root/data/postgresql.conf" <<CONF
listen_addresses = '127.0.0.1'
port = $port
unix_socket_directories = '$root'
fsync = off
synchronous_commit = off
full_page_writes = off
max_connections = 300
CONF
"${run_as[@]}" "$bindir/pg_ctl" -D "$root/data" -l "$root/log" -w start >/dev/null {lock}<&-
cd - >/dev/null
export VETRO_TEST_POSTGRES_URL="postgresql://vetro@127.0.0.1:$port/postgres"
guarded "$@"
