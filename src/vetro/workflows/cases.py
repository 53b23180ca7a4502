"""Cases: a task with recorded answers instead of a cloud, as one document in and one out.

`vetro workflow-case` and `vetro workflow test` run them; docs/workflows.md describes the document.
"""

from __future__ import annotations

import base64
import binascii
import itertools
import json
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, cast

from vetro.workflows.errors import CaseError
from vetro.workflows.files import Files, ReadDocument
from vetro.workflows.ports import (
    AgentAnswer,
    AgentRequest,
    Broker,
    Fragment,
    Limits,
    NetworkRequest,
    PortError,
    Report,
    WorkflowSettings,
)
from vetro.workflows.task import Task
from vetro.workflows.trace import Trace
from vetro.workflows.values import Json, equal, plain_copy

MISSING = "<missing>"
KEYS = {"model", "effects", "reports", "plans", "rounds", "stopped", "error"}
SHAPES: dict[str, type] = {"model": dict, "effects": list, "reports": list, "plans": list}
DEFAULT_RESULT = {"IsException": False, "Result": [{"IsException": False, "Result": [None]}]}
DEFAULT_TIMEOUT = 3600.0


def run_case(
    case: Json,
    read_document: ReadDocument,
    shipped: Mapping[str, bytes] | None = None,
    trace: Trace | None = None,
) -> dict[str, Json]:
    """Run a case; what it did. ``shipped``: files for what the case does not bring itself.

    Raises: CaseError.
    """
    document = _map(case, "the case")
    model = plain_copy(_map(document.get("model"), "model"))
    port = RecordedPort(_map(_given(document, "replies", {}), "replies"))
    task = Task(
        model,
        Files(_files(_given(document, "files", {})), read_document, shipped),
        port,
        _settings(_map(_given(document, "config", {}), "config")),
        _limits(_map(_given(document, "limits", {}), "limits")),
        trace,
    )
    port.task = task
    outcome = task.run()
    return {
        "effects": port.effects,
        "model": outcome.model,
        "rounds": outcome.rounds,
        "stopped": outcome.stopped,
        "error": outcome.error,
    }


class RecordedPort:
    """Answers from a case, and the list of what was asked.

    An update of the stack without a reply gives ``OUT-<name>`` for every output of the template.
    """

    def __init__(self, replies: dict[str, Json]) -> None:
        self.effects: list[dict[str, Json]] = []
        self.task: Task | None = None
        router = replies.get("router", {"routerId": "router-1", "floatingId": "extnet-1"})
        self._router = _map(router, "replies.router") if router is not None else {}
        self._network = replies.get("network", "net-9")
        self._cidrs = _list(replies.get("cidr", ["10.0.1.0/24"]), "replies.cidr") or [None]
        self._existing_cidr = replies.get("existing_cidr", "10.9.0.0/24")
        self._stack = iter(_maps(replies, "stack"))
        self._machines: dict[str, Json] = {}
        self._agent = _maps(replies, "agent")
        self._asked_cidrs = itertools.count()
        self._ids = itertools.count(1)

    def _add(self, kind: str, details: dict[str, Json]) -> None:
        number = self.task.round if self.task is not None else 0
        self.effects.append({"round": number, "kind": kind, **plain_copy(details)})

    def report(self, report: Report) -> None:
        """Keep it."""
        self._add(
            "report",
            {
                "entity": report.entity,
                "id": report.id,
                "level": report.level,
                "text": report.text,
                "details": report.details,
            },
        )

    def network(self, requests: list[NetworkRequest]) -> list[Json | PortError]:
        """The recorded router, network and blocks; the last block repeats."""
        answers: list[Json | PortError] = []
        for request in requests:
            self._add("network", {"command": request.command, "arguments": request.arguments})
            if request.command == "get-default-router-id":
                answers.append(
                    {
                        "routerId": self._router.get("routerId") or "NOT_FOUND",
                        "floatingId": self._router.get("floatingId")
                        if self._router.get("routerId")
                        else "NOT_FOUND",
                    }
                )
            elif request.command == "get-default-network-id":
                answers.append({"networkId": self._network})
            elif "existingNetwork" in request.arguments:
                answers.append({"cidr": self._existing_cidr})
            else:
                index = min(next(self._asked_cidrs), len(self._cidrs) - 1)
                answers.append({"cidr": self._cidrs[index]})
        return answers

    def update_stack(
        self, fragments: list[Fragment], template: dict[str, Json], arguments: dict[str, Json]
    ) -> dict[str, Json]:
        """The next recorded outputs or error. Raises: PortError."""
        self._add(
            "stack-update",
            {
                "fragments": [
                    {"template": one.template, "mappings": one.mappings} for one in fragments
                ],
                "template": template,
                "arguments": arguments,
            },
        )
        reply = next(self._stack, None) or {}
        if reply.get("error") is not None:
            raise PortError(str(reply["error"]))
        self._machines = _map(reply.get("machines") or {}, "replies.stack[].machines")
        if reply.get("outputs") is not None:
            return _map(reply["outputs"], "replies.stack[].outputs")
        outputs = template.get("Outputs", template.get("outputs"))
        names = cast("dict[str, Json]", outputs) if isinstance(outputs, dict) else {}
        return {name: f"OUT-{name}" for name in names}

    def machines(self) -> dict[str, tuple[str | None, str]]:
        """Those of the last reply; each was what it is."""
        return {name: (str(value), str(value)) for name, value in self._machines.items()}

    def delete_stack(self) -> None:
        """Always done."""
        self._add("stack-delete", {})

    def run_plans(self, requests: list[AgentRequest]) -> list[AgentAnswer]:
        """For each plan the first recorded answer that fits and is not used up."""
        for request in requests:
            self._add(
                "agent",
                {
                    "template": request.template,
                    "service": request.service,
                    "unit": request.unit,
                    "mappings": request.mappings,
                    "plan": request.plan,
                },
            )
        return [self._answer(request) for request in requests]

    def _answer(self, request: AgentRequest) -> AgentAnswer:
        for reply in self._agent:
            if reply.get("template") in (None, request.template) and reply.get("unit") in (
                None,
                request.unit,
            ):
                if not reply.get("repeat"):
                    # By identity: another reply may say the same.
                    self._agent = [one for one in self._agent if one is not reply]
                if reply.get("timeout"):
                    return AgentAnswer(timed_out=request.timeout or DEFAULT_TIMEOUT)
                return AgentAnswer(result=plain_copy(reply.get("result", DEFAULT_RESULT)))
        return AgentAnswer(result=plain_copy(DEFAULT_RESULT))

    def guest_marks(self, queue: str) -> dict[str, str]:
        """No mailbox: the guest uses the broker."""
        return {"MAILBOX_URL": "", "MAILBOX_TOKEN": "", "ENGINE_KEY": ""}

    def new_id(self) -> str:
        """Ids that look random and are the same in every run of a case."""
        number = next(self._ids)
        return f"{(number * 0x9E3779B97F4A7C15F39CC0605CEDC835) % (1 << 128):032x}"

    def now(self) -> datetime:
        """The time of the machine."""
        return datetime.now(UTC)

    def checkpoint(self, progress: dict[str, Json], round_number: int) -> None:
        """Nothing to keep."""


