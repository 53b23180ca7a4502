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
# Apache returns before it listens, and does not say when it cannot. So look at the page.
python3 - "$1" "$2" <<'PYTHON' || { tail -n 5 /var/log/apache2/error.log >&2; exit 5; }
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
