#!/bin/bash
# runApacheDeploy.sh True|False: a web server with a page, with PHP if the argument is True.
# May run again: what is installed stays, the page is written anew.

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
. "$here/common.sh"
. "$here/installer.sh"

php=${1:-False}
root=/var/www/html

case "$(family)" in
    Debian) server=apache2; control=apache2ctl; packages=(apache2); php_packages=(php libapache2-mod-php) ;;
    RedHat) server=httpd; control=apachectl; packages=(httpd); php_packages=(php) ;;
esac

install "${packages[@]}"
if [ "$php" = True ]; then
    install "${php_packages[@]}"
fi

mkdir -p "$root"
cat > "$root/index.html" <<PAGE
<!DOCTYPE html>
<html>
<head><title>Apache on $(hostname)</title></head>
<body><h1>It works</h1><p>This page is served by Apache on $(hostname).</p></body>
</html>
PAGE
if [ "$php" = True ]; then
    echo '<?php phpinfo(); ?>' > "$root/info.php"
else
    rm -f "$root/info.php"
fi
open_port 80
enable_and_restart "$server" "$control"
wait_for_port 80 "$server"
log "Apache answers on port 80, PHP: $php"
