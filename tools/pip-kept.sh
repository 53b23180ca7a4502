# Sourced by scripts that install Python packages which a list locks. VETRO_CACHE_DIR, where it is set, keeps what was
# fetched or built, not pip's own cache: what that keeps depends on the headers of the index.

# pip_of PYTHON COMMAND ARGUMENT...
pip_of() {
  "$1" -m pip "$2" -q --disable-pip-version-check "${@:3}" 2> >(grep -v '^WARNING: Location' >&2)
}

# pip_install_kept PYTHON FETCH ARGUMENT...: FETCH is `download`, or `wheel` for what is built here.
pip_install_kept() {
  local python=$1 fetch=$2 wheels="${VETRO_CACHE_DIR:-}/wheels" where=--dest
  shift 2
  if [ -z "${VETRO_CACHE_DIR:-}" ]; then
    pip_of "$python" install --no-compile "$@"
    return
  fi
  [ "$fetch" = download ] || where=--wheel-dir
  mkdir -p "$wheels"
  pip_of "$python" install --no-compile --no-index --find-links "$wheels" "$@" 2>/dev/null || {
    pip_of "$python" "$fetch" --find-links "$wheels" "$where" "$wheels" "$@" >/dev/null
    pip_of "$python" install --no-compile --no-index --find-links "$wheels" "$@"
  }
}
