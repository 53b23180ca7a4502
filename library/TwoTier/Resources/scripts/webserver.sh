#!/bin/sh
# webserver.sh PORT PAGE: Apache serves PAGE at PORT.
set -eu
if ! command -v apache2 >/dev/null 2>&1; then
  export DEBIAN_FRONTEND=noninteractive
  apt-get update -qq
  apt-get install -y -qq --no-install-recommends apache2
fi
printf 'Listen %s\n' "$1" > /etc/apache2/ports.conf
sed -i "s/<VirtualHost \*:[0-9]*>/<VirtualHost *:$1>/" /etc/apache2/sites-available/000-default.conf
printf '%s\n' "$2" > /var/www/html/index.html
grep -q '^ServerName' /etc/apache2/apache2.conf || echo "ServerName localhost" >> /etc/apache2/apache2.conf
if apache2ctl -k graceful 2>/dev/null; then :; else apache2ctl -k start; fi
