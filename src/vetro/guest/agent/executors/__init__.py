"""Executors run scripts: one executor per script type (guest-agent.md §7.5).

An instance of an executor is created for one script of one plan and called by the plan's body.
"""

import os

from ..errors import AgentError, ExecutorError
from ..process import OUTPUT_FOLDER, Outcome

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ..files import FileManager


class Executor:
    """Runs one script. Subclasses implement `run`."""

    def __init__(self, name: str, script: "dict[str, Any]", files: "FileManager") -> None:
        self.name = name
        self.entry_point: "str" = script["EntryPoint"]
        self.options: "dict[str, Any]" = script.get("Options") or {}
        self.files = files
        self.file_ids: "list[Any]" = script.get("Files") or []
        self.output_folder = os.path.join(files.root, OUTPUT_FOLDER)

    def run(self, function: "str | None", *arguments: "Any", **named: "Any") -> Outcome:
        """Run the script; `function` is the name used in `script.function(...)`, else None."""
        raise NotImplementedError

    def option(self, name: str) -> bool:
        """The value of an option that defaults to true."""
        return bool(self.options.get(name, True))

    def check(self, outcome: Outcome) -> Outcome:
        """Raise `ExecutorError` for a bad exit code unless the plan disables that."""
        if self.option("verifyExitcode") and outcome["exitCode"] != 0:
            raise ExecutorError(
                "Script %r exited with code %d" % (self.name, outcome["exitCode"]), dict(outcome)
            )
        return outcome

    def preparation_failed(self, message: str, stderr: "str | None" = None) -> ExecutorError:
        """The error for a script whose run could not be prepared."""
        return ExecutorError(
            "Script %r: %s" % (self.name, message),
            {"exitCode": 2, "stdout": None, "stderr": stderr or message},
        )


def executor_for(kind: str) -> "type[Executor]":
    """The executor class of a script type. Raises `AgentError` for an unknown type."""
    from .scripts import EXECUTORS

    try:
        return EXECUTORS[kind]
    except KeyError:
        raise AgentError("There is no executor for scripts of type %r" % kind) from None
