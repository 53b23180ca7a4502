#!/bin/sh
# HAProxy takes its configuration; one that runs hands its socket over and finishes what it is answering.
set -eu
config=/etc/haproxy/web.cfg pid=/run/haproxy-web.pid socket=/run/haproxy-web.sock
if ! command -v haproxy >/dev/null 2>&1; then
  export DEBIAN_FRONTEND=noninteractive
  apt-get update -qq
  apt-get install -y -qq --no-install-recommends haproxy >/dev/null
fi
haproxy -c -q -f "$config"
if [ -s "$pid" ] && kill -0 "$(cat "$pid")" 2>/dev/null; then
  exec haproxy -f "$config" -x "$socket" -sf "$(cat "$pid")"
fi
# An image of web servers runs one here as well; it may take a moment to let go of the port.
if command -v apache2ctl >/dev/null 2>&1; then
  apache2ctl -k stop 2>/dev/null || true
fi
for attempt in $(seq 20); do
  if haproxy -f "$config"; then exit 0; fi
  sleep 0.5
done
echo "HAProxy could not listen on port 80" >&2
exit 1
