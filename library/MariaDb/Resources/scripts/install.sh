#!/bin/sh
# install.sh PORT: a MariaDB server that listens there. Running it again changes the port.
set -eu
port=$1
if ! command -v mariadbd >/dev/null 2>&1; then
  export DEBIAN_FRONTEND=noninteractive
  apt-get update -qq
  apt-get install -y -qq --no-install-recommends mariadb-server
fi
# Read after the distribution's own settings.
cat > /etc/mysql/mariadb.conf.d/99-vetro.cnf <<CONF
[mysqld]
bind-address = 0.0.0.0
port = $port
log_error = /var/log/mysql/error.log
CONF
# `service` answers 0 also when the server ends at once (images with sysvinit), so ask the server itself.
service mariadb restart || true
tries=0
until [ "$(mariadb --batch --skip-column-names --execute 'select @@port' 2>/dev/null)" = "$port" ]; do
  tries=$((tries + 1))
  if [ $tries -ge 30 ]; then
    echo "MariaDB does not listen at port $port" >&2
    tail -n 20 /var/log/mysql/error.log >&2 || true
    exit 5
  fi
  sleep 1
done
