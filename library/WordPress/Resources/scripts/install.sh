#!/bin/sh
# install.sh HOST PORT DATABASE USER PASSWORD: WordPress of the distribution at /, with its database there.
set -eu
host=$1 port=$2
needed='apache2 libapache2-mod-php php-curl php-gd php-intl php-mbstring php-mysql php-xml php-zip wordpress
  wordpress-theme-twentytwentythree'
# Each of them: without php-xml or a theme the page is empty.
missing=
for package in $needed; do
  dpkg-query -W -f '${Status}' "$package" 2>/dev/null | grep -q ' installed$' || missing="$missing $package"
done
if [ -n "$missing" ]; then
  export DEBIAN_FRONTEND=noninteractive
  if ! { apt-get update -qq && apt-get install -y -qq --no-install-recommends $missing; }; then
    echo "The image lacks packages, and they cannot be installed:$missing" >&2
    exit 3
  fi
fi
quoted() { printf %s "$1" | sed "s/[\\\\']/\\\\&/g"; }
# The file has the password: the web server may read it, nobody else.
umask 027
cat > /etc/wordpress/config-default.php <<CONF
<?php
define('DB_NAME', '$(quoted "$3")');
define('DB_USER', '$(quoted "$4")');
define('DB_PASSWORD', '$(quoted "$5")');
define('DB_HOST', '$(quoted "$host:$port")');
define('DB_CHARSET', 'utf8mb4');
define('WP_CONTENT_DIR', '/var/lib/wordpress/wp-content');
CONF
chgrp www-data /etc/wordpress/config-default.php
cat > /etc/apache2/sites-available/wordpress.conf <<'CONF'
<VirtualHost *:80>
  DocumentRoot /usr/share/wordpress
  Alias /wp-content /var/lib/wordpress/wp-content
  <Directory /usr/share/wordpress>
    Options FollowSymLinks
    AllowOverride FileInfo Limit
    DirectoryIndex index.php
    Require all granted
  </Directory>
  <Directory /var/lib/wordpress/wp-content>
    Options FollowSymLinks
    Require all granted
  </Directory>
</VirtualHost>
CONF
chmod 644 /etc/apache2/sites-available/wordpress.conf
a2dissite -q 000-default || true
a2ensite -q wordpress
apachectl -k restart || apachectl -k start
# Apache returns before it listens, and WordPress may answer with nothing. So look at the page.
python3 - <<'PYTHON' || { tail -n 10 /var/log/apache2/error.log >&2; exit 5; }
import http.client
import re
import sys
import time
from urllib.parse import urlsplit


def look(path):
    asked = http.client.HTTPConnection("127.0.0.1", 80, timeout=60)
    asked.request("GET", path)
    answer = asked.getresponse()
    to = urlsplit(answer.getheader("Location", ""))
    if answer.status in (301, 302) and to.hostname in (None, "127.0.0.1"):
        return look(to.path or "/")
    # A finished site sends visitors to its own address.
    return answer.status in (301, 302), answer.status, answer.read()


problem = None
for attempt in range(60):
    try:
        elsewhere, status, page = look("/")
    except (OSError, http.client.HTTPException) as error:
        problem = error
        time.sleep(0.5)
        continue
    if elsewhere or (status == 200 and re.search(b"<body", page)):
        sys.exit(0)
    problem = "%d, %d bytes: %r" % (status, len(page), page[:200])
    break
sys.exit("WordPress does not answer with a page: %s" % problem)
PYTHON
