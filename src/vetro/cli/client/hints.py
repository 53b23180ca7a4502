"""A service's refusal in its own words, and what the user can do about it.

A hint that does not fit the mistake misleads: one is given only where the answer says enough.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, cast

from vetro.cli.terminal.typed import covered
from vetro.http.client import SyncResponse

TAKEN = "A thing of that name exists: choose another name, or remove it first."
HINTS: tuple[tuple[int, str, str], ...] = (
    (400, r"not a zip archive", "A package is a zip or a directory: 'vetro package build DIRECTORY'"
     " makes the zip."),
    (403, r"administrator|for operators", "Log in as somebody who may (OS_USERNAME, OS_PASSWORD), or"
     " ask an administrator."),
    (403, r"another project", "OS_PROJECT_NAME says which project you work in."),
    (403, r"wait until it has finished|already (being deployed|deploying|deleting)",
     "'vetro env follow ENVIRONMENT' shows what goes on, 'vetro deployment cancel ENVIRONMENT' ends"
     " it."),
    (403, r"already deployed|deploy failure|delete failure", "Its session has ended: begin again, a"
     " new one is opened."),
    (403, r"has packages", "Take its packages out first: 'vetro package update --category'."),
    (404, r"^Session ", "'vetro env session ENVIRONMENT' says which one is yours, and opens one."),
    (404, r"^There is no task", "'vetro deployment list ENVIRONMENT' shows the tasks that there were."),
    (404, r"^Marker ", "A marker is the id of the last row of the page before."),
    (409, r"catalog already", "--exists-action update replaces it, --exists-action skip leaves it."),
    (409, r"Class \S+ is declared by package", "Give the class another name, or delete that package"
     " first."),
    (409, r"\bexists already\b|\balready exists\b", TAKEN),
    (409, r"this would overtake them", "'vetro env changes ENVIRONMENT' shows them, and drops them or"
     " takes them over."),
    (409, r"overtaken", "'vetro env changes ENVIRONMENT --take-over' makes them on what is deployed"
     " now."),
    (409, r"Project .+ still has", "'vetro project delete --force' destroys its environments and removes"
     " all that it has."),
    (409, r"Package \S+ \S+ is used by", "With --force those environments stay as they"
     " are."),
)  # fmt: skip
BY_STATUS = {
    400: "'--help' says what the command takes.",
    401: "It may have expired: unset VETRO_TOKEN (OS_TOKEN), or set another; 'vetro token' prints one.",
    404: "The 'list' commands show what is there.",
    413: "The file is larger than the service accepts.",
    507: "The service's disk is full.",
}


def not_of_vetro(response: SyncResponse, address: str) -> tuple[str, str] | None:
    """The error and the hint for an answer that is no service's but a proxy's, or a web site's.

    No face of Vetro, and none of OpenStack, sends a command a web page or somewhere else.
    """
    status = response.status
    if 300 <= status < 400 and (place := response.headers.get("location")):
        return (
            f"{address} answers that what is asked for is at {place} ({status})",
            "When Vetro is there, name that address with --url, VETRO_URL or OS_AUTH_URL.",
        )
    if not response.headers.get("content-type", "").startswith("text/html"):
        return None
    title = re.search(r"<title[^>]*>([^<]*)</title>", response.text, re.IGNORECASE)
    said = " ".join(title[1].split())[:80] if title else ""
    named = f", titled {said!r}" if said else ""
    if status in (502, 503, 504):
        return (
            f"{address} is answered by a proxy that does not reach Vetro ({status}{named})",
            "Start it with 'vetro up' where the proxy looks for it, or name its own address with --url.",
        )
    return (
        f"{address} answers with a web page ({status}{named}): it is no Vetro, or a proxy answers for it",
        "Name Vetro's address with --url or VETRO_URL; HTTP_PROXY and NO_PROXY say which proxy is asked.",
    )


def error_text(response: SyncResponse) -> str:
    """The message of an error body in any of the faces' styles, without what was typed and is secret."""
    return covered(_error_text(response))


def _error_text(response: SyncResponse) -> str:
    try:
        body: object = response.json()
    except ValueError:
        text = response.text.strip()
        return f"{response.status}: {text[:300]}" if text else f"status {response.status}"
    if isinstance(body, dict):
        for value in cast("list[object]", [body, *cast("dict[str, object]", body).values()]):
            if isinstance(value, dict):
                message = cast("dict[str, Any]", value).get("message")
                if message:
                    return "; ".join(
                        [str(message), *wrong_fields(cast("dict[str, object]", value))]
                    )
    return f"{response.status}: {json.dumps(body)[:300]}"


def wrong_fields(body: Mapping[str, object]) -> list[str]:
    """What a compute service says of single parameters: ``errors: [{field, message}]``."""
    given: object = body.get("errors")
    errors = cast("list[object]", given) if isinstance(given, list) else []
    return [
        f"{one.get('field')}: {one.get('message')}"
        for one in cast("list[dict[str, object]]", [e for e in errors if isinstance(e, dict)])
    ]


def hint_for(response: SyncResponse) -> str | None:
    """What a user can do about a refusal."""
    status = response.status
    if status == 500 and '"InvalidParameters"' in response.text:
        status = 400  # the compute document's way to say so
    if status >= 500 and status != 507:
        headers = response.headers
        request = headers.get("x-openstack-request-id") or headers.get("x-request-id")
        request = request or "this request"
        return f"The service's log has more under {request}."
    text = error_text(response)
    for wanted, words, hint in HINTS:
        if status == wanted and re.search(words, text):
            return hint
    # Most refusals with 403 and 409 say all that there is to say.
    return BY_STATUS.get(status)
