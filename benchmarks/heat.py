"""The back end `heat` against the same stack made by hand, at the OpenStack of VETRO_TEST_OPENSTACK.

By hand is what `openstack stack create --wait` does, with shorter pauses between two looks than its 5
seconds: a request for the stack, then looks at it until Heat has made it. Its resources take no time.
"""

from __future__ import annotations

import asyncio
import os
import secrets
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

from limits import Topic

from vetro.cli.client.connection import read_openrc
from vetro.openstack import PasswordCredential, Session
from vetro.stacks.heat import HeatStacks

ROUNDS = 7
MOST_TIMES = 1.3
LOOK_SECONDS = 0.05
TEXT = {"type": "OS::Heat::RandomString"}
TEMPLATE = {
    "heat_template_version": "2013-05-23",
    "resources": {"a": TEXT, "b": {**TEXT, "depends_on": "a"}},
}


async def by_hand(session: Session, name: str) -> None:
    """Make a stack with nothing between us and Heat."""
    body = {"stack_name": name, "template": TEMPLATE}
    made = await session.request("orchestration", "POST", "/stacks", json=body)
    assert made is not None
    place = f"/stacks/{name}/{made.json()['stack']['id']}"
    while True:
        shown = await session.request("orchestration", "GET", place)
        assert shown is not None
        if not shown.json()["stack"]["stack_status"].endswith("_IN_PROGRESS"):
            return
        await asyncio.sleep(LOOK_SECONDS)


async def measured(make: Callable[[str], Awaitable[object]], stacks: HeatStacks) -> float:
    """Seconds that one stack takes."""
    name = f"bench{secrets.token_hex(4)}"
    began = time.perf_counter()
    await make(name)
    took = time.perf_counter() - began
    await stacks.delete("", name)
    return took


async def main() -> int:
    """Measure both in turn, judge."""
    given = os.environ.get("VETRO_TEST_OPENSTACK")
    if not given:
        print("left out: VETRO_TEST_OPENSTACK names no running OpenStack (tools/with-openstack.sh)")
        return 0
    openrc = read_openrc(Path(given) / "openrc-demo")
    who = PasswordCredential(openrc["OS_USERNAME"], openrc["OS_PASSWORD"], "demo")
    topic = Topic("heat")
    ratios: list[float] = []
    async with Session(openrc["OS_AUTH_URL"], who, region="RegionOne") as session:
        stacks = HeatStacks(session)
        await session.login()
        for _ in range(ROUNDS):
            hand = await measured(lambda name: by_hand(session, name), stacks)
            ours = await measured(lambda name: stacks.create("", name, TEMPLATE), stacks)
            ratios.append(ours / hand)
    topic.take("a stack by the back end heat", ratios, "x by hand", MOST_TIMES)
    return topic.end()


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
