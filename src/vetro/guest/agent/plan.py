"""Plans and results as documents: the rules for a valid plan, the content of a result.

The rules are those of guest-agent.md §7.3, in the order of its table; the first violated rule
decides. Results are described in §5.5.
"""

import math
import os
import re
import time

from .documents import is_list, is_map, read_json
from .errors import AgentError, InvalidPlan, UnsupportedFormat

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

NEWEST_FORMAT = (2, 2, 0)
_NUMBER = re.compile(r"[0-9]{1,9}\Z")
_LARGEST_STAMP = 1 << 63
_SCRIPT_TYPES = ("Application", "Chef", "Puppet")


class Plan:
    """A validated execution plan."""

    def __init__(self, document: "dict[str, Any]") -> None:
        self.id: "str | None" = document.get("ID")
        self.name = str(document.get("Name") or document.get("ID") or "plan")
        self.body: "str" = document["Body"]
        self.parameters: "dict[str, Any]" = document.get("Parameters") or {}
        self.scripts: "dict[str, dict[str, Any]]" = document["Scripts"]
        self.files: "dict[str, dict[str, Any]]" = document.get("Files") or {}
        self.timeout = seconds_of(document, "Timeout")
        """Seconds the whole plan may run; None: the configured default."""
        self.lifetime = seconds_of(document, "Lifetime")
        """Seconds after its arrival in which its sender waits for the result; None: no limit."""
        self.timed = document.get("Timings") is True
        """Whether the sender wants to know how long the plan and its scripts took."""


def parse(body: bytes, message_id: "str | None", reply_to: "str | None") -> "dict[str, Any]":
    """The plan document of a message. Raises ValueError when it is not a JSON map.

    `ID` and `ReplyTo` are texts that a transport can carry, or absent: any other value is treated
    as absent.
    """
    value = read_json(body)
    if not is_map(value):
        raise ValueError("the plan is not a map but %s" % type(value).__name__)
    document: "dict[str, object]" = value
    for key, said in (("ID", message_id), ("ReplyTo", reply_to)):
        if not _can_travel(document.get(key)):
            document.pop(key, None)
            if said and _can_travel(said):
                document[key] = said
    return document


def _can_travel(name: object) -> bool:
    """True for a text that can be a message's id or a queue's name."""
    if not isinstance(name, str):
        return False
    try:
        return 0 < len(name.encode("utf-8")) <= 255
    except UnicodeEncodeError:
        return False


def validate(document: "dict[str, object]") -> Plan:
    """Check a plan document. Raises `InvalidPlan` or `UnsupportedFormat`, and nothing else."""
    try:
        return _validate(document)
    except AgentError:
        raise
    except Exception as error:
        # No rule mentions it, but a document that cannot be checked is not a valid plan.
        raise InvalidPlan(
            "The plan cannot be read: %s: %s" % (type(error).__name__, error)
        ) from error


def check_isolation(document: "dict[str, object]") -> None:
    """Refuse a plan that is not declared safe for a shared machine.

    Raises `InvalidPlan`. Only for guests without isolation, whose plans change the host.
    """
    if document.get("Isolation") != "optional":
        raise InvalidPlan(
            "The plan %s was not run: this instance has no isolation (driver 'process'), and the plan"
            " would change the machine that it shares. Deploy on a node with containers or virtual"
            " machines. Here plans run only when the manifest of every package that the environment uses"
            " says 'Isolation: optional'" % (document.get("Name") or document.get("ID") or "")
        )


