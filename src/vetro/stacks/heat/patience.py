"""Asking again: a service of the cloud that is away for a minute does not end a deployment."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TypeVar

import structlog

from vetro.openstack import ServiceAway
from vetro.stacks.errors import StackError
from vetro.stacks.model import ProgressCallback

T = TypeVar("T")
log = structlog.get_logger(__name__)
LONGEST_PAUSE = 8.0


@dataclass(frozen=True, slots=True)
class Patience:
    """How long services may give no usable answer (silence, 500). Times in seconds."""

    seconds: float = 120.0
    first_pause: float = 0.15
    """Between two questions; it doubles up to `LONGEST_PAUSE`."""

    async def ask(
        self,
        work: Callable[[], Awaitable[T]],
        subject: str,
        say: ProgressCallback | None = None,
    ) -> T:
        """Do ``work`` until it has an answer. Errors: `StackError` names the subject and the service that
        does not answer."""
        deadline = time.monotonic() + self.seconds
        pause = self.first_pause
        while True:
            try:
                return await work()
            except ServiceAway as error:
                if time.monotonic() + pause > deadline:
                    raise StackError(
                        f"{subject}: given up after {self.seconds:g} seconds. {error}"
                    ) from error
                log.warning("openstack_asked_again", subject=subject, error=str(error))
                if say is not None:
                    say(f"an answer of {error.service} ({error})")
                await asyncio.sleep(pause)
                pause = min(pause * 2, LONGEST_PAUSE)
