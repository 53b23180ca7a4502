"""The agent's main loop: one thread, one step per iteration (guest-agent.md §7.2).

A step sends a result if there is one, else starts the oldest plan if none is running, and
then sleeps until the transport has a message, the running plan ends, or a deadline passes.
Plans that arrive while one is running are stored and acknowledged; they run in order.
"""

import os
import select
import signal
import time

from . import child, log, plan
from .admission import Admission
from .doors import Doors
from .errors import (
    AgentError,
    CommunicationError,
    ConfigurationError,
    InvalidPlan,
    ResultRefused,
    Unauthorized,
)
from .restart import Restarts
from .running import checked_plan, run_plan
from .spool import Message, Spool

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable

    from .config import Settings
    from .plan_v1 import PowerShellPlan
    from .transports import Transport

_PAUSE_AFTER_ERROR = 5.0
_ADOPTED_CHECK_SECONDS = 0.5
_HEAR_SECONDS = 2.0
_OTHER_DOOR_SECONDS = 0.1
"""The pause before the next of several doors is tried; one round of all is one failure."""
_MOST_STARTS = 20
"""So often a plan of format 1 is gone on with; one that ends its machine each time must end."""


class Backoff:
    """How long to wait after failures of the transport.

    A guest boots faster than its network settles, so the first failures are retried within
    fractions of a second; after that the pause is 5 s, growing by 1.2 to 60 s, as guest-agent.md §2
    says.
    """

    _QUICK = (0.1, 0.2, 0.4, 0.8, 1.6)

    def __init__(self) -> None:
        self._failures = 0
        self._delay = 5.0

    def reset(self) -> None:
        """Start again with the shortest pause after a successful poll."""
        self._failures = 0
        self._delay = 5.0

    def next(self) -> float:
        """Seconds to wait after one more failure."""
        self._failures += 1
        if self._failures <= len(self._QUICK):
            return self._QUICK[self._failures - 1]
        delay = self._delay
        self._delay = min(60.0, delay * 1.2)
        return delay


