"""A call that the host drives itself: one slice of one green thread at a time.

    steps = Steps(session, root, "deploy")
    while steps.step():
        print(steps.waiting())
    print(steps.result())

Slices run in the order of an ordinary call, so that a test can stop a program between any two of
them, inspect its objects or cancel it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING

from vetro.muranopl.threads.greenthreads import GreenThread, ThreadKey
from vetro.muranopl.values.containers import Value

if TYPE_CHECKING:
    from vetro.muranopl.classes.objects import MuranoObject
    from vetro.muranopl.classes.types import MuranoType

    from .session import Session


class Steps:
    """One call. Call `step` until it returns False, then `result`; `close` cancels the call."""

    def __init__(
        self,
        session: Session,
        target: MuranoObject | MuranoType | str,
        method: str,
        /,
        *args: object,
        **kwargs: object,
    ) -> None:
        self._session = session
        self._threads = session.run.threads
        self._runner: asyncio.Runner | None = None
        self._root: GreenThread = session.begin_call(target, method, args, kwargs)
        self.count = 0
        """Slices run so far."""

    @property
    def done(self) -> bool:
        """Whether the call has ended."""
        return self._root.done

    def step(self) -> bool:
        """Run the next thread until it waits, or complete a wait. False: the call has ended."""
        if self._root.done:
            return False
        if not self._threads.step():
            if self._runner is None:
                self._runner = asyncio.Runner()
            self._runner.run(self._session.run.scheduler.complete_one())
        else:
            self.count += 1
        return not self._root.done

    def run_until(self, condition: Callable[[], bool]) -> bool:
        """Step until the condition holds or the call ends; returns whether it holds."""
        while not condition():
            if not self.step():
                return condition()
        return True

    def waiting(self) -> dict[ThreadKey, str]:
        """The reason of each suspended thread's wait; the calling thread has the shortest key."""
        return self._threads.waiting()

    def result(self) -> Value:
        """Run the call to its end; returns its value. Raises MuranoError."""
        try:
            while self.step():
                pass
        finally:
            self._end()
        return self._session.end_call(self._root)

    def close(self) -> None:
        """Cancel the call; `Finally` blocks run."""
        from vetro.muranopl.values.errors import Cancelled, MuranoError

        if not self._root.done:
            self._threads.request_abort(Cancelled("the host closed the call"))
        try:
            self.result()
        except MuranoError as error:
            if not isinstance(error, Cancelled):
                raise

    def _end(self) -> None:
        if self._runner is not None:
            self._runner.close()
            self._runner = None
