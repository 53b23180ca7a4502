#!/bin/bash
# First boot of a Linux instance: host name, certificate of the broker, configuration of the agent.

hostname '%INTERNAL_HOSTNAME%'
echo '%INTERNAL_HOSTNAME%' > /etc/hostname
grep -q '[[:space:]]%INTERNAL_HOSTNAME%$' /etc/hosts || echo '127.0.1.1 %INTERNAL_HOSTNAME%' >> /etc/hosts

certificate='%CA_ROOT_CERT_BASE64%'
mkdir -p /etc/murano
if [ -n "$certificate" ]; then
    echo "$certificate" | base64 -d > /etc/murano/ca.crt
fi
echo '%AGENT_CONFIG_BASE64%' | base64 -d > /etc/murano/agent.conf
chmod 600 /etc/murano/agent.conf
if [ -n "$certificate" ]; then
    printf '\n[rabbitmq]\nca_certs=/etc/murano/ca.crt\n' >> /etc/murano/agent.conf
fi
echo 'MURANO_SERVER_ADDRESS=%MURANO_SERVER_ADDRESS%' > /etc/murano/server
# On Vetro's own nodes the agent is no service: the node starts it when this script has ended.
if [ -x /etc/init.d/murano-agent ]; then
    service murano-agent restart
elif systemctl cat murano-agent >/dev/null 2>&1; then
    systemctl restart murano-agent
fi
