"""Executing the queued commands of a round: network, stack updates, stack deletes, agents (§1, §9 to §11).

A kind's commands are executed together. If one of them failed without a failure block, the blocks of the
others still run, and then the task fails ("finish the batch, then fail").
"""

from __future__ import annotations

from typing import Any, Protocol, cast

from vetro.workflows.commands import digest, failure_value
from vetro.workflows.errors import CommandFailed, EvaluationError, WorkflowError
from vetro.workflows.hostnames import hostname_of, services_of, units_of
from vetro.workflows.ports import AgentAnswer, NetworkRequest, PortError
from vetro.workflows.running import Command, Run, RunningTask
from vetro.workflows.templates import merge
from vetro.workflows.values import Json


class Stack:
    """What the task has applied so far: one template that every batch adds to (§9.2)."""

    def __init__(self) -> None:
        self.template: dict[str, Json] = {}
        self.arguments: dict[str, Json] = {}
        self.outputs: dict[str, Json] = {}
        self._applied: str | None = None

    def progress(self) -> dict[str, Json]:
        """All of it, as JSON."""
        return {
            "template": self.template,
            "arguments": self.arguments,
            "outputs": self.outputs,
            "applied": self._applied,
        }

    def restore(self, progress: dict[str, Json]) -> None:
        """Take over what ``progress()`` gave in a process that is gone."""
        self.template, self.arguments = progress["template"], progress["arguments"]
        self.outputs, self._applied = progress["outputs"], progress["applied"]

    def clear(self) -> None:
        """The stack was deleted."""
        self.template, self.arguments, self.outputs = {}, {}, {}
        self._applied = None

    def apply(self, task: RunningTask, commands: list[Command]) -> dict[str, Json]:
        """Merge fragments in call order and apply the whole; its outputs.

        What is applied already is not pushed again. Raises: PortError, EvaluationError.
        """
        template: dict[str, Json] = self.template
        arguments = self.arguments
        for command in commands:
            _refuse_two_types(template, command.body)
            template = merge(template, command.body)
            arguments = {**arguments, **command.arguments}
        self.template, self.arguments = template, arguments
        wanted = digest([template, arguments])
        if wanted != self._applied:
            self._applied = None
            fragments = [command.fragment for command in commands if command.fragment]
            self.outputs = task.port.update_stack(fragments, template, arguments)
            note_machines(task)
            self._applied = wanted
        return self.outputs


def _refuse_two_types(template: dict[str, Json], fragment: dict[str, Json]) -> None:
    """Raises `EvaluationError`: one resource cannot be two, as that of a unit called like a network."""
    known = _types(template)
    for name, kind in _types(fragment).items():
        if known.get(name, kind) != kind:
            raise EvaluationError(
                f"the resource {name} of the stack would be {known[name]} and {kind}: let the units of"
                " that name have another unitNamingPattern"
            )


def _types(template: dict[str, Json]) -> dict[str, Json]:
    """The types of a template's resources; a fragment that adds to a resource may leave it out."""
    given: Json = template.get("Resources")
    bodies = cast("dict[str, Json]", given) if isinstance(given, dict) else {}
    return {
        name: one["Type"] for name, one in bodies.items() if isinstance(one, dict) and "Type" in one
    }


def note_machines(task: RunningTask) -> None:
    """Let what was installed on a machine that was made anew be installed again, and say so.

    The model's ``machines`` has what they were. A unit's ``state`` is about its machine: all of it but the
    host name goes with it (decision 0848).
    """
    found = task.port.machines()
    if not found:
        return
    noted: dict[str, Json] = task.model.get("machines") or {}
    for service in services_of(task.model):
        for unit in units_of(service):
            name = hostname_of(unit)
            before, now = found.get(name or "", (None, None))
            if name is None or now is None or noted.get(name, before) == now:
                continue
            if len(unit["state"]) > 1:
                unit["state"] = {"hostname": name}
                text = (
                    f"The machine of unit {name} is a new one: everything is installed on it again"
                )
                task.report("unit", str(unit.get("id")), "warning", text)
    task.model["machines"] = {name: now for name, (_, now) in found.items()}


class DeployingTask(RunningTask, Protocol):
    """A task with the stack that its commands update."""

    stack: Stack


