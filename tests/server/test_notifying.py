"""What notifications about environments hold (catalog-api.md §11)."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from vetro.environments import Ending, Existing
from vetro.environments.lifecycle import TaskIdentity
from vetro.server.notifying import ending_payload, existing_payload

NOW = datetime(2026, 5, 4, 3, 2, 1, tzinfo=UTC)
BEGUN = NOW - timedelta(hours=1)
MEMBERS = {
    "id", "level", "environment_id", "tenant_id", "created_at", "deleted_at", "launched_at",
    "timestamp", "deployment_started", "deployment_finished",
}  # fmt: skip


def ended(action: dict[str, Any] | None) -> dict[str, Any]:
    """The notification about a task of a minute, of an environment that is an hour old."""
    identity = TaskIdentity("d", "e", "name", "p", "u", action, BEGUN)
    return ending_payload(Ending(identity, "success", 60), NOW)


@pytest.mark.parametrize(
    ("payload", "deleted"),
    [
        (ended({"object_id": "e", "method": "deploy"}), False),
        (ended(None), True),
        (existing_payload(Existing("e", "name", "p", BEGUN, "d", BEGUN, NOW), NOW), False),
    ],
    ids=["deployment", "deletion", "existing"],
)
def test_notifications_have_the_members_of_old(payload: dict[str, Any], deleted: bool) -> None:
    """A consumer of Murano's notifications reads these: members, moments, and null where nothing is."""
    assert set(payload) >= MEMBERS
    assert (payload["environment_id"], payload["tenant_id"]) == ("e", "p")
    assert payload["created_at"] == BEGUN.isoformat()
    assert payload["deployment_finished"] == NOW.isoformat()
    assert (payload["deleted_at"] is not None) == deleted
    assert payload["launched_at"] is None
