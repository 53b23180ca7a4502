#!/bin/bash
# runTelnetDeploy.sh: a telnet server on port 23. May run again.

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
. "$here/common.sh"
. "$here/installer.sh"

case "$(family)" in
    Debian)
        install openbsd-inetd telnetd
        line='telnet stream tcp nowait root /usr/sbin/tcpd /usr/sbin/telnetd'
        [ -x /usr/sbin/in.telnetd ] && line='telnet stream tcp nowait root /usr/sbin/tcpd /usr/sbin/in.telnetd'
        if ! grep -q '^telnet[[:space:]]' /etc/inetd.conf 2>/dev/null; then
            echo "$line" >> /etc/inetd.conf
        fi
        enable_and_restart openbsd-inetd
        ;;
    RedHat)
        install telnet-server
        if [ -d /run/systemd/system ]; then
            systemctl enable --now telnet.socket || die "telnet.socket does not start"
        else
            die "telnet-server needs systemd"
        fi
        ;;
esac
open_port 23
wait_for_port 23 "Telnet"
log "Telnet answers on port 23"
