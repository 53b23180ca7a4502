# Sourced by scripts that make something for one command: it ends with them, however they end.

# `own PARENT NAME`: makes the directory $root. It is locked while this shell or its command lives: when it is not,
# tools/leftovers.py removes it. The function `cleanup` of the script is called at the end.
own() {
  local made
  made=$(mktemp -d "$1/.vetro-new.XXXXXX")
  exec {lock}< "$made"
  flock "$lock"
  root=$1/vetro-run.$2.${made##*.}
  mv "$made" "$root"
  # What runs now ends first. Who is impatient presses Ctrl-C again.
  trap 'exit 143' TERM HUP
  trap 'exit 130' INT
  trap 'trap "" INT TERM HUP; cleanup' EXIT
}

# A port that no connection of the machine takes meanwhile.
free_port() {
  python3 "$(dirname "${BASH_SOURCE[0]}")/../tests/ports.py"
}

# `guarded COMMAND...`: runs it and returns its status. Ctrl-C reaches it from the terminal; SIGTERM is handed on, and
# waited for: a shell does neither for a command in the foreground. ($signal: another one is sent.)
guarded() {
  local child status=0
  env --default-signal=INT,QUIT "$@" <&0 &
  child=$!
  trap 'kill -"${signal:-TERM}" "$child" 2>/dev/null || true' TERM HUP
  trap : INT
  wait "$child" || status=$?
  while kill -0 "$child" 2>/dev/null; do
    status=0
    wait "$child" || status=$?
  done
  return "$status"
}
