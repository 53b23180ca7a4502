"""Run one plan to its result, in a child process of its own."""

import json
import time

from . import body, log, plan, results
from .errors import AgentError
from .executors import Executor, executor_for
from .files import FileManager
from .process import Outcome

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

MOST = 100
"""Runs of scripts that are reported; later ones are not."""
_LONGEST_NAME = 100


class Timings:
    """How long a plan, from the creation of this on, and each of its scripts take, for a sender that
    traces (docs/guest-agent.md)."""

    def __init__(self) -> None:
        self._started = time.monotonic()
        self._scripts: "list[tuple[str, float, float, bool]]" = []

    def measure(self, name: str, work: "Callable[[], object]") -> "Any":
        """The value of `work()`, the run of a script; its duration is kept."""
        started = time.monotonic()
        failed = True
        try:
            value = work()
            failed = False
            return value
        finally:
            if len(self._scripts) < MOST:
                self._scripts.append((name[:_LONGEST_NAME], started, time.monotonic(), failed))

    def ended(self) -> "dict[str, Any]":
        """`Seconds` of the whole, and of each run of a script `Ago`, the seconds since it began."""
        now = time.monotonic()
        scripts: "list[dict[str, object]]" = []
        for name, started, ended, failed in self._scripts:
            one: "dict[str, object]" = {
                "Name": name,
                "Ago": round(now - started, 6),
                "Seconds": round(ended - started, 6),
            }
            if failed:
                one["Failed"] = True
            scripts.append(one)
        return {"Seconds": round(now - self._started, 6), "Scripts": scripts}


class ScriptCallable:
    """A script in the plan's body: `name(...)` or `name.function(...)`."""

    def __init__(self, executor: Executor, timings: Timings) -> None:
        self._executor = executor
        self._timings = timings

    def __call__(self, *arguments: "Any", **named: "Any") -> Outcome:
        return self._run(None, *arguments, **named)

    def __getattr__(self, function: str) -> object:
        if function.startswith("__"):
            raise AttributeError(function)

        def call(*arguments: "Any", **named: "Any") -> Outcome:
            return self._run(function, *arguments, **named)

        return call

    def _run(self, function: "str | None", *arguments: object, **named: object) -> Outcome:
        executor = self._executor
        return self._timings.measure(
            executor.name, lambda: executor.run(function, *arguments, **named)
        )


def run(checked: plan.Plan, files_directory: str, folder_id: str, limit: int) -> bytes:
    """Run a validated plan; returns its result, whatever happened, in at most `limit` bytes."""
    log.info("Running the plan %s (%s)" % (checked.id, checked.name))
    times = Timings()
    try:
        with FileManager(files_directory, folder_id, checked.files, checked.scripts) as files:
            scripts: "dict[str, Any]" = {}
            for name, script in checked.scripts.items():
                executor = executor_for(script["Type"])(name, script, files)
                scripts[name] = ScriptCallable(executor, times)
            value = body.execute(checked.body, checked.parameters, scripts)
        result = plan.success(checked.id, _serialisable(value))
    except Exception as error:  # noqa: BLE001 whatever a body raises is the plan's result
        log.warning("The plan %s failed: %s: %s" % (checked.id, type(error).__name__, error))
        result = plan.failure(checked.id, error)
        result["Body"]["AdditionalInfo"] = _or_text(result["Body"]["AdditionalInfo"])
    except SystemExit as error:
        # A body that calls sys.exit ends only itself, not the agent.
        result = plan.failure(checked.id, AgentError("The body called exit(%s)" % error))
    if checked.timed:
        result["Timings"] = times.ended()
    log.info("The plan %s ended with code %d" % (checked.id, result["ErrorCode"]))
    return results.fit(result, limit)


def _serialisable(value: object) -> object:
    try:
        json.dumps(value, allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise AgentError("The body returned something that is not JSON: %s" % error) from error
    return value


def _or_text(value: object) -> object:
    try:
        json.dumps(value, allow_nan=False)
    except (TypeError, ValueError, RecursionError):
        return repr(value)
    return value