def _validate(document: "dict[str, Any]") -> Plan:
    version = _version(document.get("FormatVersion", "1.0.0"))
    if version > NEWEST_FORMAT:
        raise UnsupportedFormat(
            "Range of supported plan format versions ends at 2.2.0; the plan has %s"
            % document["FormatVersion"]
        )
    if "Scripts" not in document:
        raise InvalidPlan("Scripts are missing")
    for key in ("Scripts", "Files", "Options"):
        if key in document and not is_map(document[key]):
            raise InvalidPlan("%s is not a dictionary" % key)
    files = document.get("Files", {})
    for name, script in document["Scripts"].items():
        _check_script(name, script, files, version)
    for file_id, entry in files.items():
        _check_file(file_id, entry, version)
    if not isinstance(document.get("Body"), str):
        raise InvalidPlan("Body is missing or not a string")
    _map_or_empty(document.get("Parameters"), "Parameters")
    return Plan(document)


def stamp_of(document: "dict[str, object]") -> "int | None":
    """The plan's `Stamp`; None without one. Raises `InvalidPlan` for an invalid stamp."""
    stamp = document.get("Stamp")
    if stamp is None:
        return None
    if isinstance(stamp, bool) or not isinstance(stamp, int) or abs(stamp) >= _LARGEST_STAMP:
        raise InvalidPlan("Stamp is not an integer of at most 63 bits")
    return stamp


def seconds_of(document: "dict[str, object]", key: str) -> "float | None":
    """A plan's value in seconds; None if it is absent. Raises `InvalidPlan`."""
    value = document.get(key)
    if value is None:
        return None
    try:
        if not isinstance(value, bool) and isinstance(value, (int, float)) and value > 0:
            seconds = float(value)
            if not math.isinf(seconds):
                return seconds
    except OverflowError:
        pass  # an integer too large for a float: refused below
    raise InvalidPlan("%s is not a number of seconds above 0" % key)


def _version(text: object) -> "tuple[int, int, int]":
    """Major, minor and patch; a pre-release counts as its release (2.2.0-rc1 is accepted)."""
    parts = str(text).split("+")[0].split("-")[0].split(".")
    if not 1 <= len(parts) <= 3 or not all(_NUMBER.match(part) for part in parts):
        raise InvalidPlan("FormatVersion %.50r is not a version number" % str(text))
    numbers = [int(part) for part in parts] + [0, 0]
    return (numbers[0], numbers[1], numbers[2])


def _check_script(
    name: str, value: "Any", files: "dict[str, Any]", version: "tuple[int, int, int]"
) -> None:
    where = "Script %r" % name
    if "/" in name or "\x00" in name or name in ("", ".", ".."):
        raise InvalidPlan("%s: the name of a script is one path component" % where)
    if not is_map(value):
        raise InvalidPlan("%s is not a dictionary" % where)
    script: "dict[str, Any]" = value
    for key in ("Type", "EntryPoint"):
        if not isinstance(script.get(key), str):
            raise InvalidPlan("%s: %s is missing or not a string" % (where, key))
    kind: str = script["Type"]
    entry: str = script["EntryPoint"]
    if version < (2, 1, 0):
        if kind != "Application":
            raise InvalidPlan(
                "%s: type %r needs plan format 2.1.0; in 2.0 only Application exists"
                % (where, kind)
            )
    elif kind not in _SCRIPT_TYPES:
        raise InvalidPlan(
            "%s: type %r is unknown; use one of %s" % (where, kind, ", ".join(_SCRIPT_TYPES))
        )
    if kind == "Application":
        if entry not in files:
            raise InvalidPlan("%s: EntryPoint %r is not in Files" % (where, entry))
    elif "::" not in entry:
        raise InvalidPlan("%s: EntryPoint %r must look like <module>::<name>" % (where, entry))
    options: "dict[str, object]" = _map_or_empty(script.get("Options"), where + ": Options")
    for option in ("useBerkshelf", "berksfilePath"):
        if option in options and (version < (2, 2, 0) or kind != "Chef"):
            raise InvalidPlan(
                "%s: option %s exists for Chef scripts since plan format 2.2.0" % (where, option)
            )
    for option in ("captureStdout", "captureStderr", "verifyExitcode"):
        if not isinstance(options.get(option, True), bool):
            raise InvalidPlan("%s: option %s is not true or false" % (where, option))
    extra: "Any" = script.get("Files")
    if extra is not None and not is_list(extra):
        raise InvalidPlan("%s: Files is not a list" % where)
    items: "list[Any]" = extra or []
    for item in items:
        file_id = file_id_of(item)
        if file_id not in files:
            raise InvalidPlan("%s: file %r is not in Files" % (where, file_id))


