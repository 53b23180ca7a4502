#!/bin/sh
# Fetches the guest agent, for images that come without one. Where a driver puts it in place, or the image
# has it, nothing happens; nothing is fetched then.
set -e
if [ -z "${VETRO_GUEST_ROOT:-}" ] && [ ! -e /opt/vetro/vetro-guest.pyz ] && ! command -v muranoagent >/dev/null 2>&1; then
  umask 022
  mkdir -p /etc/murano /etc/init.d /opt/vetro /usr/local/bin
  python3 - '%AGENT_URL%' '%AGENT_SHA256%' /opt/vetro/vetro-guest.pyz <<'PYTHON'
import hashlib, os, sys, time, urllib.request

url, digest, target = sys.argv[1:]
# The network of a machine that boots, or the service, may take a while; three minutes in all.
for pause in (1, 2, 4, 8, 15, 30, 60, 60, None):
    try:
        with urllib.request.urlopen(url, timeout=30) as answer:
            data = answer.read()
        break
    except OSError as error:
        print("The guest agent is not at %s: %s" % (url, error), file=sys.stderr)
        if pause is None:
            sys.exit(1)
        time.sleep(pause)
found = hashlib.sha256(data).hexdigest()
if digest and found != digest:
    sys.exit("The guest agent at %s has the checksum sha256:%s, not the expected sha256:%s" % (url, found, digest))
with open(target + ".new", "wb") as file:
    file.write(data)
os.replace(target + ".new", target)
PYTHON
  printf '%s\n' '#!/bin/sh' 'exec python3 /opt/vetro/vetro-guest.pyz "$@"' > /usr/local/bin/muranoagent
  chmod 755 /usr/local/bin/muranoagent
  if command -v systemctl >/dev/null 2>&1; then
    echo '%MURANO_AGENT_SERVICE%' | base64 -d > /etc/systemd/system/murano-agent.service
    systemctl daemon-reload
    systemctl enable murano-agent
    start_agent='systemctl restart murano-agent'
  else
    echo '%MURANO_AGENT%' | base64 -d > /etc/init.d/murano-agent
    chmod 755 /etc/init.d/murano-agent
    start_agent='/etc/init.d/murano-agent restart'
  fi
fi
