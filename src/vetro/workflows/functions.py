"""Plain functions: constants, text, lists and maps, reports, mutes, names (§7)."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable

from vetro.workflows.content import Compile, Compiler, Deferred, evaluated, text_argument
from vetro.workflows.errors import EvaluationError, WorkflowSyntaxError
from vetro.workflows.hostnames import generate_hostname
from vetro.workflows.ports import PortError
from vetro.workflows.running import Closure, Frame, RunningTask
from vetro.workflows.scopes import Scope
from vetro.workflows.source import Element
from vetro.workflows.values import Json, bounded, text, type_name

ENTITIES = {"environment", "service", "unit"}
LEVELS = {"info", "warning", "error"}
_INTEGER = re.compile(r"[+-]?[0-9]{1,1000}")


def constant(value: Json) -> Compile:
    """`true`, `false` and `null`."""
    return lambda compiler, element: lambda frame, scope: value


def text_function(compiler: Compiler, element: Element) -> Closure:
    """`text`: the content as text."""
    body = compiler.content(element)
    return lambda frame, scope: text(evaluated(body(frame, Scope(scope))))


def int_function(compiler: Compiler, element: Element) -> Closure:
    """`int`: the content as an integer."""
    body = compiler.content(element)
    return lambda frame, scope: integer(evaluated(body(frame, Scope(scope))), "int")


def integer(value: Json, what: str) -> int:
    """An integer from a number or a text of digits. Raises: EvaluationError."""
    if isinstance(value, (bool, int)):
        return int(value)
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, str) and _INTEGER.fullmatch(value.strip()):
        return int(value)
    shown = repr(value[:80]) if isinstance(value, str) else type_name(value)
    raise EvaluationError(f"{what}: {shown} is not an integer")


def uuid(compiler: Compiler, element: Element) -> Closure:
    """`uuid`: a new id."""
    return lambda frame, scope: frame.run.task.port.new_id()


def function(compiler: Compiler, element: Element) -> Closure:
    """`function`: content that the function evaluates which gets it as an argument."""
    body = compiler.content(element)
    return lambda frame, scope: Deferred(body, frame, Scope(scope))


def list_function(compiler: Compiler, element: Element) -> Closure:
    """`list`: the children's values; a child that is not a function stands for its content."""
    items = [
        compiler.call(child) if child.tag in compiler.functions else compiler.content(child)
        for child in element.elements()
        if child.tag != "parameter"
    ]

    def call(frame: Frame, scope: Scope) -> Json:
        own = Scope(scope)
        return [evaluated(item(frame, own)) for item in items]

    return call


def map_function(compiler: Compiler, element: Element) -> Closure:
    """`map`: the contents of the children by their attribute ``name``; tags mean nothing."""
    items: dict[str, Closure] = {}
    for child in element.elements():
        if child.tag == "parameter":
            continue
        name = child.attributes.get("name")
        if name is None:
            raise WorkflowSyntaxError(f"map: the item <{child.tag}> has no name", child.place)
        items.pop(name, None)
        items[name] = compiler.content(child)

    def call(frame: Frame, scope: Scope) -> Json:
        own = Scope(scope)
        return {name: evaluated(item(frame, own)) for name, item in items.items()}

    return call


def stop(compiler: Compiler, element: Element) -> Closure:
    """`stop`: no further round (§1.1)."""
    return lambda frame, scope: frame.run.task.request_stop()


def mute(permanent: bool) -> Compile:
    """`mute` and `unmute` (§6.2)."""

    def compile_mute(compiler: Compiler, element: Element) -> Closure:
        arguments = compiler.arguments(element)

        def call(frame: Frame, scope: Scope) -> Json:
            values = arguments.evaluate(frame, Scope(scope))
            rule = values.get("rule") or (frame.rule and frame.rule.id)
            object_id = values.get("id") or frame.object_id
            if rule and object_id:
                change = frame.run.mutes.mute if permanent else frame.run.mutes.unmute
                change(text(rule), text(object_id))

        return call

    return compile_mute


def report(compiler: Compiler, element: Element) -> Closure:
    """`report`: a status report, sent at once (§13.2)."""
    arguments = compiler.arguments(element)
    arguments.require("entity", "id", "text")

    def call(frame: Frame, scope: Scope) -> Json:
        values = arguments.evaluate(frame, Scope(scope))
        entity = text_argument(values, "entity", "report").strip().lower()
        if entity not in ENTITIES:
            raise EvaluationError(
                f"report: the entity is 'environment', 'service' or 'unit', not {entity!r}"
            )
        level = text(values.get("level") or "info").strip().lower()
        details = values.get("details")
        frame.run.task.report(
            entity,
            None if values["id"] is None else text(values["id"]),
            level if level in LEVELS else "info",
            # A report must not end the task because it has nothing to say.
            ("" if values["text"] is None else text(values["text"])).strip(),
            None if details is None else text(details),
        )

    return call


def format_error(compiler: Compiler, element: Element) -> Closure:
    """`format-error`: a stored error as JSON text."""
    arguments = compiler.arguments(element)
    arguments.require("error")

    def call(frame: Frame, scope: Scope) -> Json:
        own = Scope(scope)
        key = text_argument(arguments.evaluate(frame, own), "error", "format-error")
        value = scope.get(key.removeprefix("#"))
        bounded(value, "format-error: the value")
        return json.dumps(value, ensure_ascii=False)

    return call


