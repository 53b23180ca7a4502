"""The rules about models (``[engine]``), looked at before the service starts."""

from __future__ import annotations

from pathlib import Path

from vetro.server.errors import StartError
from vetro.server.settings import Settings


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
