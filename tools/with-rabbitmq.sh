#!/usr/bin/env bash
# Runs a command with a throw-away RabbitMQ broker: VETRO_TEST_RABBITMQ_URL names it, ..._MANAGEMENT its
# management API, ..._TLS_PORT and ..._CA its port for TLS and the certificate behind it. ..._HOME is its directory:
# `pid` there is its process, `start` starts it again after that was killed. Nothing is left behind.
set -euo pipefail
. "$(dirname "$0")/foreground.sh"
server=/usr/lib/rabbitmq/bin/rabbitmq-server
if [ ! -x "$server" ]; then
  if [ "${CI:-}" = true ]; then
    echo "RabbitMQ is not installed, and CI runs every test: apt-get install rabbitmq-server" >&2
    exit 1
  fi
  echo "RabbitMQ is not installed: its tests are skipped." >&2
  exec "$@"
fi
run_as=()
if [ "$(id -u)" = 0 ]; then
  run_as=(setpriv --reuid rabbitmq --regid rabbitmq --init-groups --)
fi
broker= epmd=
cleanup() {
  # Whoever started it last. While it runs, epmd does not end. It goes with all it has: seven seconds for an end in
  # good order would be for nothing.
  last=$(cat "$root/pid" 2>/dev/null || true)
  kill -KILL $last $broker 2>/dev/null || true
  wait $broker 2>/dev/null || true
  for _ in $(seq 120); do
    [ -n "$last" ] && kill -0 "$last" 2>/dev/null || break
    sleep 0.25
  done
  ERL_EPMD_PORT=$epmd epmd -kill >/dev/null 2>&1 || true
  rm -rf "$root"
}
own "${TMPDIR:-/tmp}" rabbitmq
chmod 755 "$root"
[ ${#run_as[@]} = 0 ] || chown rabbitmq "$root"
port=$(free_port)
tls=$(free_port)
management=$(free_port)
epmd=$(free_port)
openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=localhost -keyout "$root/key.pem" -out "$root/ca.pem" \
  -addext "subjectAltName=IP:127.0.0.1,DNS:localhost" 2>/dev/null
chmod 644 "$root/key.pem"
echo "[rabbitmq_management]." > "$root/enabled_plugins"
cat > "$root/rabbitmq.conf" <<CONF
listeners.tcp.1 = 127.0.0.1:$port
listeners.ssl.1 = 127.0.0.1:$tls
ssl_options.certfile = $root/ca.pem
ssl_options.keyfile = $root/key.pem
management.tcp.ip = 127.0.0.1
management.tcp.port = $management
log.console = false
log.file.level = warning
vm_memory_high_watermark.relative = 0.2
disk_free_limit.absolute = 50MB
CONF
# A node of its own: no name, no port and no directory is shared with a broker of the machine. Erlang's
# register of nodes (epmd) is started with it, on a port of its own too, and outlives it unless ended.
cat > "$root/start" <<START
#!/bin/sh
exec env -i PATH="$PATH" HOME="$root" LANG=C.UTF-8 \\
  RABBITMQ_NODENAME="vetro-$port@localhost" \\
  RABBITMQ_CONFIG_FILE="$root/rabbitmq.conf" \\
  RABBITMQ_BASE="$root" RABBITMQ_MNESIA_BASE="$root/mnesia" RABBITMQ_LOG_BASE="$root/log" \\
  RABBITMQ_ENABLED_PLUGINS_FILE="$root/enabled_plugins" \\
  RABBITMQ_PID_FILE="$root/pid" \\
  RABBITMQ_DIST_PORT="$(free_port)" \\
  ERL_EPMD_PORT="$epmd" ERL_EPMD_ADDRESS=127.0.0.1 \\
  RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS="+S 1:1 +sbwt none" \\
  ${run_as[*]} "$server"
START
chmod 755 "$root/start"
"$root/start" > "$root/out" 2>&1 {lock}<&- &
broker=$!
ready() {
  python3 - "$port" <<'PYTHON'
import socket
import sys

with socket.create_connection(("127.0.0.1", int(sys.argv[1])), 5) as connection:
    connection.sendall(b"AMQP\x00\x00\x09\x01")
    sys.exit(not connection.recv(1))
PYTHON
}
for _ in $(seq 240); do
  if ready 2>/dev/null; then
    break
  fi
  if ! kill -0 "$broker" 2>/dev/null; then
    break
  fi
  sleep 0.5
done
if ! ready 2>/dev/null; then
  echo "RabbitMQ did not start:" >&2
  cat "$root/out" >&2
  tail -n 30 "$root"/log/*.log >&2 || true
  exit 1
fi
export VETRO_TEST_RABBITMQ_URL="amqp://guest:guest@127.0.0.1:$port/"
export VETRO_TEST_RABBITMQ_MANAGEMENT="http://127.0.0.1:$management"
export VETRO_TEST_RABBITMQ_TLS_PORT="$tls" VETRO_TEST_RABBITMQ_CA="$root/ca.pem" VETRO_TEST_RABBITMQ_HOME="$root"
guarded "$@"
