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
# Apache returns before it listens, and does not say when it cannot. So ask for an answer.
python3 - <<'PYTHON' || { tail -n 5 /var/log/apache2/error.log >&2; exit 5; }
import http.client
import sys
import time

problem = None
for attempt in range(100):
    try:
        asked = http.client.HTTPConnection("127.0.0.1", 80, timeout=10)
        asked.request("GET", "/")
        if "Apache" in asked.getresponse().getheader("Server", ""):
            sys.exit(0)
        problem = "another program is there"
    except (OSError, http.client.HTTPException) as error:
        problem = error
    time.sleep(0.1)
sys.exit("Apache does not answer at port 80: %s" % problem)
PYTHON
