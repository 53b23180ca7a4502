"""Files that the settings name: rules about calls and models, networks, authorities of the broker."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from vetro.server.errors import StartError
from vetro.server.settings import Settings

if TYPE_CHECKING:
    from vetro.http import Policy


def policy_of(settings: Settings, read: Callable[[Path | None], Policy]) -> Policy:
    """The policy of ``server.policy_file``. Errors: ``StartError``."""
    from vetro.http import PolicyError

    given = settings.server.policy_file
    try:
        return read(Path(given) if given else None)
    except PolicyError as error:
        raise StartError(
            f"server.policy_file: {error}",
            "A rule is, for example: 'delete_environment: role:operator or is_admin:True'.",
        ) from error


def networks_of(settings: Settings) -> dict[str, object] | None:
    """The networks of ``api.network_config_file``; ``None`` without one. Errors: ``StartError``."""
    from vetro.environments import NetworkTemplateError, read_network_template

    given = settings.api.network_config_file
    try:
        return read_network_template(Path(given)) if given else None
    except NetworkTemplateError as error:
        raise StartError(
            f"api.network_config_file: {error}",
            "It is a map with 'environment' (a network: '?' with its type, and a name) and 'flat'.",
        ) from error


def check_model_rules(settings: Settings) -> None:
    """Errors: ``StartError`` when the rules about models are to be asked and cannot be read."""
    if not settings.engine.enable_model_policy_enforcer:
        return
    from vetro.engine import RulesError, read_rules

    try:
        read_rules(Path(settings.engine.model_policy_file))
    except RulesError as error:
        raise StartError(
            f"The rules about models cannot be read: {error}",
            "Correct engine.model_policy_file, or that file.",
        ) from error


def check_broker(settings: Settings) -> None:
    """Errors: ``StartError`` when the broker's certificate cannot be checked as ``[rabbitmq]`` says."""
    if not settings.rabbitmq.host:
        return
    try:
        settings.rabbitmq.reached().tls()
    except (ValueError, OSError) as error:
        raise StartError(
            "The broker's certificate could not be checked as"
            f" {settings.rabbitmq.ca_certs or '[rabbitmq]'} says: {error}",
            "Correct [rabbitmq] ca_certs and ssl_version: PEM of those that sign its certificate.",
        ) from error
