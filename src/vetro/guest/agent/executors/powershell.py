"""Running a plan of format 1 with PowerShell Core (guest-agent.md §4).

The plan's folder keeps each command's entry as soon as it is there. A plan that was interrupted by a
restart of the machine continues with the next command; an interrupted command is not repeated: its entry is
an exception, and the plan ends.
"""

import json
import os

from .. import log
from ..documents import is_list, is_map, read_json
from ..plan_v1 import PROGRAM, PowerShellPlan, program
from ..process import OUTPUT_FOLDER, run
from ..results import fit_v1
from ..spool import write_file

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

FOLDER = "powershell"
"""Where in a plan's folder its files are; they go with it."""


def run_plan(checked: PowerShellPlan, plan_folder: str, limit: int) -> "tuple[bytes, bool]":
    """Run a plan, or the rest of it; its result, and whether the machine is to be restarted first."""
    log.info("Running the plan %s (%s) with %s" % (checked.id, checked.name, PROGRAM))
    result: "dict[str, Any]"
    try:
        result = _run(checked, os.path.join(plan_folder, FOLDER))
    except _NotLoaded as error:
        result = {"IsException": True, "Result": error.items}
    except Exception as error:  # noqa: BLE001 whatever happened, the plan has to be answered
        result = {"IsException": True, "Result": [type(error).__name__, str(error)]}
    result["SourceID"] = checked.id
    failed: bool = result["IsException"] or any(one["IsException"] for one in result["Result"])
    log.info("The plan %s ended%s" % (checked.id, " with an error" if failed else ""))
    return fit_v1(result, limit), checked.wants_restart(failed)


def _run(checked: PowerShellPlan, folder: str) -> "dict[str, Any]":
    os.makedirs(folder, mode=0o700, exist_ok=True)
    entries = _entries(folder, len(checked.commands))
    first = len(entries)
    if os.path.exists(os.path.join(folder, "begun-%d" % first)):
        entries.append(_cut_off(checked, first, "the guest was restarted while it ran"))
    elif first < len(checked.commands) or not checked.commands:
        entries = _execute(checked, folder, first)
    return {"IsException": False, "Result": entries}


def _execute(checked: PowerShellPlan, folder: str, first: int) -> "list[dict[str, object]]":
    names = ["script-%03d.ps1" % number for number in range(len(checked.scripts))]
    for name, content in zip(names, checked.scripts):
        write_file(os.path.join(folder, name), content)
    work = {"Scripts": names, "Commands": checked.commands, "First": first}
    write_file(os.path.join(folder, "work.json"), json.dumps(work).encode("utf-8"))
    session = os.path.join(folder, "session.ps1")
    write_file(session, TEXT.encode("utf-8"))
    options = ["-NoLogo", "-NoProfile", "-NonInteractive", "-File", session]
    outcome = run(
        [program() or PROGRAM, *options, folder], folder, os.path.join(folder, OUTPUT_FOLDER)
    )
    failed = _read(os.path.join(folder, "failed.json"))
    if is_list(failed):
        raise _NotLoaded(failed)
    entries = _entries(folder, len(checked.commands))
    if len(entries) == len(checked.commands) or (entries and entries[-1]["IsException"]):
        return entries
    why = "%s ended with code %d: %s" % (
        PROGRAM,
        outcome["exitCode"],
        outcome["stderr"] or outcome["stdout"] or "it printed nothing",
    )
    if not os.path.exists(os.path.join(folder, "begun-%d" % len(entries))):
        raise OSError(why)
    return [*entries, _cut_off(checked, len(entries), why)]


class _NotLoaded(Exception):
    """A script could not be loaded: type and message."""

    def __init__(self, items: "list[Any]") -> None:
        super().__init__(items)
        self.items = items


