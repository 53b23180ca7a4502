#!/bin/sh
# Has the guest agent in images that come without one. Where a driver puts it in place, or the image
# has it, nothing happens; nothing is fetched then.
set -e
if [ -z "${VETRO_GUEST_ROOT:-}" ] && [ ! -e /opt/vetro/vetro-guest.pyz ] && ! command -v muranoagent >/dev/null 2>&1; then
  if ! command -v pip3 >/dev/null 2>&1; then
    echo 'The image has neither the guest agent nor pip3 to install it' >&2
    exit 1
  fi
  pip3 install '%PIP_SOURCE%'
  umask 022
  mkdir -p /etc/murano /etc/init.d
  if command -v systemctl >/dev/null 2>&1; then
    echo '%MURANO_AGENT_SERVICE%' | base64 -d > /etc/systemd/system/murano-agent.service
    systemctl daemon-reload
    systemctl enable murano-agent
    start_agent='systemctl restart murano-agent'
  elif [ -d /etc/init ]; then
    echo '%MURANO_AGENT_CONF%' | base64 -d > /etc/init/murano-agent.conf
    start_agent='start murano-agent'
  else
    echo '%MURANO_AGENT%' | base64 -d > /etc/init.d/murano-agent
    chmod 755 /etc/init.d/murano-agent
    start_agent='/etc/init.d/murano-agent restart'
  fi
fi
