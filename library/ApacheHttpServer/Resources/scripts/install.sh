#!/bin/sh
# install.sh PORT PAGE: Apache serves PAGE at PORT. Installs Apache only where it is absent. The last word
# on standard output is the port.
set -eu
port=$1
page=$2
PATH=$PATH:/usr/sbin:/sbin

# Without a machine of its own (driver "process") port 80 may be for root alone, or somebody else's: then a
# free one takes its place, and keeps it as long as the instance lives.
if [ "${VETRO_DRIVER:-}" = process ] && [ "$port" = 80 ]; then
  port=$(python3 - "$HOME/port-for-80" "$HOME/stand-in/pid" "$HOME/apache/run/apache.pid" <<'PYTHON'
import os
import socket
import sys

kept, *owners = sys.argv[1:]


def can_be_had(port):
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
            probe.listen(1)  # where a port can be bound twice, only one may listen
        except OSError:
            return None
        return probe.getsockname()[1]


def serves(file):
    try:
        os.kill(int(open(file).read()), 0)
    except (OSError, ValueError):
        return False
    return True


had = int(open(kept).read()) if os.path.exists(kept) else 80
chosen = had if any(map(serves, owners)) else can_be_had(had) or can_be_had(80) or can_be_had(0)
with open(kept, "w") as file:
    file.write(str(chosen))
print(chosen)
PYTHON
  )
fi

# Without a machine of its own (driver "process") nothing is installed on somebody else's machine: where
# Apache is absent, Python's own server stands in for it.
if [ "${VETRO_DRIVER:-}" = process ] && ! command -v apache2 >/dev/null 2>&1; then
  root=$HOME/stand-in
  mkdir -p "$root/html"
  printf '%s\n' "$page" > "$root/html/index.html"
  if [ -s "$root/pid" ] && kill -0 "$(cat "$root/pid")" 2>/dev/null; then
    [ "$(cat "$root/port")" = "$port" ] && echo "$port" && exit 0
    kill "$(cat "$root/pid")"
  fi
  nohup python3 -m http.server "$port" --bind 127.0.0.1 --directory "$root/html" \
    > "$root/log" 2>&1 < /dev/null &
  echo $! > "$root/pid"
  echo "$port" > "$root/port"
  tries=0
  until python3 -c "import socket; socket.create_connection(('127.0.0.1', $port), 1)" 2>/dev/null; do
    kill -0 "$(cat "$root/pid")" 2>/dev/null || { cat "$root/log" >&2; exit 4; }
    tries=$((tries + 1))
    [ $tries -lt 100 ] || { echo "The server does not answer at port $port" >&2; exit 5; }
    sleep 0.1
  done
  echo "$port"
  exit 0
fi

if ! command -v apache2 >/dev/null 2>&1; then
  if [ "$(id -u)" != 0 ]; then
    echo "Apache is not installed here, and installing it needs root." >&2
    exit 3
  fi
  export DEBIAN_FRONTEND=noninteractive
  apt-get update -qq
  apt-get install -y -qq --no-install-recommends apache2
fi

if [ "$(id -u)" = 0 ] && [ -d /etc/apache2 ] && [ "${VETRO_DRIVER:-}" != process ]; then
  printf 'Listen %s\n' "$port" > /etc/apache2/ports.conf
  sed -i "s/<VirtualHost \*:[0-9]*>/<VirtualHost *:$port>/" /etc/apache2/sites-available/000-default.conf
  printf '%s\n' "$page" > /var/www/html/index.html
  grep -q '^ServerName' /etc/apache2/apache2.conf || echo "ServerName localhost" >> /etc/apache2/apache2.conf
  if apache2ctl -k graceful 2>/dev/null; then :; else apache2ctl -k start; fi
  # Apache returns before it listens, and does not say when it cannot. So look at the page.
  python3 - "$port" "$page" <<'PYTHON' || { tail -n 5 /var/log/apache2/error.log >&2; exit 5; }
import http.client
import os
import sys
import time

port, page = int(sys.argv[1]), os.fsencode(sys.argv[2]) + b"\n"
said = "nothing"
for attempt in range(100):
    try:
        asked = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
        asked.request("GET", "/")
        said = asked.getresponse().read()
        if said == page:
            sys.exit(0)
    except (OSError, http.client.HTTPException) as error:
        said = error
    time.sleep(0.1)
sys.exit("Apache does not serve the page at port %d: %.200r" % (port, said))
PYTHON
  echo "$port"
  exit 0
fi

# Without a machine of its own (driver "process"): an Apache in the instance's own directory.
root=$HOME/apache
mkdir -p "$root/html" "$root/run"
printf '%s\n' "$page" > "$root/html/index.html"
modules=$(ls -d /usr/lib/apache2/modules)
cat > "$root/apache.conf" <<CONF
ServerRoot $root
ServerName localhost
PidFile $root/run/apache.pid
ErrorLog $root/error.log
Mutex file:$root/run
Listen 127.0.0.1:$port
LoadModule mpm_event_module $modules/mod_mpm_event.so
LoadModule authz_core_module $modules/mod_authz_core.so
LoadModule dir_module $modules/mod_dir.so
DocumentRoot $root/html
DirectoryIndex index.html
CONF
if [ -s "$root/run/apache.pid" ] && kill -0 "$(cat "$root/run/apache.pid")" 2>/dev/null; then
  apache2 -f "$root/apache.conf" -k graceful
else
  apache2 -f "$root/apache.conf" -k start
fi
echo "$port"
