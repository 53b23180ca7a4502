#!/bin/sh
# Apache serves /var/www/html on port 80. Running it again changes nothing.
set -eu
if ! command -v apache2 >/dev/null 2>&1; then
  export DEBIAN_FRONTEND=noninteractive
  apt-get update -qq
  apt-get install -y -qq --no-install-recommends apache2 >/dev/null
fi
grep -q '^ServerName' /etc/apache2/apache2.conf || echo "ServerName localhost" >> /etc/apache2/apache2.conf
apache2ctl -k graceful 2>/dev/null || apache2ctl -k start
