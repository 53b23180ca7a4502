"""Workers by fork: a process that has loaded everything and only forks.

The zygote is forked from the service before the service has threads, a loop or connections. It
imports the language, compiles the core library and freezes it; a forked worker can run a program at
once and shares all of that memory. Parent and zygote exchange single JSON messages over a socket;
each worker has a socket of its own, sent with the message that requests the worker.

A dead zygote cannot be forked again, because the service then has threads and connections. Its
successor is started as a program that gets only the socket to the service.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import gc
import os
import signal
import socket
import sys
from collections.abc import Awaitable, Callable
from dataclasses import asdict, dataclass
from typing import Any, cast

from vetro import log_context, tracing
from vetro.engine.errors import OverLimit, disk_is_full, is_full
from vetro.engine.settings import EngineSettings
from vetro.engine.worker.messages import receive_message, send_message
from vetro.environments import EngineCall, EngineTask, TaskResult


class ZygoteDied(Exception):
    """The zygote has ended."""


#: What the service asks of the zygote.
_SPAWN, _LEARN_WORKFLOWS = b"w", b"x"


@dataclass
class Zygote:
    """The service's handle of the zygote."""

    pid: int
    control: socket.socket
    _knows_workflows: bool = False

    def learn_workflows(self) -> None:
        """Have it import what tasks of XML workflows use; each worker would spend 130 ms on that.

        Most installations have no such tasks: only when the first one comes.
        """
        if not self._knows_workflows:
            self._knows_workflows = True
            with contextlib.suppress(BrokenPipeError, ConnectionResetError):  # `spawn` says so
                self.control.sendall(_LEARN_WORKFLOWS)

    def spawn(self) -> socket.socket:
        """Ask for a worker; return the socket to it (the other end is sent and closed here).

        If the zygote dies before it has read this, the returned socket is closed. Errors:
        ``ZygoteDied``.
        """
        ours, theirs = socket.socketpair()
        with theirs:
            try:
                socket.send_fds(self.control, [_SPAWN], [theirs.fileno()])
            except (BrokenPipeError, ConnectionResetError) as error:
                ours.close()
                raise ZygoteDied(f"process {self.pid}") from error
        return ours

    def close(self) -> None:
        """End the zygote; each worker ends when its own socket closes."""
        self.control.close()
        try:
            os.waitpid(self.pid, 0)
        except ChildProcessError:
            return


def die_with_parent() -> None:
    """Have the kernel kill this process when its parent dies."""
    pr_set_pdeathsig = 1
    ctypes.CDLL(None, use_errno=True).prctl(pr_set_pdeathsig, signal.SIGKILL, 0, 0, 0)


def close_inherited(keep: int) -> None:
    """Close the service's files and sockets: its port and its lock must be free when it dies."""
    os.closerange(3, keep)
    os.closerange(keep + 1, os.sysconf("SC_OPEN_MAX"))


def own_streams() -> None:
    """Write to the descriptors 1 and 2, whatever Python wrote to before.

    A program that captures output has replaced the streams with files of its own. These are closed
    now, and their descriptor numbers will be reused, for instance for the database.
    """
    sys.stdout = open(1, "w", encoding="utf-8", buffering=1, closefd=False)  # noqa: SIM115
    sys.stderr = open(2, "w", encoding="utf-8", buffering=1, closefd=False)  # noqa: SIM115


def start_zygote(settings: EngineSettings) -> Zygote:
    """Fork the zygote. Must be called before the process has threads."""
    ours, theirs = socket.socketpair()
    sys.stdout.flush()
    sys.stderr.flush()
    pid = os.fork()
    if pid == 0:
        ours.close()
        status = 1
        try:
            die_with_parent()
            close_inherited(theirs.fileno())
            own_streams()
            _zygote(theirs, settings)
            status = 0
        finally:
            # Skip the parent's clean-up handlers, which must not run twice.
            os._exit(status)
    theirs.close()
    return Zygote(pid, ours)


def restart_zygote(settings: EngineSettings) -> Zygote:
    """Start a zygote as a program, for a process that must not fork any more."""
    ours, theirs = socket.socketpair()
    with theirs:
        theirs.set_inheritable(True)
        code = f"from vetro.engine.worker.zygote import serve; serve({theirs.fileno()})"
        # Everything else is closed by the kernel: Python's descriptors are not inheritable.
        pid = os.posix_spawn(sys.executable, [sys.executable, "-c", code], os.environ)
    # It may have died at once; the next request for a worker will show that.
    with contextlib.suppress(ConnectionError):
        send_message(ours, settings.as_json())
    return Zygote(pid, ours)


