"""A task: one environment, its workflow files, and the loop that runs them (§1)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, cast

from vetro.workflows.commands import COMMANDS
from vetro.workflows.content import Compile, Compiler
from vetro.workflows.errors import (
    Cancelled,
    EvaluationError,
    NotConverging,
    Place,
    WorkflowError,
    WorkflowSyntaxError,
)
from vetro.workflows.files import Files
from vetro.workflows.functions import PLAIN, extension
from vetro.workflows.hostnames import is_windows_type, services_of, units_of
from vetro.workflows.paths import Cursor, Path, follow, write
from vetro.workflows.pending import Stack, execute
from vetro.workflows.ports import Limits, Port, Report, WorkflowSettings
from vetro.workflows.rules import RULES
from vetro.workflows.running import Closure, Command, Frame, Run
from vetro.workflows.scopes import Mutes, RuleMark, Scope
from vetro.workflows.selecting import SELECTING
from vetro.workflows.source import parse_xml
from vetro.workflows.trace import Trace, scrubbed, secret_texts
from vetro.workflows.values import Json, bounded, cut

FUNCTIONS: Mapping[str, Compile] = {**PLAIN, **SELECTING, **RULES, **COMMANDS}


@dataclass(frozen=True)
class Workflow:
    """A file, ready to run."""

    name: str
    closure: Closure


@dataclass(frozen=True)
class Outcome:
    """How a task ended. ``rounds`` counts the last one, in which nothing was left to do."""

    model: dict[str, Json]
    rounds: int
    stopped: bool
    error: str | None


def compile_workflow(
    content: str | bytes, file: str, extensions: Mapping[str, Any] | None = None
) -> Workflow:
    """Read a file. ``extensions``: functions ``(arguments, body) -> value`` under new names.

    Raises: WorkflowSyntaxError with the place; ValueError for an extension under a known name.
    """
    functions = dict(FUNCTIONS)
    for name, call in (extensions or {}).items():
        if name in functions:
            raise ValueError(f"there is a function {name!r} already")
        functions[name] = extension(call)
    root = parse_xml(content, file)
    if root.tag != "workflow":
        raise WorkflowSyntaxError(f"the root element is 'workflow', not {root.tag!r}", root.place)
    return Workflow(file, Compiler(functions).call(root))


class Task:
    """Runs the workflow files of an archive over one model. ``model`` is changed in place.

    ``progress``: what the port was given at the last checkpoint of an interrupted task; it continues with
    the round after that, on the model in it. A round that had begun is begun again: its commands are the
    same, with the same ids, so that the port can tell which it has carried out.
    """

    def __init__(
        self,
        model: dict[str, Json],
        files: Files,
        port: Port,
        settings: WorkflowSettings | None = None,
        limits: Limits | None = None,
        trace: Trace | None = None,
        extensions: Mapping[str, object] | None = None,
        progress: dict[str, Json] | None = None,
    ) -> None:
        self.model: dict[str, Json] = model if progress is None else progress["model"]
        self._progress = progress
        self.files = files
        self.port = port
        self.settings = settings or WorkflowSettings()
        self.limits = limits or Limits()
        self.trace = trace
        self.stack = Stack()
        self.round = 0
        self.issued_names: set[tuple[str | None, str]] = set()
        self._extensions = extensions
        self._queue: list[Command] = []
        # By the element and the place of the call: only such commands can be the same.
        self._queued: dict[tuple[int, Cursor], list[Command]] = {}
        self._stopped = False
        self._cancelled: str | None = None
        self._count = 0
        self._last_change: RuleMark | None = None
        self._secrets: set[str] = set()
        self._mutes: dict[str, Mutes] = {}
        # Values that may still be added before the model is measured again.
        self._room = 0
        self.round_began = port.now()
        """The time that names of this round are made of."""

    @property
    def environment_id(self) -> str:
        """The id of the environment."""
        return str(self.model.get("id") or "")

    def run(self) -> Outcome:
        """Run to the end. Errors of workflows are reported and stand in the outcome; those of the
        port that it does not announce pass through.
        """
        error: str | None = None
        cancelled = False
        try:
            self._prepare()
            if not self._stopped:
                self._loop()
            if not self._stopped:
                self._warn_of_unjoined()
        except Cancelled as problem:
            error, cancelled = problem.message, True
        except WorkflowError as problem:
            error = str(problem)
        except RecursionError:
            error = "a value is nested too deep"
        clean_up(self.model)
        try:
            bounded(self.model, "the model", self.limits.nodes)
        except EvaluationError as problem:
            # Whoever stores or prints it must be able to.
            self.model = cut(self.model)
            error = error or problem.message
        if error is not None:
            error = self._scrub(error)
            text, details = (error, None) if cancelled else ("Unexpected error has occurred", error)
            self.port.report(Report(None, None, "error", text, details))
        return Outcome(self.model, self.round, self._stopped, error)

    def _prepare(self) -> None:
        self._secrets.update(secret_texts(self.model))
        password = self.settings.broker.password
        if password not in ("", "guest"):
            self._secrets.add(password)
        if self._progress is not None:
            self._resume(self._progress)
            return
        for service in normalise(self.model, self.port.new_id):
            name = service.get("name") or service.get("type")
            self.report(
                "service",
                str(service.get("id")),
                "error",
                f"The service {name} needs an image: osImage has no name",
            )
            self.request_stop()

    def _resume(self, progress: dict[str, Json]) -> None:
        self.round = progress["round"]
        self.round_began = datetime.fromisoformat(progress["began"])
        self.stack.restore(progress["stack"])
        self.issued_names = {(service, name) for service, name in progress["names"]}
        self._count = progress["count"]
        for name, permanent in progress["mutes"].items():
            self._mutes.setdefault(name, Mutes()).restore(permanent)

    def _checkpoint(self) -> None:
        """Between two rounds nothing is queued: this is all that the next one needs."""
        self.round_began = self.port.now()
        progress: dict[str, Json] = {
            "round": self.round,
            "began": self.round_began.isoformat(),
            "model": self.model,
            "stack": self.stack.progress(),
            "names": sorted(self.issued_names, key=str),
            "count": self._count,
            "mutes": {name: mutes.permanent() for name, mutes in self._mutes.items()},
        }
        self.port.checkpoint(progress, self.round)

    def _loop(self) -> None:
        workflows = [
            (
                compile_workflow(content, name, self._extensions),
                self._mutes.setdefault(name, Mutes()),
            )
            for name, content in self.files.workflows()
        ]
        if self._progress is None:
            self._checkpoint()
        while True:
            self.round += 1
            if self.round > self.limits.rounds:
                self.round -= 1
                raise self._not_converging(f"{self.limits.rounds} rounds")
            for _, mutes in workflows:
                mutes.next_round()
            self._settle(workflows)
            self._measure()
            commands, self._queue, self._queued = self._queue, [], {}
            if not commands:
                return
            execute(self, commands)
            self._measure()
            if self._stopped:
                return
            self._checkpoint()

    def _warn_of_unjoined(self) -> None:
        """Units wait silently for their domain (§15); at the end a warning must name them."""
        for service in services_of(self.model):
            for unit in units_of(service):
                domain = unit.get("domain")
                made = follow(unit, ("temp", "instanceName"))
                if domain and made and domain != follow(unit, ("state", "domain")):
                    self.report(
                        "unit",
                        str(unit.get("id")),
                        "warning",
                        f"The unit {unit.get('name')} has not joined the domain {domain}: "
                        "no directory service of the environment has it",
                    )

    def _settle(self, workflows: list[tuple[Workflow, Mutes]]) -> None:
        """Passes over all files until none changes the model."""
        for number in range(1, self.limits.passes + 1):
            changed = False
            if number % 16 == 0:
                # References can double a model in every pass.
                self._measure()
            for workflow, mutes in workflows:
                if self._cancelled is not None:
                    raise Cancelled(self._cancelled)
                frame = Frame(Run(self, mutes))
                if workflow.closure(frame, Scope(None)):
                    changed = True
            if not changed:
                return
        raise self._not_converging(f"{self.limits.passes} passes in round {self.round}")

    def _not_converging(self, after: str) -> NotConverging:
        last = self._last_change
        text = (
            "no rule has changed the model"
            if last is None
            else (f"the last rule that changed the model is {last.id!r} at {last.place}")
        )
        error = NotConverging(f"workflow does not converge: not at rest after {after}; {text}")
        if last is not None:
            error.place = last.place
        return error

    def _measure(self) -> None:
        self._room = self.limits.nodes - bounded(self.model, "the model", self.limits.nodes)

    # what functions use

    def admit(self, value: Json) -> None:
        """A list or map is about to be written. Raises: EvaluationError when the model gets too large."""
        nodes = bounded(value, "the value that is set", self.limits.nodes)
        if nodes > self._room:
            self._measure()
            if nodes > self._room:
                total = self.limits.nodes - self._room + nodes
                raise EvaluationError(
                    f"the model would have {total} values; at most {self.limits.nodes} are allowed"
                )
        self._room -= nodes

    def mark_changed(self, frame: Frame, path: Path, value: Json) -> None:
        """The model changed: the file runs again."""
        frame.run.changed = True
        if frame.rule is not None:
            self._last_change = frame.rule
        if self.trace is not None:
            self.trace.changed(self.round, frame.rule, path.text, value)
        if isinstance(value, str) and path.steps:
            self._secrets.update(secret_texts({path.steps[-1]: value}))

    def enqueue(self, command: Command) -> None:
        """Queue a command for the end of the round, unless the same one waits already."""
        calls = self._queued.setdefault((id(command.blocks.element), command.frame.cursor), [])
        if any(command.repeats(other) for other in calls):
            return
        calls.append(command)
        self._queue.append(command)
        if self.trace is not None:
            self.trace.queued(self.round, str(command.place), command.kind, _described(command))

    def cancel(self, reason: str) -> None:
        """End the task before its next file of rules; may be called from another thread. What the port
        is waiting for is for the port to end, with ``Cancelled``."""
        self._cancelled = reason

    def request_stop(self) -> None:
        """No further round after this one (§1.1)."""
        self._stopped = True
        write(self.model, ("temp", "_stop_requested"), True, "/temp._stop_requested")

    def report(
        self, entity: str, id_: str | None, level: str, text: str, details: str | None = None
    ) -> None:
        """Send a report without the secrets that are known (§13.4)."""
        self.port.report(
            Report(
                entity,
                id_,
                level,
                self._scrub(text),
                None if details is None else self._scrub(details),
            )
        )

    def _scrub(self, text: str) -> str:
        return scrubbed(text, self._secrets)

    def warn_of_missing(self, template: str, missing: list[str], place: Place) -> None:
        """Keys of a template that have no mapping stay as they are."""
        if missing:
            self.warn(place, f"the template {template} needs {', '.join(missing)}: no mapping")

    def warn(self, place: Place, message: str) -> None:
        """Record a warning in the trace."""
        if self.trace is not None:
            self.trace.warned(self.round, str(place), message)

    def timestamp(self) -> str:
        """The time as errors carry it."""
        return self.port.now().isoformat()

    def next_count(self) -> int:
        """A number that rises."""
        self._count += 1
        return self._count


def _described(command: Command) -> dict[str, Json]:
    if command.agent is not None:
        agent = command.agent
        return {
            "template": agent.template,
            "service": agent.service,
            "unit": agent.unit,
            "mappings": agent.mappings,
            "plan": agent.plan,
        }
    if command.fragment is not None:
        return {
            "template": command.fragment.template,
            "mappings": command.fragment.mappings,
            "fragment": command.body,
        }
    if command.network is not None:
        return {"command": command.network.command, "arguments": command.network.arguments}
    return {}


_DEFAULTS: dict[str, dict[str, Json]] = {
    "linuxApacheService": {"deployApachePHP": False},
    "msSqlClusterServer": {"sqlServiceUserName": "Administrator", "databases": []},
}


def normalise(model: dict[str, Json], new_id: Callable[[], str]) -> list[dict[str, Json]]:
    """Put a model right in place (§1.1); the services that cannot start for want of an image name."""
    unfit: list[dict[str, Json]] = []
    for service in services_of(model):
        if isinstance(service.get("osImage"), str):
            service["osImage"] = {"name": service["osImage"]}
        kind = service.get("type")
        for key, value in _DEFAULTS.get(kind, {}).items() if isinstance(kind, str) else ():
            if service.get(key) is None:
                service[key] = list(cast("list[Json]", value)) if value == [] else value
        if "clusterIP" in service and service.get("clusterIp") is None:
            service["clusterIp"] = service["clusterIP"]
        for index, unit in enumerate(units_of(service)):
            if not unit.get("id"):
                unit["id"] = new_id()
            if not unit.get("name"):
                unit["name"] = f"{service.get('name')}_instance_{index}"
        if is_windows_type(kind) and "osImage" in service and not image_name(service):
            unfit.append(service)
    return unfit


def image_name(service: dict[str, Json]) -> Json:
    """The name of a service's image."""
    image = service["osImage"]
    return cast("dict[str, Json]", image).get("name") if isinstance(image, dict) else None


def clean_up(model: dict[str, Json]) -> None:
    """Take out the token and what is temporary (§14.6)."""
    model.pop("token", None)
    model.pop("temp", None)
    for service in services_of(model):
        service.pop("temp", None)
        for unit in units_of(service):
            unit.pop("temp", None)
    networking = model.get("networking")
    known = cast("dict[str, Json]", networking) if isinstance(networking, dict) else {}
    networks = known.get("networks")
    for network in cast("list[Json]", networks) if isinstance(networks, list) else ():
        if isinstance(network, dict):
            cast("dict[str, Json]", network).pop("temp", None)
