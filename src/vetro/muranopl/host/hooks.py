"""What a host runs before and after the work of a session (muranopl.md section 23)."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable

Hook = Callable[[], Awaitable[None] | None]
_log = logging.getLogger(__name__)


class Hooks:
    """Functions that run at one point of a session, in the order in which they were added."""

    def __init__(self) -> None:
        self._hooks: list[Hook] = []

    def add(self, hook: Hook) -> None:
        """Run this one as well."""
        self._hooks.append(hook)

    async def run(self) -> None:
        """Run all of them; errors are logged."""
        for hook in self._hooks:
            try:
                result = hook()
                if result is not None:
                    await result
            except Exception:  # noqa: BLE001 - section 23: a hook never fails a task
                _log.exception("a session hook failed")
