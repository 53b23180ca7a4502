#!/bin/sh
# install.sh HOST PORT DATABASE USER PASSWORD: WordPress of the distribution at /, with its database there.
set -eu
host=$1 port=$2
if [ ! -d /usr/share/wordpress ]; then
  export DEBIAN_FRONTEND=noninteractive
  apt-get update -qq
  apt-get install -y -qq --no-install-recommends apache2 libapache2-mod-php php-mysql wordpress
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
