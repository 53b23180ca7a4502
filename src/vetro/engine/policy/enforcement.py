"""Asking the rules about a model: first what to change, then what is wrong (catalog-api.md §12)."""

from __future__ import annotations

import copy
from pathlib import Path

import structlog

from vetro.engine.policy.changes import WrongChange, change
from vetro.engine.policy.facts import Ancestors, TooManyFacts, facts_of, id_of
from vetro.engine.policy.rules import Rules, RulesError, read_rules_text

MODIFY, ERRORS = "predeploy_modify", "predeploy_errors"
REFUSED = "Murano object model validation failed: "
LARGEST_FILE = 2**20
log = structlog.get_logger(__name__)


class ModelRefused(Exception):
    """The rules do not let a model be deployed, or cannot be asked; the text is for the user."""


def read_rules(file: Path) -> Rules:
    """The rules in a file. Errors: ``RulesError`` with the file, the line and what is wrong."""
    try:
        with file.open("rb") as opened:
            content = opened.read(LARGEST_FILE + 1)
        if len(content) > LARGEST_FILE:
            raise RulesError(f"larger than {LARGEST_FILE} bytes")
        if not content.strip():
            # As a file is that was cut off; one that asks for nothing has a comment.
            raise RulesError("it is empty")
        return read_rules_text(content.decode())
    except OSError as error:
        raise RulesError(f"{file}: {error.strerror}") from error
    except (RulesError, UnicodeDecodeError) as error:
        raise RulesError(f"{file}: {error}") from error


def enforce(
    file: Path, objects: dict[str, object], project_id: str, ancestors: Ancestors
) -> dict[str, object]:
    """The root object with what the rules change. Errors: ``ModelRefused``.

    ``objects``: in the engine's form, not changed itself. Rules that cannot be read or finished
    refuse every model: a broken file must not let through what it was written against.
    """
    try:
        rules = read_rules(file)
        asked = _rows(rules, objects, project_id, ancestors, MODIFY)
        changed = copy.deepcopy(objects) if asked else objects
        for action in asked:
            try:
                change(changed, action)
            except WrongChange as error:
                raise ModelRefused(f"{REFUSED}\n    {action:.200}: {error}") from error
            log.info("model_changed_by_policy", environment=id_of(objects), action=action)
        wrong = _rows(rules, changed, project_id, ancestors, ERRORS)
    except (RulesError, TooManyFacts) as error:
        raise ModelRefused(f"{REFUSED}\n    the rules cannot be asked: {error}") from error
    if wrong:
        raise ModelRefused(REFUSED + "".join(f"\n    {text}" for text in wrong))
    return changed


def _rows(
    rules: Rules, objects: dict[str, object], project_id: str, ancestors: Ancestors, table: str
) -> list[str]:
    """The texts of a table's rows about this environment, each once, in a fixed order."""
    facts = facts_of(objects, project_id, ancestors)
    found = rules.derive(facts).get(table, set())
    return list(dict.fromkeys(row[2] for row in sorted(found) if _is_about(row, id_of(objects))))


def _is_about(row: tuple[str, ...], environment: str) -> bool:
    return len(row) == 3 and environment in row[0]