def _map(value: Json, where: str) -> dict[str, Json]:
    if not isinstance(value, dict):
        raise CaseError(f"{where} is not an object")
    return cast("dict[str, Json]", value)


def _list(value: Json, where: str) -> list[Json]:
    if not isinstance(value, list):
        raise CaseError(f"{where} is not a list")
    return cast("list[Json]", value)


def _given(document: dict[str, Json], key: str, default: Json) -> Json:
    """What stands under a key; null is as good as nothing."""
    value = document.get(key)
    return default if value is None else value


def _maps(replies: dict[str, Json], key: str) -> list[dict[str, Json]]:
    """The recorded answers of one kind, checked before the task begins."""
    found = enumerate(_list(_given(replies, key, []), f"replies.{key}"))
    return [_map(one, f"replies.{key}[{index}]") for index, one in found]


def _files(value: Json) -> dict[str, bytes]:
    contents: dict[str, bytes] = {}
    for path, content in _map(value, "files").items():
        if isinstance(content, str):
            contents[path] = content.encode("utf-8", "surrogatepass")
            continue
        encoded = _map(content, f"files[{path!r}]").get("base64")
        try:
            contents[path] = base64.b64decode("".join(str(encoded).split()), validate=True)
        except (binascii.Error, ValueError) as error:
            raise CaseError(f"files[{path!r}] is not base64: {error}") from error
    return contents


def _settings(config: dict[str, Json]) -> WorkflowSettings:
    broker = _map(_given(config, "rabbitmq", {}), "config.rabbitmq")
    default = WorkflowSettings()
    certificate = broker.get("ca_certs")
    return WorkflowSettings(
        network_topology=str(config.get("network_topology") or default.network_topology),
        max_environments=_integer(config, "max_environments", default.max_environments),
        max_hosts=_integer(config, "max_hosts", default.max_hosts),
        env_ip_template=str(config.get("env_ip_template") or default.env_ip_template),
        file_server=None if not config.get("file_server") else str(config["file_server"]),
        broker=Broker(
            host=str(broker.get("host", default.broker.host)),
            port=_integer(broker, "port", default.broker.port),
            login=str(broker.get("login", default.broker.login)),
            password=str(broker.get("password", default.broker.password)),
            virtual_host=str(broker.get("virtual_host", default.broker.virtual_host)),
            ssl=broker.get("ssl") in (True, "true", "True"),
            ca_root_cert=b"" if certificate is None else str(certificate).encode(),
        ),
    )


