"""The executors of the script types (guest-agent.md §7.5): a file that the shell runs, Chef, Puppet."""

import json
import os
import stat

from ..errors import AgentError
from ..plan import file_id_of
from ..process import Outcome, run
from . import Executor

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_HIERA = {
    "version": 5,
    "defaults": {"datadir": "hieradata", "data_hash": "json_data"},
    "hierarchy": [{"name": "attributes", "path": "attributes.json"}],
}


class ApplicationExecutor(Executor):
    """`script(commandline='', input=None)` runs the entry file in the script's folder."""

    def run(
        self,
        function: "str | None",
        commandline: str = "",
        input: "str | None" = None,  # noqa: A002 the name plans use
        **named: "Any",
    ) -> Outcome:
        if named:
            raise TypeError(
                "Script %r takes commandline and input, not %s" % (self.name, ", ".join(named))
            )
        folder = self.files.script_folder(self.name)
        entry = self.files.place(self.entry_point, self.name)
        for item in self.file_ids:
            self.files.place(str(file_id_of(item)), self.name)
        if os.path.isdir(entry):
            raise AgentError(
                "Script %r: the EntryPoint %r is a folder, as every downloaded file is; let an inline"
                " script run what is in it" % (self.name, self.entry_point)
            )
        os.chmod(entry, os.stat(entry).st_mode | stat.S_IRUSR | stat.S_IXUSR)
        name = os.path.relpath(entry, folder)
        command = '"./%s" %s' % (_in_double_quotes(name), commandline)
        outcome = run(
            command,
            folder,
            self.output_folder,
            capture_stdout=self.option("captureStdout"),
            capture_stderr=self.option("captureStderr"),
            standard_input=input,
        )
        return self.check(outcome)


def _in_double_quotes(name: str) -> str:
    for special in ("\\", '"', "$", "`"):
        name = name.replace(special, "\\" + special)
    return name


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

    def start(self, command: "list[str]", folder: str) -> Outcome:
        """Run a program that the machine may lack."""
        try:
            return run(command, folder, self.output_folder)
        except OSError as error:
            raise self.preparation_failed(
                "%s does not run on this machine: %s" % (command[0], error)
            ) from error

    def run_tool(self, command: "list[str]", folder: str) -> Outcome:
        """Run the tool; lines with ERROR on its standard output count as errors too."""
        outcome = self.start(command, folder)
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


class ChefExecutor(ToolExecutor):
    """`script(attributes=None)`; the entry point is `<cookbook>::<recipe>`."""

    def run(
        self, function: "str | None", attributes: "dict[str, Any] | None" = None, **named: "Any"
    ) -> Outcome:
        cookbook, _, recipe = self.entry_point.rpartition("::")
        folder = self.prepare()
        cookbooks = folder
        if self.options.get("useBerkshelf", False):
            cookbooks = self._vendor(folder, cookbook)
        self.write(folder, "solo.rb", "cookbook_path %s\n" % json.dumps(cookbooks))
        node: "dict[str, Any]" = {"run_list": ["recipe[%s::%s]" % (cookbook, recipe)]}
        if attributes is not None:
            node[cookbook] = attributes
        self.write(folder, "node.json", json.dumps(node))
        return self.run_tool(["chef-solo", "-j", "node.json", "-c", "solo.rb"], folder)

    def _vendor(self, folder: str, cookbook: str) -> str:
        """Fetch the cookbook's dependencies with Berkshelf; returns their folder."""
        berksfile = self.options.get("berksfilePath") or os.path.join(cookbook, "Berksfile")
        path = os.path.join(folder, berksfile)
        if not os.path.isfile(path):
            raise self.preparation_failed("there is no Berksfile %s" % berksfile)
        target = os.path.join(folder, "berks-cookbooks")
        outcome = self.start(["berks", "vendor", "--berksfile=%s" % path, target], folder)
        if outcome["exitCode"] != 0:
            raise self.preparation_failed(
                "berks vendor exited with code %d" % outcome["exitCode"],
                outcome["stderr"] or outcome["stdout"],
            )
        return target


class PuppetExecutor(ToolExecutor):
    """`script(attributes=None)`; the entry point is `<module>::<class>`, class may be empty."""

    def run(
        self, function: "str | None", attributes: "dict[str, Any] | None" = None, **named: "Any"
    ) -> Outcome:
        module, _, name = self.entry_point.rpartition("::")
        folder = self.prepare()
        wanted = "%s::%s" % (module, name) if name else module
        self.write(folder, "manifest.pp", "class { %s: }\n" % _quoted(wanted))
        if not os.path.exists(os.path.join(folder, "hiera.yaml")):
            self.write(folder, "hiera.yaml", json.dumps(_HIERA, indent=1) + "\n")
        data = {"%s::%s" % (module, key): value for key, value in (attributes or {}).items()}
        self.write(folder, "hieradata/attributes.json", json.dumps(data))
        return self.run_tool(
            [
                "puppet",
                "apply",
                "--hiera_config=hiera.yaml",
                "--modulepath=%s" % folder,
                "manifest.pp",
            ],
            folder,
        )


def _quoted(text: str) -> str:
    return "'%s'" % text.replace("\\", "\\\\").replace("'", "\\'")


EXECUTORS: "dict[str, type[Executor]]" = {
    "Application": ApplicationExecutor,
    "Chef": ChefExecutor,
    "Puppet": PuppetExecutor,
}
