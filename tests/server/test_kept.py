"""A service whose database keeps nothing any more says so to every write, and goes on being read."""

from __future__ import annotations

import pytest

from .access_table import TABLES, Names, Place, Row
from .test_access import (
    filled,
    place,  # noqa: F401 a fixture
    routes_of,
)

pytestmark = pytest.mark.usefixtures("quick_passwords")
OWNERS = {"operators": "root", "node": "node", "guest": "guest ours", "people": "eve"}
#: Calls that look, answer and store nothing, although they are no GET.
LOOKING = {
    "POST /v1/catalog/checks", "POST /v1/wizards/{wizard_id}/pages/{page}/check",
    "POST /v1/environments/{environment_id}/upgrades/preview", "POST /v1/wizards/{wizard_id}/build",
    # A login that cannot be stored lasts for minutes (tests/identity/test_unstored.py).
    "POST /v3/auth/tokens",
    # What a guest says of itself is collected for some seconds.
    "POST /v1/plans/{message_id}/ack",
    # Nothing to import, nothing to detach.
    "POST /v1/catalog/bundles", "POST /v1/catalog/imports", "POST /volumes/{uuid}/detach",
    # What nodes say comes again: it is gathered, and stored when it can be.
    "POST /servers/{server_uuid}/events/heartbeat", "POST /servers/{server_uuid}/events/status",
    "POST /servers/{server_uuid}/events/vm", "POST /servers/{server_uuid}/events/vms",
}  # fmt: skip


@pytest.mark.thorough
@pytest.mark.parametrize("name", sorted(TABLES))
async def test_no_write_is_accepted_that_is_not_kept(place: Place, name: str) -> None:  # noqa: F811
    """503 with one sentence, or the call's own refusal; lists go on."""
    face = next(one for one in place.faces if one.name == name)
    calls: list[tuple[str, str, Row, Names]] = []
    for method, path in routes_of(face):
        row = TABLES[name].get(f"{method} {path}")
        if row is not None and method != "GET" and (row.kind != "public" or row.make is not None):
            calls.append((method, path, row, await row.make(place) if row.make else {}))
    place.file.unlink()
    problems: list[str] = []
    refused = 0
    for method, path, row, names in calls:
        more = {"Content_Type": row.type} if row.type else {}
        if "session_id" in names:
            more["X_Configuration_Session"] = names["session_id"]
        target = face.prefix + filled(path, names) + row.query
        answer = await place.call(OWNERS.get(row.kind, "ann"), method, target, row.body, **more)
        if answer.status == 503:
            refused += 1
            if (
                "keeps nothing at the moment, so nothing of this request was stored"
                not in answer.text
            ):
                problems.append(f"{method} {path}: {answer.text}")
        elif answer.status < 300 and f"{method} {path}" not in LOOKING:
            problems.append(f"{method} {path} was accepted: {answer.status} {answer.text[:200]}")
        elif answer.status >= 500 and answer.status not in row.good:
            problems.append(f"{method} {path}: {answer.status} {answer.text[:200]}")
    assert not problems, "\n".join(problems)
    assert refused or name == "repository"
    assert (await place.call("ann", "GET", "/v1/environments")).status == 200
    assert not place.file.exists()
