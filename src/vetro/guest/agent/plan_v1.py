"""Plans of format 1 (guest-agent.md §4): PowerShell scripts and the commands to call in them."""

import base64
import binascii
import os

from .documents import is_list, is_map
from .errors import InvalidPlan
from .plan import seconds_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

PROGRAM = "pwsh"


class PowerShellPlan:
    """A validated plan of format 1."""

    def __init__(self, document: "dict[str, Any]") -> None:
        self.id: "str | None" = document.get("ID")
        self.name = str(document.get("Name") or document.get("ID") or "plan")
        self.scripts = _scripts(document.get("Scripts"))
        """The content of each script, in order."""
        self.commands = _commands(document.get("Commands"))
        """`{"Name": text or None, "Arguments": map}`, in order."""
        self.reboot = _reboot(document.get("RebootOnCompletion"))
        """0 never, 1 only if no command failed, 2 always."""
        self.timeout = seconds_of(document, "Timeout")
        self.lifetime = seconds_of(document, "Lifetime")

    def wants_restart(self, failed: bool) -> bool:
        """Whether the machine is restarted before the result is sent."""
        return self.reboot == 2 or (self.reboot == 1 and not failed)


def program() -> "str | None":
    """The path of PowerShell Core; None on a machine without it."""
    for folder in (os.environ.get("PATH") or os.defpath).split(os.pathsep):
        path = os.path.join(folder, PROGRAM)
        if folder and os.path.isfile(path) and os.access(path, os.X_OK):
            return path
    return None


def is_first_format(document: "dict[str, object]") -> bool:
    """Whether a document is a plan of format 1.

    Raises `InvalidPlan` for one that this machine cannot run (§7.3, rule 9).
    """
    version = document.get("FormatVersion")
    if version is not None and not str(version).startswith("1."):
        return False
    if is_map(document.get("Scripts")):
        return False
    if program() is None:
        if not is_list(document.get("Scripts")) and "Commands" not in document:
            return False  # no plan at all
        raise InvalidPlan(
            "Scripts is not a dictionary: the plan is of format 1, for PowerShell, and there is no %s on"
            " the PATH of the agent. Use an image that has it" % PROGRAM
        )
    return True


def _scripts(value: object) -> "list[bytes]":
    found: "list[bytes]" = []
    for index, text in enumerate(_list(value, "Scripts")):
        try:
            # Line breaks of MIME are not part of it.
            found.append(base64.b64decode("".join(text.split()), validate=True))
        except (AttributeError, binascii.Error, ValueError) as error:
            raise InvalidPlan("Scripts[%d] is not base64" % index) from error
    return found


def _commands(value: object) -> "list[dict[str, Any]]":
    found: "list[dict[str, object]]" = []
    for index, item in enumerate(_list(value, "Commands")):
        where = "Commands[%d]" % index
        if not is_map(item):
            raise InvalidPlan("%s is not a dictionary" % where)
        command: "dict[str, object]" = item
        name, arguments = command.get("Name"), command.get("Arguments")
        if name is not None and not isinstance(name, str):
            raise InvalidPlan("%s: Name is not a string" % where)
        if arguments is not None and not is_map(arguments):
            raise InvalidPlan("%s: Arguments is not a dictionary" % where)
        found.append({"Name": name or None, "Arguments": arguments or {}})
    return found


def _list(value: "Any", key: str) -> "list[Any]":
    if value is not None and not is_list(value):
        raise InvalidPlan("%s is not a list" % key)
    return value or []


def _reboot(value: object) -> int:
    for number in (0, 1, 2):
        if value == str(number) or (value == number and not isinstance(value, (bool, float))):
            return number
    if value is None:
        return 0
    raise InvalidPlan("RebootOnCompletion is %.50r, not 0, 1 or 2" % value)
