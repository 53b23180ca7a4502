"""Application scripts: one executable file, run by the shell."""

import os
import stat

from ..errors import AgentError
from ..plan import file_id_of
from ..process import Outcome, run
from . import Executor, register

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


@register("Application")
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