def serve(descriptor: int) -> None:
    """The program of a restarted zygote; the settings come over the socket."""
    die_with_parent()
    with socket.socket(fileno=descriptor) as control:
        control.set_inheritable(False)
        settings = receive_message(control)
        if settings is not None:
            _zygote(control, EngineSettings.from_json(settings))


def _zygote(control: socket.socket, settings: EngineSettings) -> None:
    # Ctrl-C goes to the whole process group: the service ends the zygote when it has finished.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    # The kernel reaps ended children; the service watches their sockets instead.
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    from vetro.engine.worker.deployment import preload, preload_workflows
    from vetro.http import configure_logging, write_out_logs
    from vetro.packages import enable_plugins

    configure_logging(settings.log_level, settings.log_format)
    enable_plugins(settings.engine.enabled_plugins)
    runtime = preload(settings.code_cache_directory)
    gc.collect()
    gc.freeze()
    while True:
        message, descriptors, _, _ = socket.recv_fds(control, 1, 1)
        if not message:
            return
        if message == _LEARN_WORKFLOWS:
            preload_workflows()
            gc.freeze()
            continue
        pid = os.fork()
        if pid == 0:
            control.close()
            status = 1
            try:
                die_with_parent()
                signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                _worker(socket.socket(fileno=descriptors[0]), settings, runtime)
                status = 0
            finally:
                write_out_logs()
                os._exit(status)
        os.close(descriptors[0])


def _is_memory(error: BaseException) -> bool:
    """Whether an error, or one in a group of errors, says that memory ran out."""
    if isinstance(error, BaseExceptionGroup):
        group = cast("BaseExceptionGroup[BaseException]", error)
        return any(_is_memory(one) for one in group.exceptions)
    return isinstance(error, MemoryError)


async def _traced(
    run: Callable[..., Awaitable[TaskResult]],
    settings: EngineSettings,
    runtime: object,
    task: EngineTask,
    fence: int,
    channel: socket.socket,
) -> TaskResult:
    """Run a task within a span that continues the request that asked for it."""
    with tracing.span(
        "deployment" if task.action is None else f"action {task.action.get('method')}",
        parent=task.traceparent,
        vetro_task=task.id,
        vetro_environment=task.environment_id,
        vetro_request=task.request_id,
    ) as span:
        result = await run(settings, runtime, task, fence, channel)
        if result.is_exception:
            span.fail("exception")
        return result


def _worker(channel: socket.socket, settings: EngineSettings, runtime: Any) -> None:
    """Run one task or one call: read the order from the socket, send the result over it."""
    from vetro.engine.worker.deployment import run_task
    from vetro.engine.worker.result_size import limit_memory
    from vetro.engine.worker.static_call import run_call

    limit_memory(settings.engine.worker_memory)
    send_message(channel, {"pid": os.getpid()})
    order = receive_message(channel)
    if order is None:
        return
    try:
        if "call" in order:
            call = EngineCall(**order["call"])
            log_context.say(call=call.id, request_id=call.request_id)
            answer = asdict(asyncio.run(run_call(settings, runtime, call)))
        else:
            task = EngineTask(**order["task"])
            log_context.say(task=task.id, request_id=task.request_id)
            tracing.configure(settings.tracing, "worker")
            result = asyncio.run(
                _traced(run_task, settings, runtime, task, order["fence"], channel)
            )
            if task.delegation:
                # An interrupted task continues in another worker, which needs it.
                from vetro.identity import end_delegation

                asyncio.run(end_delegation(settings.keystone, task.delegation))
            answer = {
                "model": result.model,
                "result": result.result,
                "is_exception": result.is_exception,
                "leaked": [asdict(one) for one in result.leaked],
                "untouched": result.untouched,
                "halfway": result.halfway,
            }
    except OverLimit as error:
        send_message(channel, {"over": str(error)})
        return
    except Exception as error:  # noqa: BLE001 - whatever it was, the service must learn of it
        import traceback

        if _is_memory(error):
            text = (
                f"The program used more than {settings.engine.worker_memory} MiB of memory and was stopped;"
                " engine.worker_memory is the limit"
            )
            send_message(channel, {"over": text})
            return
        if is_full(error):
            send_message(channel, {"over": disk_is_full(error)})
            return
        send_message(
            channel,
            {
                "crash": f"{type(error).__name__}: {error}",
                "details": "".join(traceback.format_exception(error)),
            },
        )
        return
    send_message(channel, answer)
    tracing.flush()
    # The parent reads until this process ends.
    channel.shutdown(socket.SHUT_WR)
