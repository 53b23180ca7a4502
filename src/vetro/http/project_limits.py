"""A share of the process for each project: a project that floods waits for itself, not others for it.

All requests of a process are handled by one event loop. When one project sends hundreds at once, a
request of another would be handled among them, and take hundreds of times as long. So of one project
only some are handled at a time, from reading the body until the answer begins; further ones wait in
a queue of their project, and above its length they are refused, which costs next to nothing. A rate
bounds what a project may ask for in the long run, however quickly it is answered.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections import deque
from collections.abc import Callable

from vetro.http.budget import RequestBudget
from vetro.http.faults import TooManyRequests
from vetro.http.metrics import counter

#: How long a refused client is asked to wait. Handling a whole queue takes about as long.
RETRY_SECONDS = "1"
#: Projects whose rate is remembered before those that are idle are forgotten.
REMEMBERED_PROJECTS = 1000
REFUSED = counter(
    "vetro_requests_refused",
    "Requests that were answered with 429 because their project sends too many.",
    limit="`waiting`: too many at a time; `rate`: too many a second.",
)


class _Share:
    """What one project has: requests that are handled, and those that wait."""

    def __init__(self) -> None:
        self.handled = 0
        self.waiting: deque[asyncio.Future[None]] = deque()


class ProjectLimits:
    """Counts requests by project.

    ``at_once``: how many of one project are handled at a time; 0: any number. ``waiting``: how many
    more may wait. ``rate``: how many of one project are taken a second, after ``burst`` at any time;
    0: any number.
    """

    def __init__(
        self,
        at_once: int,
        waiting: int,
        *,
        rate: float = 0.0,
        burst: int = 1,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.at_once = at_once
        self.waiting = waiting
        self.rate = rate
        self._budget = RequestBudget(rate, max(1, burst), clock) if rate > 0 else None
        self._shares: dict[str, _Share] = {}

    async def take(self, project: str) -> Turn:
        """The project's next turn, when it comes. Errors: 429."""
        self._spend(project)
        share = self._shares.get(project)
        if share is None:
            share = self._shares[project] = _Share()
        if not self.at_once or share.handled < self.at_once:
            share.handled += 1
            return Turn(self, project)
        if len(share.waiting) >= self.waiting:
            REFUSED.labels("waiting").inc()
            raise TooManyRequests(
                f"{share.handled} requests of this project are being handled and"
                f" {len(share.waiting)} wait already; send fewer at a time",
                headers={"Retry-After": RETRY_SECONDS},
            )
        turn = asyncio.get_running_loop().create_future()
        share.waiting.append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if not turn.cancelled():
                self.give_back(project)  # its turn had come just then
            elif turn in share.waiting:
                share.waiting.remove(turn)
            raise
        return Turn(self, project)

    def _spend(self, project: str) -> None:
        """Count a request against its project's rate. Errors: 429."""
        if self._budget is None:
            return
        wait = self._budget.take(project)
        if self._budget.remembered > REMEMBERED_PROJECTS:
            self._budget.forget_idle()
        if wait > 0:
            REFUSED.labels("rate").inc()
            raise TooManyRequests(
                f"This project may send {self.rate:g} requests a second and sends more; try again in"
                f" {math.ceil(wait)} s",
                headers={"Retry-After": str(math.ceil(wait))},
            )

    def give_back(self, project: str) -> None:
        """End a turn: the project's next request has it."""
        share = self._shares[project]
        while share.waiting:
            following = share.waiting.popleft()
            if not following.done():
                following.set_result(None)
                return
        share.handled -= 1
        if not share.handled:
            del self._shares[project]


class Turn:
    """A request that is being handled; ``end`` may be called again."""

    def __init__(self, limits: ProjectLimits, project: str) -> None:
        self._limits = limits
        self._project = project
        self._over = False

    def end(self) -> None:
        """Give the turn back."""
        if not self._over:
            self._over = True
            self._limits.give_back(self._project)