def net_topology(compiler: Compiler, element: Element) -> Closure:
    """`get-net-topology`: the configured one."""
    return lambda frame, scope: frame.run.task.settings.network_topology


def hostname(compiler: Compiler, element: Element) -> Closure:
    """`generate-hostname` (§12)."""
    arguments = compiler.arguments(element)

    def call(frame: Frame, scope: Scope) -> Json:
        values = arguments.evaluate(frame, Scope(scope))
        pattern, service = values.get("pattern"), values.get("service_id")
        return generate_hostname(
            frame,
            "" if pattern is None else text(pattern).strip(),
            None if service is None else text(service),
        )

    return call


def user_data(compiler: Compiler, element: Element) -> Closure:
    """`prepare-user-data` (§10.5)."""
    arguments = compiler.arguments(element)
    arguments.require("hostname", "service", "unit")

    def call(frame: Frame, scope: Scope) -> Json:
        values = arguments.evaluate(frame, Scope(scope))
        given = {
            name: text_argument(values, name, "prepare-user-data")
            for name in ("hostname", "service", "unit")
        }
        return prepare_user_data(
            frame.run.task,
            **given,
            template=text(values.get("template") or "Default"),
            init_file=text(values.get("initFile") or "init.ps1"),
        )

    return call


def inert(compiler: Compiler, element: Element) -> Closure:
    """`parameter` as a bare call."""
    return lambda frame, scope: None


def extension(call: Callable[[dict[str, Json], Callable[[], Json]], Json]) -> Compile:
    """A function of another program: ``call(arguments, body)``; ``body()`` evaluates the content."""

    def compile_extension(compiler: Compiler, element: Element) -> Closure:
        arguments, content = compiler.arguments(element), compiler.content(element)

        def run(frame: Frame, scope: Scope) -> Json:
            own = Scope(scope)
            values = arguments.evaluate(frame, own)
            return call(values, lambda: evaluated(content(frame, own)))

        return run

    return compile_extension


PLAIN: dict[str, Compile] = {
    "true": constant(True),
    "false": constant(False),
    "null": constant(None),
    "text": text_function,
    "int": int_function,
    "uuid": uuid,
    "list": list_function,
    "map": map_function,
    "function": function,
    "stop": stop,
    "mute": mute(True),
    "unmute": mute(False),
    "report": report,
    "format-error": format_error,
    "get-net-topology": net_topology,
    "generate-hostname": hostname,
    "prepare-user-data": user_data,
    "parameter": inert,
}


_MARK = re.compile(r"%[A-Z0-9_]+%")


def queue_of(environment: str, service: str, unit: str) -> str:
    """The mailbox of a unit (§10.1)."""
    return f"e{environment}-{service}-{unit}".lower()


def result_queue_of(environment: str) -> str:
    """Where the agents of an environment answer (§10.1)."""
    return f"-execution-results-e{environment}".lower()


def prepare_user_data(
    task: RunningTask, hostname: str, service: str, unit: str, template: str, init_file: str
) -> str:
    """The text of an init script, filled. Raises: TemplateError when a file is missing, EvaluationError
    when there is no way to the guest.
    """
    broker = task.settings.broker
    queue = queue_of(task.environment_id, service, unit)
    try:
        marks = task.port.guest_marks(queue)
    except PortError as error:
        raise EvaluationError(f"prepare-user-data: {error.message}") from error
    configuration = _fill(
        _configuration(task, template),
        {
            "RABBITMQ_HOST": broker.host,
            "RABBITMQ_PORT": str(broker.port),
            "RABBITMQ_USER": broker.login,
            "RABBITMQ_PASSWORD": broker.password,
            "RABBITMQ_VHOST": broker.virtual_host,
            "RABBITMQ_SSL": "true" if broker.ssl else "false",
            "RABBITMQ_INPUT_QUEUE": queue,
            "RESULT_QUEUE": result_queue_of(task.environment_id),
            # Where guests share the broker's login these say nothing.
            "RESULT_EXCHANGE_OPTION": "",
            "RESULT_EXCHANGE_ELEMENT": "",
            **marks,
        },
    )
    return _fill(
        task.files.text("init-scripts", init_file, "the init script"),
        {
            "AGENT_CONFIG_BASE64": base64.b64encode(configuration.encode()).decode(),
            "INTERNAL_HOSTNAME": hostname,
            "MURANO_SERVER_ADDRESS": task.settings.file_server or broker.host,
            "CA_ROOT_CERT_BASE64": base64.b64encode(broker.ca_root_cert).decode(),
        },
    )


def _configuration(task: RunningTask, template: str) -> str:
    """An agent configuration; archives of cases may leave out the ending of its file."""
    name = f"{template}.template"
    found = task.files.find("agent-config", name) is not None
    if not found and task.files.find("agent-config", template) is not None:
        name = template
    return task.files.text("agent-config", name, "the agent configuration")


def _fill(text: str, values: dict[str, str]) -> str:
    """All marks at once: a value that looks like a mark stays."""
    return _MARK.sub(lambda found: values.get(found[0][1:-1], found[0]), text)
