"""Session states and the environment status that follows from them (catalog-api.md §5.1, §5.2)."""

from __future__ import annotations

from collections.abc import Iterable

OPENED = "opened"
DEPLOYING = "deploying"
DEPLOYED = "deployed"
DEPLOY_FAILURE = "deploy failure"
DELETING = "deleting"
DELETE_FAILURE = "delete failure"

READY = "ready"
PENDING = "pending"

#: What an environment can be.
ENVIRONMENT = (READY, PENDING, DEPLOYING, DEPLOY_FAILURE, DELETING, DELETE_FAILURE)
#: What a deployment can be.
DEPLOYMENT = (
    *("running", "running_w_errors", "running_w_warnings"),
    *("success", "completed_w_errors", "completed_w_warnings"),
)

ACTIVE = (DEPLOYING, DELETING)
FINAL = (DEPLOYED, DEPLOY_FAILURE, DELETE_FAILURE)
BEGUN = ACTIVE + FINAL

#: How a deployment ended, where its state says less; the metrics' word `failed` is the history's, too.
ENDINGS = {
    "success": "success",
    "completed_w_warnings": "warnings",
    "completed_w_errors": "failed",
}


def environment_status(states: Iterable[str]) -> str:
    """The status, from the states of all sessions, newest version first, then newest update."""
    opened = False
    for state in states:
        if state in (DEPLOYING, DELETING, DEPLOY_FAILURE, DELETE_FAILURE):
            return state
        if state == OPENED:
            opened = True
        elif state == DEPLOYED:
            break
    return PENDING if opened else READY


def deployment_state(*, finished: bool, errors: int, warnings: int) -> str:
    """The state of a task, from its end and the levels of its reports."""
    if finished:
        if errors:
            return "completed_w_errors"
        return "completed_w_warnings" if warnings else "success"
    if errors:
        return "running_w_errors"
    return "running_w_warnings" if warnings else "running"
