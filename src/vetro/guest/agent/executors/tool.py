"""The common part of Chef and Puppet scripts: a two-part entry point and a tool's output."""

import os

from ..errors import AgentError
from ..plan import file_id_of
from ..process import Outcome, run
from . import Executor


class ToolExecutor(Executor):
    """Runs a configuration management tool on the script's folder."""

    tool = ""

    def prepare(self) -> str:
        """Place the script's files; returns the script's folder."""
        folder = self.files.script_folder(self.name)
        for item in self.file_ids:
            try:
                self.files.place(str(file_id_of(item)), self.name)
            except AgentError:
                raise
            except OSError as error:
                raise self.preparation_failed("cannot place %r: %s" % (item, error)) from error
        return folder

    def run_tool(self, command: "list[str]", folder: str) -> Outcome:
        """Run the tool; lines with ERROR on its standard output count as errors too."""
        try:
            outcome = run(command, folder, self.output_folder, True, True)
        except OSError as error:
            raise self.preparation_failed(
                "%s does not run on this machine: %s" % (command[0], error)
            ) from error
        errors: "list[str]" = [
            line for line in (outcome["stdout"] or "").splitlines() if "ERROR" in line
        ]
        if errors:
            if outcome["stderr"]:
                errors.insert(0, outcome["stderr"])
            outcome["stderr"] = "\n".join(errors)
        if not self.option("captureStdout"):
            outcome["stdout"] = None
        if not self.option("captureStderr"):
            outcome["stderr"] = None
        return self.check(outcome)

    def write(self, folder: str, name: str, text: str) -> str:
        """Write one file for the tool; returns its path."""
        path = os.path.join(folder, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8") as stream:
            stream.write(text)
        return path
