"""Run one plan to its result, in a child process of its own."""

import json

from . import body, log, plan, results, timings
from .errors import AgentError
from .executors import ScriptCallable, executor_for
from .files import FileManager

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def run(checked: plan.Plan, files_directory: str, folder_id: str, limit: int) -> bytes:
    """Run a validated plan; returns its result, whatever happened, in at most `limit` bytes."""
    log.info("Running the plan %s (%s)" % (checked.id, checked.name))
    times = timings.Timings()
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
