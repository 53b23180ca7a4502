"""The agent's main loop: one thread, one step a turn (guest-agent.md §7.2).

A turn sends a result if there is one, else starts the oldest plan if none is running, and
then sleeps until the transport has something, the running plan ends, or a deadline passes.
Plans that come while one is running are kept and acknowledged; they run in order.
"""

import json
import os
import select
import signal
import time

from . import child, log, plan
from .errors import (
    AgentError,
    CommunicationError,
    ConfigurationError,
    ResultRefused,
    Unauthorized,
)
from .spool import Message, Spool

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .config import Settings
    from .signature import PublicKey
    from .transports import Transport

_PAUSE_AFTER_ERROR = 5.0
_ADOPTED_CHECK_SECONDS = 0.5


class Backoff:
    """How long to wait after failures of the transport.

    A guest boots faster than its network settles, so the first failures are answered within
    fractions of a second; after that 5 s, growing by 1.2 to 60 s, as guest-agent.md §2 says.
    """

    _QUICK = (0.1, 0.2, 0.4, 0.8, 1.6)

    def __init__(self) -> None:
        self._failures = 0
        self._delay = 5.0

    def reset(self) -> None:
        """A poll succeeded."""
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

    def __init__(self, settings: "Settings", transport: "Transport") -> None:
        self._settings = settings
        self._transport = transport
        self._spool = Spool(settings.storage)
        self._key: "PublicKey | None" = None
        if settings.engine_key:
            from .signature import load_public_key  # needs hashes, which cost start-up time

            self._key = load_public_key(settings.engine_key)
            if not settings.input_queue:
                raise ConfigurationError(
                    "engine_key is set but input_queue is not: signatures cover the queue's name"
                )
        self._child: "child.Child | None" = None
        self._connect_backoff = Backoff()
        self._connect_at = 0.0
        self._send_backoff = Backoff()
        self._send_at = 0.0
        self._stopping = False
        self._wakeup, write_end = os.pipe()
        for descriptor in (self._wakeup, write_end):
            os.set_blocking(descriptor, False)
        signal.set_wakeup_fd(write_end)
        signal.signal(signal.SIGCHLD, _ignore)
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._stop)

    def run(self) -> None:
        """Until SIGTERM or SIGINT. A plan that is running then goes on; the next agent
        process finds it."""
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
        now = time.monotonic()
        if now >= self._connect_at:
            self._transport.prepare()
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
        if self._child is not None:
            if self._child.adopted:
                limits.append(now + _ADOPTED_CHECK_SECONDS)
            if self._child.deadline is not None:
                limits.append(now + self._child.deadline - time.time())
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

    def _sleep(self, seconds: float) -> None:
        """Wait without listening to the transport; a stop signal still wakes it."""
        select.select([self._wakeup], [], [], seconds)

    def _pause_connecting(self, error: CommunicationError) -> None:
        delay = 60.0 if isinstance(error, Unauthorized) else self._connect_backoff.next()
        if error.retry_after is not None:
            delay = min(60.0, max(delay, error.retry_after))
        log.warning("%s; trying again in %.1f s" % (error, delay))
        self._transport.disconnect()
        self._connect_at = time.monotonic() + delay

    def _stop(self, _number: int, _frame: object) -> None:
        self._stopping = True

    # --- receiving ---------------------------------------------------------------------

    def _accept(self, message: Message) -> None:
        """Keep a message on disk, then acknowledge it."""
        if not self._cancelled_by(message):
            name = self._spool.put(message)
            if name is None:
                log.info("The plan %s came again; it is here already" % message.message_id)
        try:
            self._transport.acknowledge(message)
        except CommunicationError as error:
            # It will be handed out again, be recognised, and be acknowledged then.
            log.warning("The acknowledgement is not confirmed: %s" % error)
            return
        if self._transport.confirms_acknowledgements:
            self._spool.acknowledged()

    def _cancelled_by(self, message: Message) -> bool:
        """Handle `Action: Cancel`; True if the message was one (and needs no keeping)."""
        if b"Cancel" not in message.body or not self._authentic(message):
            return False
        try:
            document = plan.parse(message.body, message.message_id, None)
        except ValueError:
            return False
        if document.get("Action") != "Cancel":
            return False
        target = document.get("ID")
        error = AgentError("The plan was cancelled")
        if self._child is not None and self._child.plan_id == target:
            log.info("Cancelling the running plan %s" % target)
            self._end_child(self._child, error)
            return True
        for name in self._spool.waiting():
            waiting = self._parse(name)
            if waiting is not None and waiting.get("ID") == target:
                log.info("Cancelling the waiting plan %s" % target)
                self._spool.write_result(name, plan.failure(target, error))
                return True
        log.info("There is no plan %s to cancel" % target)
        return True

    def _authentic(self, message: Message) -> bool:
        if self._key is None:
            return True
        if message.signature is None:
            return False
        signed = self._settings.input_queue.encode("utf-8") + message.body
        return self._key.verify(signed, message.signature)

    # --- running -----------------------------------------------------------------------

    def _start_plan(self) -> bool:
        """Begin the oldest plan; True if there was one to deal with."""
        name = self._spool.oldest_plan()
        if name is None:
            return False
        folder = os.path.join(self._spool.plans, name)
        if self._spool.was_running(name):
            self._child = child.adopt(folder)
            if self._child is None:
                self._report_interrupted(name)
            else:
                log.info("The plan %s is still running" % self._child.plan_id)
            return True
        document = self._admit(name)
        if document is None:
            self._spool.remove(name)
            return True
        plan_id = document.get("ID")
        try:
            checked = plan.validate(document)
        except AgentError as error:
            log.warning("The plan %s is refused: %s" % (plan_id, error))
            self._finish(name, plan.failure(plan_id, error))
            return True
        timeout = checked.timeout or self._settings.plan_timeout or None
        self._child = child.start(
            folder,
            plan_id,
            timeout,
            lambda: _run_plan(checked, self._spool.files, plan_id or name),
            self._transport.disconnect,
        )
        return True

    def _admit(self, name: str) -> "dict[str, Any] | None":
        """The document of a plan that may run now; None if it has to be dropped silently."""
        try:
            message = self._spool.read_plan(name)
        except (OSError, ValueError, KeyError) as error:
            log.error("Dropping the plan %s: it cannot be read: %s" % (name, error))
            return None
        if not self._authentic(message):
            log.warning(
                "Dropping the plan %s: its signature is %s"
                % (message.message_id, "wrong" if message.signature else "missing")
            )
            return None
        try:
            document = plan.parse(message.body, message.message_id, message.reply_to)
        except ValueError as error:
            log.warning("Dropping the plan %s: %s" % (message.message_id, error))
            return None
        stamp = document.get("Stamp")
        if stamp is not None:
            if isinstance(stamp, bool) or not isinstance(stamp, int):
                log.warning(
                    "Dropping the plan %s: Stamp %r is no integer" % (message.message_id, stamp)
                )
                return None
            stored = self._spool.stamp()
            if stamp <= stored:
                log.warning(
                    "Dropping the plan %s: its stamp %d is not above %d (a replay)"
                    % (message.message_id, stamp, stored)
                )
                return None
            self._spool.store_stamp(stamp)
        return document

    def _parse(self, name: str) -> "dict[str, Any] | None":
        try:
            message = self._spool.read_plan(name)
            return plan.parse(message.body, message.message_id, message.reply_to)
        except (OSError, ValueError, KeyError):
            return None

    def _look_after_child(self) -> None:
        running = self._child
        if running is None:
            return
        if running.ended():
            self._child = None
            name = os.path.basename(running.folder)
            if not self._spool.has_result(name):
                self._report_interrupted(name)
            elif running.plan_id is None:
                self._spool.remove(name)
        elif running.deadline is not None and time.time() >= running.deadline:
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
            return  # it was quicker
        folder = folder_of(self._spool.files, running.plan_id or name)
        error.additional = last_output(os.path.join(folder, OUTPUT_FOLDER))
        remove_folder(folder)
        self._finish(name, plan.failure(running.plan_id, error))

    def _report_interrupted(self, name: str) -> None:
        """A plan was begun and its process is gone without a result. It is not run twice."""
        document = self._parse(name)
        plan_id = document.get("ID") if document else None
        log.warning("The plan %s was interrupted" % plan_id)
        from .files import folder_of, remove_folder

        remove_folder(folder_of(self._spool.files, plan_id or name))
        error = AgentError(
            "The plan was interrupted (the guest was restarted or the plan's process was killed); "
            "it is not run again"
        )
        self._finish(name, plan.failure(plan_id, error))

    def _finish(self, name: str, result: "dict[str, Any]") -> None:
        if result["SourceID"]:
            self._spool.write_result(name, result)
        else:
            self._spool.remove(name)

    # --- sending -----------------------------------------------------------------------

    def _send_result(self) -> bool:
        """Send the oldest result; True if there was one and it went."""
        name = self._spool.oldest_result()
        if name is None:
            return False
        if self._child is not None and os.path.basename(self._child.folder) == name:
            return False  # its process is about to end
        result = self._spool.read_result(name)
        plan_id = result["SourceID"]
        if plan_id is None:
            self._spool.remove(name)
            return True
        reply_to = None
        if self._settings.dynamic_result_queue:
            document = self._parse(name)
            reply_to = document.get("ReplyTo") if document else None
        try:
            body = json.dumps(result).encode("utf-8")
            self._transport.send_result(plan_id, body, reply_to)
        except ResultRefused as error:
            self._refused(name, plan_id, error)
            return True
        except CommunicationError as error:
            delay = self._send_backoff.next()
            self._send_at = time.monotonic() + max(delay, error.retry_after or 0.0)
            log.warning("The result of %s is not sent yet: %s" % (plan_id, error))
            return False
        self._send_backoff.reset()
        self._spool.remove(name)
        return True

    def _refused(self, name: str, plan_id: str, error: ResultRefused) -> None:
        marker = os.path.join(self._spool.plans, name, "refused")
        if os.path.exists(marker):
            log.error("Dropping the result of %s: %s" % (plan_id, error))
            self._spool.remove(name)
            return
        with open(marker, "wb"):
            pass
        log.error("The result of %s is refused: %s" % (plan_id, error))
        self._spool.write_result(
            name, plan.failure(plan_id, AgentError("The result cannot be delivered: %s" % error))
        )


def _run_plan(checked: "plan.Plan", files: str, folder_id: str) -> "dict[str, Any]":
    from . import runner  # read in the child, while the agent already polls again

    os.umask(0o022)  # what scripts install is for every user of the guest

    return runner.run(checked, files, folder_id)


def _ignore(_number: int, _frame: object) -> None:
    """A handler of ours, so that the signal reaches the wake-up pipe."""
