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
CONF
service mariadb restart