def _limits(limits: dict[str, Json]) -> Limits:
    default = Limits()
    return Limits(
        rounds=_integer(limits, "rounds", default.rounds),
        passes=_integer(limits, "passes", default.passes),
    )


def _integer(document: dict[str, Json], key: str, default: int) -> int:
    value = document.get(key)
    if value is None:
        return default
    if isinstance(value, bool) or not isinstance(value, int):
        raise CaseError(f"{key} is not an integer")
    return value


def check_expected(expected: Json) -> None:
    """Whether an `expect` can be compared with anything. Raises: CaseError."""
    if expected is not None and not isinstance(expected, dict):
        raise CaseError("expect is not an object")
    for key, value in cast("dict[str, Json]", expected or {}).items():
        shape = SHAPES.get(key)
        if shape is not None and not isinstance(value, shape):
            raise CaseError(f"expect.{key} is not {'a list' if shape is list else 'an object'}")


def differences(expected: dict[str, Json], result: dict[str, Json]) -> list[str]:
    """Where a result is not what was expected, part by part; one line each, empty when all holds.

    ``expected`` has any of: ``model`` (dotted path → value; ``<missing>`` where nothing may stand),
    ``effects`` (all except reports, in order, each at least as given), ``reports`` (likewise), ``plans``
    (templates of the plans, one list a round), ``rounds``, ``stopped``, ``error`` (how it occurs in the
    error; without it there must be none).
    """
    found = [f"expect has {key!r}, which means nothing" for key in expected.keys() - KEYS]
    error = result["error"]
    wanted_error = expected.get("error")
    if wanted_error is None and error is not None:
        found.append(f"error: {error}")
    elif wanted_error is not None and str(wanted_error) not in (error or ""):
        found.append(f"error: {wanted_error!r} does not occur in {error!r}")
    for key in ("rounds", "stopped"):
        if key in expected and not equal(expected[key], result[key]):
            found.append(f"{key}: {_shown(result[key])} instead of {_shown(expected[key])}")
    for path, value in cast("dict[str, Json]", expected.get("model", {})).items():
        actual = at(result["model"], str(path))
        if not equal(value, actual):
            found.append(f"model {path}: {_shown(actual)} instead of {_shown(value)}")
    effects = cast("list[dict[str, Json]]", result["effects"])
    parts = {
        "effects": [effect for effect in effects if effect["kind"] != "report"],
        "reports": [effect for effect in effects if effect["kind"] == "report"],
    }
    for key, actual in parts.items():
        if key in expected:
            found += _list_differences(key, expected[key], actual)
    if "plans" in expected:
        rounds: dict[int, list[str]] = {}
        for effect in effects:
            if effect["kind"] == "agent":
                rounds.setdefault(effect["round"], []).append(effect["template"])
        plans = list(rounds.values())
        if not equal(expected["plans"], plans):
            found.append(f"plans: {_shown(plans)} instead of {_shown(expected['plans'])}")
    return found


def _list_differences(key: str, expected: Json, actual: list[dict[str, Json]]) -> list[str]:
    wanted = cast("list[Json]", expected)
    found = [
        f"{key}[{index}]: {_shown(have)} has not {_shown(want)}"
        for index, (want, have) in enumerate(zip(wanted, actual, strict=False))
        if not is_part(want, have)
    ]
    if len(wanted) != len(actual):
        found.append(f"{key}: {len(actual)} instead of {len(wanted)}")
    return found


def at(model: Json, path: str) -> Json:
    """What stands at a dotted path, or ``<missing>``."""
    for step in path.split(".") if path else []:
        try:
            key = int(step) if isinstance(model, list) else step
            model = cast("Any", model)[key]
        except (KeyError, IndexError, TypeError, ValueError):
            return MISSING
    return model


def is_part(wanted: Json, actual: Json) -> bool:
    """Whether a map has at least the wanted entries; lists and scalars must be equal."""
    if isinstance(wanted, dict) and isinstance(actual, dict):
        entries, others = cast("dict[str, Json]", wanted), cast("dict[str, Json]", actual)
        return all(key in others and is_part(value, others[key]) for key, value in entries.items())
    if isinstance(wanted, list) and isinstance(actual, list):
        items, have = cast("list[Json]", wanted), cast("list[Json]", actual)
        return len(items) == len(have) and all(map(is_part, items, have))
    return equal(wanted, actual)


def _shown(value: Json) -> str:
    text = json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= 300 else text[:300] + "…"
