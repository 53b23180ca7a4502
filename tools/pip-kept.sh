# Sourced by scripts that install Python packages which a list locks. VETRO_CACHE_DIR (or `vetro/setup` in the user's
# cache directory) keeps what was fetched or built, not pip's own cache: what that keeps depends on the headers of the index.

# pip_of PYTHON COMMAND ARGUMENT...
pip_of() {
  "$1" -m pip "$2" -q --disable-pip-version-check "${@:3}" 2> >(grep -vE '^WARNING: (Location|Retrying)' >&2)
}

# pip_install_kept PYTHON FETCH ARGUMENT...: FETCH is `download`, or `wheel` for what is built here.
pip_install_kept() {
  local python=$1 fetch=$2 wheels="${VETRO_CACHE_DIR:-${XDG_CACHE_HOME:-$HOME/.cache}/vetro/setup}/wheels" where=--dest
  shift 2
  if ! mkdir -p "$wheels" 2>/dev/null || [ ! -w "$wheels" ]; then
    pip_of "$python" install --no-compile "$@" || not_fetched "$wheels"
    return
  fi
  [ "$fetch" = download ] || where=--wheel-dir
  pip_of "$python" install --no-compile --no-index --find-links "$wheels" "$@" 2>/dev/null || {
    pip_of "$python" "$fetch" --no-cache-dir --find-links "$wheels" "$where" "$wheels" "$@" >/dev/null || { not_fetched "$wheels"; return 1; }
    pip_of "$python" install --no-compile --no-index --find-links "$wheels" "$@"
  }
}

not_fetched() {
  echo "Python packages are missing in $1 and could not be fetched: run it again when the package index can be reached." >&2
  return 1
}