def _map_or_empty(value: "Any", where: str) -> "dict[str, object]":
    if value is not None and not is_map(value):
        raise InvalidPlan("%s is not a dictionary" % where)
    return value or {}


def _check_file(file_id: str, value: "Any", version: "tuple[int, int, int]") -> None:
    where = "File %r" % file_id
    if "/" in file_id or file_id in ("", ".", ".."):
        raise InvalidPlan("%s: a file id is one path component" % where)
    if not is_map(value):
        raise InvalidPlan("%s is not a dictionary" % where)
    entry: "dict[str, Any]" = value
    if version < (2, 1, 0) and ("Type" in entry or "URL" in entry):
        raise InvalidPlan("%s: downloadable files need plan format 2.1.0" % where)
    if "Type" in entry:
        needed = ("URL", "Name")
        if entry["Type"] != "Downloadable":
            raise InvalidPlan("%s: type %r is unknown; use Downloadable" % (where, entry["Type"]))
    elif "Body" in entry:
        needed = ("BodyType", "Name")
    else:
        raise InvalidPlan("%s has neither a Body nor a Type" % where)
    for key in needed:
        if not isinstance(entry.get(key), str):
            raise InvalidPlan("%s: %s is missing or not a string" % (where, key))
    if "Type" not in entry:
        if entry["BodyType"] not in ("Text", "Base64"):
            raise InvalidPlan(
                "%s: BodyType %r is unknown; use Text or Base64" % (where, entry["BodyType"])
            )
        if not isinstance(entry["Body"], str):
            raise InvalidPlan("%s: Body is not a string" % where)
    if leaves_folder(entry["Name"]):
        raise InvalidPlan("%s: the name %r leaves the script's folder" % (where, entry["Name"]))


def file_id_of(item: "Any") -> object:
    """The id in an item of a script's `Files`: a string, or a map whose first key is the id."""
    if is_map(item):
        keys: "list[Any]" = list(item)
        return keys[0] if keys else None
    return item


def leaves_folder(name: str) -> bool:
    """True if a relative path is empty, absolute or climbs out of its folder."""
    parts = name.split("/")
    return not name or name.startswith("/") or ".." in parts or "\x00" in name


def success(plan_id: "str | None", value: object) -> "dict[str, object]":
    """The result of a plan whose body returned `value`."""
    return _result(plan_id, 0, value)


def failure(plan_id: "str | None", error: Exception) -> "dict[str, Any]":
    """The result of a plan that ended with `error`."""
    if isinstance(error, AgentError):
        body = {"Message": error.message, "AdditionalInfo": error.additional}
        return _result(plan_id, error.code, body)
    message = str(error) or type(error).__name__
    body = {"Message": message, "AdditionalInfo": {"type": type(error).__name__}}
    return _result(plan_id, 1, body)


def _fresh_id() -> str:
    """A version 4 UUID in 32 hex digits, without importing `uuid` for it."""
    number = int.from_bytes(os.urandom(16), "big")
    number &= ~(0xF000 << 64) & ~(0xC000 << 48)
    number |= (0x4000 << 64) | (0x8000 << 48)
    return "%032x" % number


def _result(plan_id: "str | None", code: int, body: object) -> "dict[str, object]":
    now = time.time()
    return {
        "FormatVersion": "2.0.0",
        "ID": _fresh_id(),
        "SourceID": plan_id,
        "Action": "Execution:Result",
        "ErrorCode": code,
        "Body": body,
        "Time": "%s.%06d"
        % (time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(now)), int(now * 1000000) % 1000000),
    }
