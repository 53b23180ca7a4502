"""Execution plans: from an author's template to the wire, and results back (guest-agent.md §4-5)."""

from __future__ import annotations

import base64
import copy
import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import cast

from vetro.engine.errors import AgentException
from vetro.json_values import Json
from vetro.muranopl import Session

CORE_LIBRARY = "io.murano"
_URL = re.compile(r"[a-zA-Z][a-zA-Z0-9+.-]*://[^/]+")


def isolation_is_optional(session: Session) -> bool:
    """Whether every package with an object in the environment says `Isolation: optional`.

    Guests of the driver `process` share their machine with others and run only plans that say so
    (docs/guest.md). The core library acts for its callers and is not counted.
    """
    packages = session.packages_in_use()
    return all(
        package.name == CORE_LIBRARY
        or getattr(package.source, "isolation", "required") == "optional"
        for package in packages
    )


@dataclass
class Stamps:
    """Strictly rising plan numbers: time × 10 000."""

    last: int = 0

    def pass_over(self, stamp: int) -> None:
        """Give only numbers above ``stamp``, which an earlier session has given."""
        self.last = max(self.last, stamp)

    def next(self, unix_time: float) -> int:
        """A number above every earlier one."""
        self.last = max(self.last + 1, int(unix_time * 10_000))
        return self.last


@dataclass
class PlanBuilder:
    """Builds plans; ``read(name)`` returns a file below ``Resources/scripts/`` as bytes."""

    read: Callable[[str], bytes]
    new_id: Callable[[], str]
    stamp: Callable[[], int]

    def build(self, template: Json) -> dict[str, Json]:
        """The wire plan of a template. Errors: ``ValueError`` (§5.4)."""
        if not isinstance(template, dict):
            raise ValueError("Incorrect execution plan")
        plan = cast("dict[str, Json]", copy.deepcopy(cast("Json", template)))
        version = str(plan.get("FormatVersion") or "1.0.0")
        return self._v1(plan) if version.startswith("1.") else self._v2(plan)

    def _v1(self, plan: dict[str, Json]) -> dict[str, Json]:
        plan["Scripts"] = [
            base64.b64encode(self.read(str(name))).decode()
            for name in cast("list[Json]", plan.get("Scripts") or [])
        ]
        plan["Stamp"] = self.stamp()
        return plan

    def _v2(self, plan: dict[str, Json]) -> dict[str, Json]:
        plan["ID"] = self.new_id()
        plan["Stamp"] = self.stamp()
        plan.setdefault("Action", "Execute")
        files = cast("dict[str, Json]", plan.setdefault("Files", {}))
        known = {str(body.get("Name")): id_ for id_, body in files.items()}
        scripts = cast("dict[str, dict[str, Json]]", plan.get("Scripts") or {})
        for name, script in scripts.items():
            if "EntryPoint" not in script:
                raise ValueError(f"No entry point in script {name}")
            if script.get("Type") == "Application":
                script["EntryPoint"] = self._place(script["EntryPoint"], files, known)
            script["Files"] = [
                self._place(item, files, known)
                for item in cast("list[Json]", script.get("Files") or [])
            ]
        return plan

    def _place(self, item: Json, files: dict[str, Json], known: dict[str, str]) -> str:
        """The id of a file; each name is attached once."""
        alias, source = None, item
        if isinstance(item, dict):
            pairs = list(cast("dict[str, str]", item).items())
            if len(pairs) != 1:
                raise ValueError(
                    f"A file of a script must be a name or one 'name: path' pair: {item}"
                )
            alias, source = pairs[0]
        text = str(source)
        binary = text.startswith("<") and text.endswith(">")
        path = text[1:-1] if binary else text
        is_url = _URL.match(path) is not None
        name = alias or (path.rsplit("/", 1)[-1] if is_url else path)
        if name in known:
            return known[name]
        body: dict[str, Json]
        if is_url:
            body = {"Name": name, "URL": path, "Type": "Downloadable"}
        elif binary:
            content = base64.b64encode(self.read(path)).decode() + "\n"
            body = {"Name": name, "BodyType": "Base64", "Body": content}
        else:
            content = self.read(path).decode("utf-8").replace("\r\n", "\n").replace("\r", "\n")
            body = {"Name": name, "BodyType": "Text", "Body": content}
        id_ = self.new_id()
        files[id_] = body
        known[name] = id_
        return id_


def is_second_format(plan: Json) -> bool:
    """Whether a plan is for an agent of format 2."""
    if not isinstance(plan, dict):
        return False
    version = cast("dict[str, Json]", plan).get("FormatVersion")
    return not str(version or "1.0.0").startswith("1.")


def bounded(plan: dict[str, Json], seconds: float) -> dict[str, Json]:
    """The plan of a call that waits for ``seconds``; plans of format 1 are returned unchanged.

    ``Timeout`` is how long the plan may run: the author's value, but at most the time that the call
    waits. ``Lifetime``: the plan is not started more than that long after its arrival.
    """
    if not is_second_format(plan) or seconds <= 0:
        return plan
    whole = int(seconds) if seconds == int(seconds) else seconds
    own = plan.get("Timeout")
    number = isinstance(own, (int, float)) and not isinstance(own, bool)
    if own is None or (number and own > seconds):
        plan["Timeout"] = whole
    plan.setdefault("Lifetime", whole)
    return plan


def read_result(body: bytes) -> Json:
    """A result's document; an error result when it cannot be read."""
    try:
        return json.loads(body)
    except (ValueError, RecursionError) as error:
        message = f"The agent's result cannot be read: {error}"
        return {"FormatVersion": "2.0.0", "ErrorCode": 1, "Body": {"Message": message}}


def decode_result(result: Json) -> Json:
    """The value of a result. Errors: ``AgentException`` with the error map (§6.1)."""
    if not result:
        return None
    given = cast("dict[str, Json]", result)
    if str(given.get("FormatVersion") or "1.0.0").startswith("1."):
        return _decode_v1(given)
    if not given.get("ErrorCode"):
        return given.get("Body")
    body: Json = given.get("Body") or {}
    rest: dict[str, Json] = {}
    message = details = None
    if isinstance(body, dict):
        values = cast("dict[str, Json]", body)
        message, details = values.get("Message"), values.get("AdditionalInfo")
        rest = {k: v for k, v in values.items() if k not in ("Message", "AdditionalInfo")}
    else:
        message = str(body)
    raise AgentException(
        {
            "message": message,
            "details": details,
            "errorCode": given.get("ErrorCode"),
            "time": given.get("Time"),
            "extra": rest or None,
        }
    )


def _decode_v1(result: dict[str, Json]) -> Json:
    if result.get("IsException"):
        raise AgentException(_v1_error(result.get("Result"), "execution_plan"))
    entries = cast("list[Json]", result.get("Result") or [])
    if not entries:
        return None
    last = cast("dict[str, Json]", entries[-1])
    if last.get("IsException"):
        raise AgentException(_v1_error(last.get("Result"), "command"))
    return last.get("Result")


def _v1_error(value: Json, source: str) -> dict[str, Json]:
    from datetime import UTC, datetime

    parts = list(cast("list[Json]", value)) if isinstance(value, list) else [None, value]
    parts = (parts + [None] * 4)[:4]
    return {
        "type": parts[0],
        "message": parts[1],
        "command": parts[2],
        "details": parts[3],
        "timestamp": datetime.now(UTC).astimezone().isoformat(),
        "source": source,
    }
