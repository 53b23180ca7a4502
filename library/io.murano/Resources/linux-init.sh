#!/bin/sh
# Isolation: optional
# Writes the guest agent's configuration; starts the agent if murano-init.sh has installed it.
set -e
umask 077
# A guest without a file system of its own (driver "process") has its files below this directory.
root=${VETRO_GUEST_ROOT:-}
mkdir -p "$root/etc/murano/certs" "$root/var/murano/plans"
echo '%AGENT_CONFIG_BASE64%' | base64 -d > "$root/etc/murano/agent.conf"
ca='%CA_ROOT_CERT_BASE64%'
if [ -n "$ca" ]; then
  echo "$ca" | base64 -d > "$root/etc/murano/certs/ca_certs"
  sed -i "s|= /etc/murano/certs|= $root/etc/murano/certs|" "$root/etc/murano/agent.conf"
fi
${start_agent:-true}