def _entries(folder: str, count: int) -> "list[dict[str, object]]":
    """The entries of the commands that have run, in order."""
    found: "list[dict[str, object]]" = []
    for number in range(count):
        entry = _read(os.path.join(folder, "entry-%d.json" % number))
        if not is_map(entry) or not is_list(entry.get("Result")):
            break
        found.append({"IsException": bool(entry.get("IsException")), "Result": entry["Result"]})
        if entry.get("IsException"):
            break
    return found


def _cut_off(checked: PowerShellPlan, number: int, why: str) -> "dict[str, object]":
    name = checked.commands[number]["Name"]
    message = "The command was cut off: %s; it is not run again" % why
    return {"IsException": True, "Result": ["Interrupted", message, name]}


def _read(path: str) -> "Any":
    try:
        with open(path, "rb") as stream:
            return read_json(stream.read())
    except (FileNotFoundError, ValueError):
        return None


# All scripts go into one session, then command after command is run. Between `pwsh` and the agent stand
# files of the plan's folder, each renamed into place when it is whole, so that a crash leaves it either
# absent or complete:
#
#     work.json          {"Scripts": [file names], "Commands": [{"Name", "Arguments"}], "First": n}
#     begun-<n>          command n has begun
#     entry-<n>.json     its entry of the result: {"IsException": …, "Result": […]}
#     failed.json        [type, message]: a script could not be loaded, no command ran
TEXT = r"""
param([Parameter(Mandatory = $true)][string]$VetroFolder)

function Write-VetroFile([string]$Name, $Value) {
    $path = Join-Path $VetroFolder $Name
    $text = ConvertTo-Json -InputObject $Value -Depth 20 -Compress
    [System.IO.File]::WriteAllText("$path.new", $text)
    [System.IO.File]::Move("$path.new", $path, $true)
}

function ConvertTo-VetroValue($Value) {
    if ($Value -is [string] -or $Value -is [System.Collections.IDictionary]) { return $Value }
    if ($Value -is [ValueType] -and $Value.GetType().IsPrimitive) { return $Value }
    if ($Value -is [System.Management.Automation.PSCustomObject]) {
        $map = [ordered]@{}
        foreach ($property in $Value.PSObject.Properties) { $map[$property.Name] = [string]$property.Value }
        return $map
    }
    return [string]$Value
}

function Get-VetroError($Record, [string]$Command) {
    $exception = $Record.Exception
    return [object[]]@($exception.GetType().FullName, $exception.Message, $Command, $Record.ScriptStackTrace)
}

$vetroText = Get-Content -Raw -LiteralPath (Join-Path $VetroFolder 'work.json')
$vetroWork = ConvertFrom-Json -InputObject $vetroText -AsHashtable
try {
    foreach ($vetroScript in $vetroWork.Scripts) { . (Join-Path $VetroFolder $vetroScript) }
} catch {
    Write-VetroFile 'failed.json' ([object[]]@($_.Exception.GetType().FullName, $_.Exception.Message))
    exit 1
}
for ($vetroAt = $vetroWork.First; $vetroAt -lt $vetroWork.Commands.Count; $vetroAt++) {
    $vetroCommand = $vetroWork.Commands[$vetroAt]
    Write-VetroFile "begun-$vetroAt" $true
    try {
        $vetroOutput = @()
        if ($vetroCommand.Name) {
            $vetroArguments = $vetroCommand.Arguments
            $vetroOutput = @(& $vetroCommand.Name @vetroArguments)
        }
        $vetroOutput = @($vetroOutput | Where-Object { $null -ne $_ })
        $vetroValues = @($vetroOutput | ForEach-Object { ConvertTo-VetroValue $_ })
        $vetroEntry = @{ IsException = $false; Result = [object[]]$vetroValues }
    } catch {
        $vetroEntry = @{ IsException = $true; Result = (Get-VetroError $_ $vetroCommand.Name) }
    }
    Write-VetroFile "entry-$vetroAt.json" $vetroEntry
    if ($vetroEntry.IsException) { break }
}
exit 0
"""
