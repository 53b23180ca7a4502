"""What people are told about the status of an environment, in the words of the dashboard."""

from __future__ import annotations

from collections.abc import Mapping

from vetro.cli.terminal.output import for_people

_WORDS = {
    "new": "Ready to configure",
    "pending": "Ready to deploy",
    "deploying": "Deploying",
    "ready": "Ready",
    "deleting": "Deleting",
    "deploy failure": "Deploy failed",
    "delete failure": "Delete failed",
}


def with_status_words(environment: Mapping[str, object]) -> dict[str, object]:
    """An environment of the API with the words for its status; as it is where programs read.

    A session that holds no changes leaves nothing to deploy, and what was never deployed is new
    (dashboard-and-cli.md A2).
    """
    row = dict(environment)
    if not for_people():
        return row
    status = str(row.get("status"))
    if status == "pending" and row.get("has_changes") is False:
        status = "ready"
    if status == "ready" and row.get("version") == 0:
        status = "new"
    if status in _WORDS:
        row["status"] = _WORDS[status]
    return row
