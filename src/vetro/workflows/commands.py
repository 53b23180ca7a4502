"""Commands: functions that queue something for the outside and run a block afterwards (§7, §9 to §11).

A call builds what will be sent at once and takes a snapshot of where it stands; the queue executes it
when the rules have come to rest (`pending`).
"""

from __future__ import annotations

import json
from typing import cast

from vetro.workflows.content import Arguments, Compile, Compiler, text_argument
from vetro.workflows.errors import EvaluationError, TemplateError
from vetro.workflows.functions import integer, queue_of
from vetro.workflows.plans import build_plan
from vetro.workflows.ports import AgentRequest, Fragment, NetworkRequest, PortError
from vetro.workflows.running import Blocks, Closure, Command, Frame
from vetro.workflows.scopes import Scope
from vetro.workflows.source import Element
from vetro.workflows.templates import substitute
from vetro.workflows.values import Json, bounded, plain_copy, text


def _blocks(compiler: Compiler, element: Element) -> Blocks:
    return Blocks(element, compiler.block(element, "success"), compiler.block(element, "failure"))


def _enqueue(
    kind: str, blocks: Blocks, values: dict[str, Json], frame: Frame, own: Scope
) -> Command:
    named = Blocks(
        blocks.element,
        blocks.success,
        blocks.failure,
        _variable(values, "result"),
        _variable(values, "error"),
    )
    return Command(kind, named, frame, own.snapshot(), blocks.element.place)


def _variable(values: dict[str, Json], name: str) -> str | None:
    value = values.get(name)
    return None if value is None else text(value).removeprefix("#")


def _map_argument(values: dict[str, Json], name: str, function: str) -> dict[str, Json]:
    value = values.get(name)
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise EvaluationError(f"{function}: {name!r} is not a map")
    bounded(value, f"{function}: {name!r}")
    return cast("dict[str, Json]", plain_copy(value))


def update_stack(compiler: Compiler, element: Element) -> Closure:
    """`update-cf-stack`: queue a fragment for the stack (§9.1)."""
    arguments = compiler.arguments(element)
    arguments.require("template")
    blocks = _blocks(compiler, element)

    def call(frame: Frame, scope: Scope) -> Json:
        own = Scope(scope)
        values = arguments.evaluate(frame, own)
        task = frame.run.task
        command = _enqueue("stack-update", blocks, values, frame, own)
        template = text_argument(values, "template", "update-cf-stack")
        mappings = _map_argument(values, "mappings", "update-cf-stack")
        command.arguments = _map_argument(values, "arguments", "update-cf-stack")
        command.fragment = Fragment(template, mappings)
        try:
            source = task.files.template("templates/cf", template, "the stack template")
            command.body, missing = substitute(source, mappings)
            task.warn_of_missing(template, missing, element.place)
        except TemplateError as error:
            _break(command, error)
        task.enqueue(command)

    return call


def _break(command: Command, error: TemplateError) -> None:
    """The command fails when it would be executed; without a block for that, the task does now."""
    if command.blocks.failure is None:
        raise error
    command.broken = error.message


def delete_stack(compiler: Compiler, element: Element) -> Closure:
    """`delete-cf-stack` (§9.4)."""
    arguments = compiler.arguments(element)
    blocks = _blocks(compiler, element)

    def call(frame: Frame, scope: Scope) -> Json:
        own = Scope(scope)
        values = arguments.evaluate(frame, own)
        frame.run.task.enqueue(_enqueue("stack-delete", blocks, values, frame, own))

    return call


def send_command(compiler: Compiler, element: Element) -> Closure:
    """`send-command`: queue a plan for a unit's agent (§10.2)."""
    arguments = compiler.arguments(element)
    arguments.require("template", "service", "unit")
    blocks = _blocks(compiler, element)

    def call(frame: Frame, scope: Scope) -> Json:
        own = Scope(scope)
        values = arguments.evaluate(frame, own)
        task = frame.run.task
        command = _enqueue("agent", blocks, values, frame, own)
        template = text_argument(values, "template", "send-command")
        service = text_argument(values, "service", "send-command")
        unit = text_argument(values, "unit", "send-command")
        mappings = _map_argument(values, "mappings", "send-command")
        timeout = values.get("timeout")
        seconds = None if timeout in (None, "") else integer(timeout, "send-command: 'timeout'")
        if seconds is not None and seconds <= 0:
            raise EvaluationError(f"send-command: 'timeout' is {seconds} and must be more than 0")
        os_version = values.get("osVersion")
        plan_id = task.port.new_id()
        plan: dict[str, Json] = {}
        try:
            plan, missing = build_plan(
                task.files,
                template,
                mappings,
                text(os_version) if os_version else None,
                plan_id,
                task.port.new_id,
            )
            task.warn_of_missing(template, missing, element.place)
        except TemplateError as error:
            _break(command, error)
        queue = queue_of(task.environment_id, service, unit)
        command.agent = AgentRequest(
            template, service, unit, mappings, plan, plan_id, queue, seconds
        )
        task.enqueue(command)

    return call


def network(name: str, *known: str) -> Compile:
    """`get-cidr` and its kin (§11)."""

    def compile_network(compiler: Compiler, element: Element) -> Closure:
        arguments: Arguments = compiler.arguments(element)
        blocks = _blocks(compiler, element)

        def call(frame: Frame, scope: Scope) -> Json:
            own = Scope(scope)
            values = arguments.evaluate(frame, own)
            command = _enqueue("network", blocks, values, frame, own)
            given = {key: values[key] for key in known if values.get(key) is not None}
            command.network = NetworkRequest(name, given)
            frame.run.task.enqueue(command)

        return call

    return compile_network


def failure_value(error: PortError | str, timestamp: str) -> dict[str, Json]:
    """What a stack or network command's ``error`` variable holds (§9.3)."""
    if isinstance(error, str):
        return {"message": error, "strerror": None, "timestamp": timestamp}
    return {"message": error.message, "strerror": error.strerror, "timestamp": timestamp}


def digest(value: Json) -> str:
    """One text for equal values."""
    return json.dumps(value, sort_keys=True, default=str)


COMMANDS: dict[str, Compile] = {
    "update-cf-stack": update_stack,
    "delete-cf-stack": delete_stack,
    "send-command": send_command,
    "get-cidr": network("get-cidr", "routerId", "existingNetwork"),
    "get-default-router-id": network("get-default-router-id"),
    "get-default-network-id": network("get-default-network-id"),
}
