#!/bin/sh
# balancer.sh PORT SERVER...: HAProxy at PORT, in front of the SERVERs at the same port.
set -eu
port=$1
shift
if ! command -v haproxy >/dev/null 2>&1; then
  export DEBIAN_FRONTEND=noninteractive
  apt-get update -qq
  apt-get install -y -qq --no-install-recommends haproxy
fi
if command -v apache2ctl >/dev/null 2>&1; then
  apache2ctl -k stop 2>/dev/null || true
fi
{
  echo 'global'
  echo '  daemon'
  echo '  pidfile /run/haproxy-vetro.pid'
  echo 'defaults'
  echo '  mode http'
  echo '  timeout connect 2s'
  echo '  timeout client 30s'
  echo '  timeout server 30s'
  echo 'frontend web'
  echo "  bind *:$port"
  echo '  default_backend servers'
  echo 'backend servers'
  echo '  balance roundrobin'
  echo '  option redispatch'
  number=0
  for server in "$@"; do
    number=$((number + 1))
    echo "  server web$number $server:$port check"
  done
} > /etc/haproxy/haproxy-vetro.cfg
haproxy -c -q -f /etc/haproxy/haproxy-vetro.cfg
# HAProxy may take a moment to end or to listen: what answers is asked.
answers() {
  python3 - "$port" <<'PYTHON'
import http.client
import sys
import time

problem = None
for attempt in range(100):
    try:
        asked = http.client.HTTPConnection("127.0.0.1", int(sys.argv[1]), timeout=10)
        asked.request("GET", "/")
        status = asked.getresponse().status
        if status in (200, 503):  # 503: HAProxy says that no server is well
            sys.exit(0)
        problem = "status %d" % status
    except (OSError, http.client.HTTPException) as error:
        problem = error
    time.sleep(0.1)
sys.exit("HAProxy does not answer at port %s: %s" % (sys.argv[1], problem))
PYTHON
}
if [ -s /run/haproxy-vetro.pid ] && kill -0 "$(cat /run/haproxy-vetro.pid)" 2>/dev/null; then
  haproxy -f /etc/haproxy/haproxy-vetro.cfg -sf "$(cat /run/haproxy-vetro.pid)"
  answers
else
  # Apache may take a moment to let go of the port.
  for attempt in 1 2 3 4 5 6 7 8 9 10; do
    if haproxy -f /etc/haproxy/haproxy-vetro.cfg; then answers; exit 0; fi
    sleep 0.5
  done
  echo "HAProxy could not listen on port $port" >&2
  exit 1
fi
