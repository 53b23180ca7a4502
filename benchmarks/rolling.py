"""Every process of an installation is restarted under load: what that costs its users.

Two processes of each kind that serves others stand behind balancers that ask `/readyz`, beside two engines
and a node, on one PostgreSQL (`tools/with-postgres.sh`). While reads go to all kinds and applications are
deployed, first one of each kind is restarted, then the others and the node.
"""

from __future__ import annotations

import os
import secrets
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path

import psycopg
from limits import Topic

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from tests.server.site import FIRST, SECOND, Load, running_site

POSTGRES = os.environ.get("VETRO_TEST_POSTGRES_URL", "")


def databases(ending: ExitStack) -> list[str]:
    """The addresses of two empty databases, which are removed at the end."""
    names = [f"bench{secrets.token_hex(8)}" for _ in range(2)]
    admin = ending.enter_context(psycopg.connect(POSTGRES, autocommit=True))
    for name in names:
        admin.execute(f"CREATE DATABASE {name}".encode())
        ending.callback(admin.execute, f"DROP DATABASE {name} WITH (FORCE)".encode())
    return [f"{POSTGRES.rsplit('/', 1)[0]}/{name}" for name in names]


def main() -> int:
    """Run it; 1 when anything failed."""
    if not POSTGRES:
        print("not measured: it needs PostgreSQL (tools/with-postgres.sh)")
        return 0
    topic = Topic("rolling")
    with ExitStack() as ending:
        place = Path(ending.enter_context(tempfile.TemporaryDirectory()))
        own, brokers = databases(ending)
        site = ending.enter_context(running_site(place, own, brokers))
        load, began = Load(site), time.monotonic()
        try:
            for names in (FIRST, (*SECOND, "node")):
                site.restart(*names)
                load.goes_on()
        finally:
            load.end()
        took = time.monotonic() - began
        failed = sum(one != "ready" for one in load.deployed)
        missed = site.log("node").count("heartbeat_not_delivered")
        print(
            f"{len(FIRST) + len(SECOND) + 1} processes restarted in {took:.0f} s, under"
            f" {site.requests} requests and {len(load.deployed)} deployments"
        )
        for what, count in (
            ("requests failed", len(load.failures)),
            ("deployments failed", failed),
            ("heartbeats missed", missed),
        ):
            topic.take(what, count, "", 0)
        for one in load.failures[:5]:
            print(f"  {one}")
    return topic.end()


if __name__ == "__main__":
    sys.exit(main())
