"""The first script of an instance, with the agent's configuration in it (§10.5)."""

from __future__ import annotations

import base64
import re

from vetro.workflows.errors import EvaluationError
from vetro.workflows.ports import PortError
from vetro.workflows.running import RunningTask

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
