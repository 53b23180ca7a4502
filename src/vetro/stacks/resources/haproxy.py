"""HAProxy in a guest: its configuration, and the script that has it take one.

The script keeps the listening socket open: a new process takes it from the old one, which finishes what
it is answering. Only then the script ends, so that a member that leaves is not removed before.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator, Mapping

from vetro.stacks.model import Json
from vetro.stacks.resources.base import entries, flag, items, text

_METHODS = {
    "ROUND_ROBIN": "roundrobin",
    "LEAST_CONNECTIONS": "leastconn",
    "SOURCE_IP": "source",
}
_SECONDS_TO_FINISH = 30

_SCRIPT = """#!/bin/sh
# HAProxy takes its configuration; one that runs hands its socket over and finishes what it is answering.
set -eu
config=/etc/haproxy/haproxy.cfg pid=/run/haproxy.pid socket=/run/haproxy-vetro.sock
if ! command -v haproxy >/dev/null 2>&1; then
  export DEBIAN_FRONTEND=noninteractive
  if ! { apt-get update -qq && apt-get install -y -qq --no-install-recommends haproxy; } >/dev/null; then
    echo "The image of load balancers has no haproxy, and it could not be installed" >&2
    exit 1
  fi
fi
mkdir -p /etc/haproxy
cat > "$config.new" <<'END OF THE CONFIGURATION'
@CONFIGURATION@END OF THE CONFIGURATION
haproxy -c -q -f "$config.new"
mv "$config.new" "$config"
if [ -d /run/systemd/system ]; then
  systemctl -q enable haproxy
  exec systemctl reload-or-restart haproxy
fi
old=$(cat "$pid" 2>/dev/null || true)
if [ -z "$old" ] || ! kill -0 $old 2>/dev/null; then
  exec haproxy -D -f "$config" -p "$pid"
fi
if [ ! -S "$socket" ]; then
  # Not one of ours: the package has started it with its own configuration, which serves nothing.
  exec haproxy -D -f "$config" -p "$pid" -sf $old
fi
haproxy -D -f "$config" -p "$pid" -x "$socket" -sf $old
end=$(($(date +%s) + @SECONDS@))
while kill -0 $old 2>/dev/null && [ "$(date +%s)" -lt "$end" ]; do
  sleep 0.1
done
"""


def script_of(balancing: Mapping[str, Json]) -> str:
    """The script for the properties of a `Balancing`, which are checked."""
    return _SCRIPT.replace("@SECONDS@", str(_SECONDS_TO_FINISH)).replace(
        "@CONFIGURATION@", configuration(balancing)
    )


def configuration(balancing: Mapping[str, Json]) -> str:
    """HAProxy's configuration: one address, and the servers behind it."""
    vip = entries(balancing.get("vip"))
    mode = "http" if balancing.get("protocol") == "HTTP" else "tcp"
    address = text(balancing.get("address"))
    everywhere = "[::]" if ":" in address else "*"
    lines = [
        "global",
        "  stats socket /run/haproxy-vetro.sock mode 600 level admin expose-fd listeners",
        f"  hard-stop-after {_SECONDS_TO_FINISH}s",
        "defaults",
        f"  mode {mode}",
        "  timeout connect 5s",
        "  timeout client 60s",
        "  timeout server 60s",
        "  option redispatch 1",
        "frontend vip",
        f"  bind {everywhere}:{vip['protocol_port']}",
        *_limit(vip),
        "  default_backend members",
        "backend members",
        f"  balance {_METHODS[text(balancing.get('lb_method'), 'ROUND_ROBIN')]}",
    ]
    if mode == "http":
        # A member that dies while it answers: reading may be asked again, writing may not.
        lines += [
            "  option forwardfor",
            "  retry-on conn-failure empty-response response-timeout",
            "  http-request disable-l7-retry unless METH_GET",
        ]
    if not flag(vip.get("admin_state_up"), True) or not flag(balancing.get("admin_state_up"), True):
        lines.insert(lines.index("  default_backend members"), "  disabled")
    monitors = [entries(one) for one in items(balancing.get("monitors"))]
    asking = [one for one in monitors if flag(one.get("admin_state_up"), True)]
    monitor = asking[0] if asking else dict[str, Json]()
    lines += _persistence(vip)
    lines += _asking(monitor)
    # One that is named twice is one.
    members = {
        _name(one): _member(one, monitor, _by_cookie(vip))
        for one in map(entries, items(balancing.get("members")))
    }
    return "".join(f"{line}\n" for line in (*lines, *members.values()))


def _limit(vip: Mapping[str, Json]) -> Iterator[str]:
    limit = int(text(vip.get("connection_limit"), "-1"))
    if limit >= 0:
        yield f"  maxconn {limit}"


def _by_cookie(vip: Mapping[str, Json]) -> bool:
    return entries(vip.get("session_persistence")).get("type") == "HTTP_COOKIE"


def _persistence(vip: Mapping[str, Json]) -> Iterator[str]:
    given = entries(vip.get("session_persistence"))
    if given.get("type") == "SOURCE_IP":
        yield "  stick-table type ipv6 size 50k expire 30m"
        yield "  stick on src"
    elif _by_cookie(vip):
        yield "  cookie SRV insert indirect nocache"
    elif given.get("type") == "APP_COOKIE":
        yield "  stick-table type string len 64 size 50k expire 3h"
        yield f"  stick store-response res.cook({given['cookie_name']})"
        yield f"  stick match req.cook({given['cookie_name']})"


def _asking(monitor: Mapping[str, Json]) -> Iterator[str]:
    if not monitor:
        return
    yield f"  timeout check {monitor['timeout']}s"
    if monitor["type"] in ("HTTP", "HTTPS"):
        method = text(monitor.get("http_method"), "GET")
        yield f"  option httpchk {method} {text(monitor.get('url_path'), '/')}"
        codes = "|".join(sorted(set(_codes(text(monitor.get("expected_codes"), "200")))))
        yield f"  http-check expect rstatus ^({codes})$"


def _codes(expected: str) -> Iterator[str]:
    """`200`, `200,204`, `200-204`."""
    for one in expected.split(","):
        first, _, last = one.partition("-")
        last = last.rpartition("-")[2]
        yield from map(str, range(int(first), int(last or first) + 1))


def _name(member: Mapping[str, Json]) -> str:
    return f"{text(member['address']).replace(':', '_')}-{int(member['protocol_port'])}"


def _member(member: Mapping[str, Json], monitor: Mapping[str, Json], cookie: bool) -> str:
    address, port = ipaddress.ip_address(text(member["address"])), int(member["protocol_port"])
    reached = f"[{address}]:{port}" if address.version == 6 else f"{address}:{port}"
    words = [f"  server {_name(member)} {reached}"]
    if member.get("weight") is not None:
        words.append(f"weight {int(member['weight'])}")
    if cookie:
        words.append(f"cookie {_name(member)}")
    if monitor:
        words.append(
            f"check inter {int(monitor['delay'])}s fall {int(monitor['max_retries'])} rise 1"
        )
        if monitor["type"] == "HTTPS":
            words.append("check-ssl verify none")
    if not flag(member.get("admin_state_up"), True):
        words.append("disabled")
    return " ".join(words)
