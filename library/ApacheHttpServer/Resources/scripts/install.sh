#!/bin/sh
# install.sh PORT PAGE: Apache serves PAGE at PORT. Installs Apache only where it is absent.
set -eu
port=$1
page=$2
PATH=$PATH:/usr/sbin:/sbin

# Without a machine of its own (driver "process") nothing is installed on somebody else's machine: where
# Apache is absent, Python's own server stands in for it.
if [ "${VETRO_DRIVER:-}" = process ] && ! command -v apache2 >/dev/null 2>&1; then
  root=$HOME/stand-in
  mkdir -p "$root/html"
  printf '%s\n' "$page" > "$root/html/index.html"
  if [ -s "$root/pid" ] && kill -0 "$(cat "$root/pid")" 2>/dev/null; then
    [ "$(cat "$root/port")" = "$port" ] && exit 0
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