def execute(task: DeployingTask, commands: list[Command]) -> None:
    """Execute a batch and run its blocks. Raises: CommandFailed, or what a block raises."""
    kinds: dict[str, list[Command]] = {}
    for command in commands:
        kinds.setdefault(command.kind, []).append(command)
    for kind, run in _KINDS.items():
        if kind in kinds:
            settling = _Settling(task)
            run(task, kinds[kind], settling)
            settling.finish()


class _Settling:
    """Runs blocks after commands, and keeps the first error until all have run."""

    def __init__(self, task: DeployingTask) -> None:
        self.task = task
        self.failed: WorkflowError | None = None

    def succeed(self, command: Command, result: Json) -> None:
        self._run(command, command.blocks.success, result, None)

    def fail(self, command: Command, error: Json, message: str, result: Json = None) -> None:
        if command.blocks.failure is not None:
            self._run(command, command.blocks.failure, result, error)
            return
        failed = CommandFailed(f"{command.blocks.element.tag}: {message}", command.place)
        failed.rules = () if command.frame.rule is None else command.frame.rule.chain()
        self.failed = self.failed or failed

    def _run(self, command: Command, block: Any, result: Json, error: Json) -> None:
        if command.blocks.result is not None:
            command.scope.put(command.blocks.result, result)
        if command.blocks.error is not None:
            command.scope.put(command.blocks.error, error)
        if block is None:
            return
        run = Run(self.task, command.frame.run.mutes)
        try:
            block(command.frame.within(run), command.scope)
        except WorkflowError as problem:
            self.failed = self.failed or problem

    def finish(self) -> None:
        if self.failed is not None:
            raise self.failed


def _order(request: NetworkRequest) -> int:
    if request.command == "get-cidr":
        return 3 if "existingNetwork" in request.arguments else 0
    return {"get-default-network-id": 1, "get-default-router-id": 2}[request.command]


def _network(task: DeployingTask, commands: list[Command], settling: _Settling) -> None:
    asked = [(command, command.network) for command in commands if command.network is not None]
    asked.sort(key=lambda pair: _order(pair[1]))
    answers: list[Json | PortError]
    if task.settings.network_topology == "nova":
        refusal = PortError("the topology 'nova' has no networks of its own")
        answers = [refusal for _ in asked]
    else:
        answers = task.port.network([request for _, request in asked])
    for (command, request), answer in zip(asked, answers, strict=True):
        problem = _network_problem(request, answer, command)
        if problem is None:
            settling.succeed(command, answer)
        else:
            message = problem if isinstance(problem, str) else problem.message
            settling.fail(command, failure_value(problem, task.timestamp()), message)


def _network_problem(
    request: NetworkRequest, answer: Json | PortError, command: Command
) -> PortError | str | None:
    if isinstance(answer, PortError):
        return answer
    if request.command != "get-cidr" or answer["cidr"] is not None:
        return None
    if "existingNetwork" not in request.arguments:
        return "no address range is free: see the settings env_ip_template, max_environments, max_hosts"
    if command.blocks.failure is None:
        return None  # the success block looks at the null itself, as it always had to
    return f"the network {request.arguments['existingNetwork']} has no subnet"


def _stack_updates(task: DeployingTask, commands: list[Command], settling: _Settling) -> None:
    good = [command for command in commands if command.broken is None]
    problem: PortError | EvaluationError | None = None
    outputs: dict[str, Json] = {}
    if good:
        try:
            outputs = task.stack.apply(task, good)
        except (PortError, EvaluationError) as error:
            problem = error
    for command in commands:
        if command.broken is not None:
            settling.fail(command, failure_value(command.broken, task.timestamp()), command.broken)
        elif problem is not None:
            value = problem if isinstance(problem, PortError) else problem.message
            settling.fail(command, failure_value(value, task.timestamp()), problem.message)
        else:
            settling.succeed(command, dict(outputs))