class Agent:
    """Collects plans, runs them one after the other, returns their results."""

    def __init__(self, settings: "Settings", make: "Callable[[Settings], Transport]") -> None:
        self._settings = settings
        self._make = make
        make(settings)  # an invalid configuration is an error even when the engine has told another
        self._spool = Spool(settings.storage)
        self._doors = Doors(settings)
        self._transport = make(self._doors.current)
        self._admission = Admission(self._doors.newest, self._spool)
        self._child: "child.Child | None" = None
        self._connect_backoff = Backoff()
        self._connect_at = 0.0
        self._send_backoff = Backoff()
        self._send_at = 0.0
        # Plans received before this start may have been cancelled meanwhile: receive waiting
        # messages before beginning them, if they come soon.
        self._hear_until = 0.0
        if self._spool.waiting():
            self._hear_until = time.monotonic() + _HEAR_SECONDS
            self._transport.hurry = True
        self._restarts = Restarts()
        self._stopping = False
        self._wakeup, write_end = os.pipe()
        for descriptor in (self._wakeup, write_end):
            os.set_blocking(descriptor, False)
        signal.set_wakeup_fd(write_end)
        signal.signal(signal.SIGCHLD, _ignore)
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._stop)

    def run(self) -> None:
        """Run until SIGTERM or SIGINT. A running plan then continues; the next agent process finds
        it."""
        while not self._stopping:
            try:
                self._turn()
            except CommunicationError as error:
                self._pause_connecting(error)
            except Exception as error:  # noqa: BLE001 the agent outlives whatever one turn meets
                log.error("%s: %s; going on in 5 s" % (type(error).__name__, error))
                self._sleep(_PAUSE_AFTER_ERROR)
        self._transport.disconnect()
        log.info("Stopped")

    def _turn(self) -> None:
        log.rotate()  # a plan may have written much to it
        now = time.monotonic()
        if now >= self._connect_at:
            self._transport.prepare()
            self._doors.answered()
        self._look_after_child()
        if now >= self._send_at and self._send_result():
            return
        if self._child is None and self._start_plan():
            return
        self._wait()

    # --- waiting -----------------------------------------------------------------------

    def _wait(self) -> None:
        now = time.monotonic()
        limits = [now + 60.0]
        connected = now >= self._connect_at
        if connected:
            wakes_at = self._transport.wakes_at()
            if wakes_at is not None:
                limits.append(wakes_at)
        else:
            limits.append(self._connect_at)
        if self._send_at > now:
            limits.append(self._send_at)
        for moment in (self._hear_until, self._restarts.until):
            if moment > now:
                limits.append(moment)
        if self._child is not None:
            if self._child.adopted:
                limits.append(now + _ADOPTED_CHECK_SECONDS)
            if self._child.deadline is not None:
                limits.append(self._child.deadline)
        sockets = self._transport.waits_on() if connected else []
        readable, _, _ = select.select(
            [self._wakeup, *sockets], [], [], max(0.0, min(limits) - now)
        )
        if self._wakeup in readable:
            os.read(self._wakeup, 4096)
        if any(item is not self._wakeup for item in readable) or self._transport.has_message():
            message = self._transport.receive()
            self._connect_backoff.reset()
            self._send_at = 0.0 if self._send_at > now + 5 else self._send_at
            if message is not None:
                self._accept(message)
            else:
                self._has_heard()

    def _has_heard(self) -> None:
        """Stop waiting for messages before plans are begun."""
        self._hear_until = 0.0
        self._transport.hurry = False

    def _sleep(self, seconds: float) -> None:
        """Wait without listening to the transport; a stop signal still wakes it."""
        select.select([self._wakeup], [], [], seconds)

    def _pause_connecting(self, error: CommunicationError) -> None:
        several = self._doors.several
        if not self._doors.turn():
            # What refuses may be another service; the door that is the agent's may come next.
            delay = _OTHER_DOOR_SECONDS
        else:
            refused = isinstance(error, Unauthorized) and not several
            delay = 60.0 if refused else self._connect_backoff.next()
            if error.retry_after is not None and (refused or not isinstance(error, Unauthorized)):
                delay = min(60.0, max(delay, error.retry_after))
        log.warning("%s; trying again in %.1f s" % (error, delay))
        self._has_heard()
        if several:
            self._go_to_door()
        else:
            self._transport.disconnect()
        self._connect_at = time.monotonic() + delay

    def _go_to_door(self) -> None:
        """Leave the transport for that of the door that is to be used now."""
        self._transport.disconnect()
        self._transport = self._make(self._doors.current)
        self._connect_at = 0.0

    def _stop(self, _number: int, _frame: object) -> None:
        self._stopping = True

    # --- receiving ---------------------------------------------------------------------

    def _accept(self, message: Message) -> None:
        """Store a message on disk, then acknowledge it."""
        moved = False
        try:
            moved = self._configured_by(message)
            if not moved and not self._cancelled_by(message):
                name = self._spool.put(message)
                if name is None:
                    log.info("The plan %s came again; it is here already" % message.message_id)
        except OSError as error:
            # A broker sends no other message before this one is settled: it has to be sent again.
            raise CommunicationError(
                "The plan %s cannot be kept: %s" % (message.message_id, error)
            ) from error
        try:
            self._transport.acknowledge(message)
        except CommunicationError as error:
            # It will be handed out again, recognised, and acknowledged then.
            log.warning("The acknowledgement is not confirmed: %s" % error)
        else:
            if self._transport.confirms_acknowledgements:
                self._spool.acknowledged()
        if moved:
            self._go_to_door()

    def _configured_by(self, message: Message) -> bool:
        """Handle `Action: Configure`; True if there is another door to go to (nothing is stored then)."""
        document = self._order(message, "Configure")
        if document is None:
            return False
        try:
            self._doors.learn(document.get("Settings"), self._check)
            self._admission = Admission(self._doors.newest, self._spool)
        except ConfigurationError as error:
            log.error("The engine's new settings cannot be used: %s" % error)
            return False
        log.info("The engine has told new settings")
        return True

    def _check(self, settings: "Settings") -> None:
        self._make(settings)
        Admission(settings, self._spool)

    def _order(self, message: Message, action: str) -> "dict[str, Any] | None":
        """The document of an authentic message with this `Action`; None for any other."""
        if action.encode("ascii") not in message.body or not self._admission.authentic(message):
            return None
        try:
            document = plan.parse(message.body, message.message_id, None)
        except ValueError:
            return None
        return document if document.get("Action") == action else None

    def _cancelled_by(self, message: Message) -> bool:
        """Handle `Action: Cancel`; True if the message was one (and need not be stored)."""
        document = self._order(message, "Cancel")
        if document is None:
            return False
        target = document.get("ID")
        error = AgentError("The plan was cancelled")
        if self._child is not None and self._child.plan_id == target:
            log.info("Cancelling the running plan %s" % target)
            self._end_child(self._child, error)
            return True
        for name in self._spool.waiting():
            waiting = self._admission.parse(name)
            if waiting is not None and waiting.get("ID") == target:
                log.info("Withdrawing the waiting plan %s" % target)
                self._spool.cancel(name)
                self._finish(name, plan.failure(target, error))
                return True
        log.info("There is no plan %s to cancel" % target)
        return True

    # --- running -----------------------------------------------------------------------

    def _start_plan(self) -> bool:
        """Begin the oldest plan; True if there was one to handle."""
        name = self._spool.oldest_plan()
        if name is None or time.monotonic() < self._restarts.until:
            return False
        if time.monotonic() < self._hear_until and not self._spool.was_running(name):
            return False
        try:
            self._begin(name)
        except (OSError, MemoryError):
            raise  # an error of the machine, not of the plan: it is tried again
        except Exception as error:  # noqa: BLE001 a plan must not hold up those behind it
            log.error("The plan %s is given up: %s: %s" % (name, type(error).__name__, error))
            self._give_up(name, error)
        return True

    def _begin(self, name: str) -> None:
        folder = os.path.join(self._spool.plans, name)
        if self._spool.was_running(name):
            self._child = child.adopt(folder)
            if self._child is None:
                self._go_on(name)
            else:
                log.info("The plan %s is still running" % self._child.plan_id)
            return
        message = self._admission.read(name)
        document = self._admission.admit(message)
        if message is None or document is None:
            self._spool.remove(name)
            return
        plan_id = document.get("ID")
        try:
            stamp = plan.stamp_of(document)
            if stamp is not None and self._admission.is_replay(plan_id, stamp):
                self._spool.remove(name)
                return
            self._admission.must_be_awaited(name, document, message)
            checked = checked_plan(document)
            if self._settings.shared:
                plan.check_isolation(document)
        except AgentError as error:
            log.warning("The plan %s is refused: %s" % (plan_id, error))
            self._refuse(name, document, error)
            return
        lock = child.claim(folder)
        try:
            if stamp is not None:
                self._spool.store_stamp(stamp)
        except OSError:
            child.disclaim(folder, lock)
            raise
        self._start_child(name, lock, checked, message)

    def _start_child(
        self, name: str, lock: int, checked: "plan.Plan | PowerShellPlan", message: Message
    ) -> None:
        folder = os.path.join(self._spool.plans, name)
        limit = self._admission.result_limit(message)
        self._child = child.start(
            folder,
            lock,
            checked.id,
            self._admission.seconds_for(checked, message),
            lambda: run_plan(checked, folder, self._spool.files, limit),
            self._transport.disconnect,
        )

    def _go_on(self, name: str) -> None:
        """A begun plan whose process is gone: of format 1, the rest of it; else it was interrupted."""
        folder = os.path.join(self._spool.plans, name)
        if Restarts.is_due(folder):
            self._after_restart(name)
            return
        message = self._admission.read(name)
        document = self._admission.admit(message)
        if message is not None and document is not None:
            from .plan_v1 import PowerShellPlan

            try:
                checked = checked_plan(document)
            except AgentError:
                checked = None
            if isinstance(checked, PowerShellPlan) and child.count_start(folder) <= _MOST_STARTS:
                log.info("Going on with the plan %s" % checked.id)
                self._start_child(name, child.claim(folder), checked, message)
                return
        self._report_interrupted(name)

    def _after_restart(self, name: str) -> None:
        """Send a result that waited for a restart of the machine, or restart it."""
        try:
            result = self._restarts.result_of(os.path.join(self._spool.plans, name))
        except OSError as error:
            failed = AgentError("The plan was run, but its restart failed: %s" % error)
            self._finish(name, plan.failure(self._id_of(name), failed))
            return
        if result is not None:
            self._spool.write_result(name, result)

    def _refuse(self, name: str, document: "dict[str, Any]", error: AgentError) -> None:
        """Answer a plan that is not begun. Its stamp is stored as well, after the answer."""
        if self._spool.was_answered(name):
            self._spool.remove(name)
        else:
            self._finish(name, plan.failure(document.get("ID"), error))
        try:
            stamp = plan.stamp_of(document)
        except InvalidPlan:
            return  # the invalid stamp is the reason of the refusal
        if stamp is not None and stamp > self._spool.stamp():
            self._spool.store_stamp(stamp)

    def _give_up(self, name: str, error: Exception) -> None:
        message = self._admission.read(name)
        plan_id = message.message_id if message is not None else None
        self._finish(name, plan.failure(plan_id, error))

    def _look_after_child(self) -> None:
        running = self._child
        if running is None:
            return
        if running.ended():
            self._child = None
            name = os.path.basename(running.folder)
            if not self._spool.has_result(name) and not Restarts.is_due(running.folder):
                self._report_interrupted(name)
            elif running.plan_id is None and self._spool.has_result(name):
                self._spool.remove(name)
        elif running.deadline is not None and time.monotonic() >= running.deadline:
            log.warning("The plan %s has run too long; ending it" % running.plan_id)
            self._end_child(running, AgentError("The plan did not finish in its time"))

    def _end_child(self, running: child.Child, error: AgentError) -> None:
        """Kill the running plan and leave `error` as its result."""
        from .files import folder_of, remove_folder
        from .process import OUTPUT_FOLDER, last_output

        running.kill()
        self._child = None
        name = os.path.basename(running.folder)
        if self._spool.has_result(name):
            return  # the plan ended first
        folder = folder_of(self._spool.files, running.plan_id or name)
        error.additional = last_output(os.path.join(folder, OUTPUT_FOLDER))
        remove_folder(folder)
        self._finish(name, plan.failure(running.plan_id, error))

    def _report_interrupted(self, name: str) -> None:
        """Report a begun plan whose process ended without a result. It is not run twice."""
        plan_id = self._id_of(name)
        log.warning("The plan %s was interrupted" % plan_id)
        from .files import folder_of, remove_folder

        remove_folder(folder_of(self._spool.files, plan_id or name))
        error = AgentError(
            "The plan was interrupted (the guest was restarted or the plan's process was killed); "
            "it is not run again"
        )
        self._finish(name, plan.failure(plan_id, error))

    def _id_of(self, name: str) -> "str | None":
        return (self._admission.parse(name) or {}).get("ID")

    def _finish(self, name: str, result: "dict[str, Any]") -> None:
        if not result["SourceID"]:
            self._spool.remove(name)
            return
        from . import results

        limit = self._admission.result_limit(self._admission.read(name))
        self._spool.write_result(name, results.fit(result, limit))

    # --- sending -----------------------------------------------------------------------

    def _send_result(self) -> bool:
        """Send the oldest result; True if one was sent."""
        name = self._spool.oldest_result()
        if name is None:
            return False
        if self._child is not None and os.path.basename(self._child.folder) == name:
            return False  # its process is about to end
        try:
            result = self._spool.read_result(name)
        except ValueError as error:
            log.error("The result of %s cannot be sent: %s" % (name, error))
            self._replace_result(name, error)
            return True
        plan_id: str = result["SourceID"]
        reply_to = None
        if self._settings.dynamic_result_queue:
            reply_to = (self._admission.parse(name) or {}).get("ReplyTo")
        from . import results

        try:
            self._transport.send_result(plan_id, results.dump(result), reply_to)
        except ResultRefused as error:
            self._refused(name, result, error)
            return True
        except CommunicationError as error:
            delay = self._send_backoff.next()
            self._send_at = time.monotonic() + max(delay, error.retry_after or 0.0)
            log.warning("The result of %s is not sent yet: %s" % (plan_id, error))
            return False
        self._send_backoff.reset()
        self._spool.sent(name)
        return True

    def _replace_result(self, name: str, error: Exception) -> None:
        """Replace a result that cannot be read with an error."""
        message = AgentError("The result was damaged on the guest's disk: %s" % error)
        self._finish(name, plan.failure(self._id_of(name), message))

    def _refused(self, name: str, result: "dict[str, Any]", error: ResultRefused) -> None:
        """Handle a refused result: shorten it, then replace it with an error, then drop it."""
        from . import results

        plan_id: str = result["SourceID"]
        refusals = self._spool.count_refusal(name)
        log.error("The result of %s is refused: %s" % (plan_id, error))
        if refusals > 2:
            log.error("Dropping the result of %s" % plan_id)
            self._spool.remove(name)
        elif error.limit is not None and refusals == 1:
            # The limit was lowered after the plan had arrived.
            self._spool.write_result(name, results.fit(result, error.limit))
        else:
            why = "The result cannot be delivered: %s" % error
            self._spool.write_result(name, results.dump(results.undeliverable(result, why)))


def _ignore(_number: int, _frame: object) -> None:
    """Do nothing; a Python handler is needed so that the signal reaches the wake-up pipe."""