def _stack_deletes(task: DeployingTask, commands: list[Command], settling: _Settling) -> None:
    problem: PortError | None = None
    try:
        task.port.delete_stack()
        task.stack.clear()
    except PortError as error:
        problem = error
    for command in commands:
        if problem is None:
            settling.succeed(command, None)
        elif command.blocks.failure is not None:
            settling.fail(command, failure_value(problem, task.timestamp()), problem.message)
        else:
            task.report(
                "environment",
                task.environment_id,
                "warning",
                "The stack could not be deleted",
                problem.message,
            )


def _agents(task: DeployingTask, commands: list[Command], settling: _Settling) -> None:
    sent = [
        (command, command.agent)
        for command in commands
        if command.broken is None and command.agent is not None
    ]
    answers = task.port.run_plans([request for _, request in sent]) if sent else []
    by_command = {id(pair[0]): answer for pair, answer in zip(sent, answers, strict=True)}
    for command in commands:
        timestamp = task.timestamp()
        if command.broken is not None:
            value = {
                "source": "execution_plan",
                "type": None,
                "message": command.broken,
                "command": None,
                "details": None,
                "timestamp": timestamp,
            }
            settling.fail(command, [value], command.broken)
            continue
        good, errors = decode(by_command[id(command)], timestamp)
        if errors:
            settling.fail(command, errors, _message(errors), good)
        else:
            settling.succeed(command, good)


def _message(errors: list[dict[str, Json]]) -> str:
    return "; ".join(str(error.get("message")) for error in errors)


_KINDS = {
    "network": _network,
    "stack-update": _stack_updates,
    "stack-delete": _stack_deletes,
    "agent": _agents,
}


def decode(answer: AgentAnswer, timestamp: str) -> tuple[list[Json], list[dict[str, Json]]]:
    """The good entries and the error entries of an agent's answer (§10.2, §10.4; guest-agent.md §4, §5.5)."""
    if answer.failure is not None:
        return [], [_plan_error([None, answer.failure], "execution_plan", timestamp)]
    if answer.timed_out is not None:
        seconds = answer.timed_out
        shown = int(seconds) if float(seconds).is_integer() else seconds
        return [], [
            {
                "source": "timeout",
                "message": f"no answer from the agent within {shown} s",
                "timeout": shown,
                "timestamp": timestamp,
            }
        ]
    result = answer.result
    if isinstance(result, dict):
        known = cast("dict[str, Json]", result)
        if "ErrorCode" in known or str(known.get("FormatVersion", "")).startswith("2."):
            return _decode_v2(known)
        if "IsException" in known:
            return _decode_v1(known, timestamp)
    return [], [
        _plan_error(
            [None, "the agent's answer is not the result of a plan"], "execution_plan", timestamp
        )
    ]


def _decode_v1(result: dict[str, Json], timestamp: str) -> tuple[list[Json], list[dict[str, Json]]]:
    inner = result.get("Result")
    if result["IsException"]:
        return [], [_plan_error(inner, "execution_plan", timestamp)]
    good: list[Json] = []
    errors: list[dict[str, Json]] = []
    entries = cast("list[Json]", inner) if isinstance(inner, list) else []
    for entry in entries:
        if isinstance(entry, dict) and cast("dict[str, Json]", entry).get("IsException"):
            errors.append(
                _plan_error(cast("dict[str, Json]", entry).get("Result"), "command", timestamp)
            )
        else:
            good.append(entry)
    return good, errors


def _plan_error(items: Json, source: str, timestamp: str) -> dict[str, Json]:
    """One to four items, or a bare message."""
    listed = cast("list[Json]", items) if isinstance(items, list) else [None, items]
    four = [*listed[:4], *[None] * (4 - len(listed))]
    return {
        "source": source,
        "type": four[0],
        "message": four[1],
        "command": four[2],
        "details": four[3],
        "timestamp": timestamp,
    }


def _decode_v2(result: dict[str, Json]) -> tuple[list[Json], list[dict[str, Json]]]:
    code = result.get("ErrorCode") or 0
    body = result.get("Body")
    if not code:
        return [body], []
    details = dict(cast("dict[str, Json]", body)) if isinstance(body, dict) else {"Message": body}
    message, more = details.pop("Message", None), details.pop("AdditionalInfo", None)
    return [], [
        {
            "message": message,
            "details": more,
            "errorCode": code,
            "time": result.get("Time"),
            "extra": details or None,
        }
    ]
