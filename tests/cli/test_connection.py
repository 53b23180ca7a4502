"""What the command says of an error answer, in each face's style."""

import json
from typing import Any

import pytest

from vetro.cli.connection import error_text, hint_for
from vetro.http.client import SyncResponse

PARAMETERS = {
    "code": "InvalidParameters",
    "message": "Request parameters failed validation",
    "errors": [{"field": "mtu", "code": "Invalid", "message": "value was not a number"}, None],
}


@pytest.mark.parametrize(
    ("status", "body", "says", "hint"),
    [
        (404, {"error": {"code": 404, "message": "no such package"}}, "no such package", "'list'"),
        (500, PARAMETERS, "Request parameters failed validation; mtu: value was not a number", "'--help'"),
        (409, {"message": "Category 'x' exists already", "errors": "none"},
         "Category 'x' exists already", "choose another name"),
        (409, {"message": "Environment with specified name already exists: x"},
         "Environment with specified name already exists: x", "choose another name"),
        (503, {"code": "X", "message": "later"}, "later", "req-1"),
        (400, {"other": 1}, '400: {"other": 1}', "'--help'"),
    ],
)  # fmt: skip
def test_an_error_names_what_is_wrong_and_what_to_do(
    status: int, body: Any, says: str, hint: str
) -> None:
    """Messages of catalog and compute answers, single parameters included, and one hint."""
    answer = SyncResponse(status, {"x-request-id": "req-1"}, json.dumps(body).encode())
    assert error_text(answer) == says
    assert hint in str(hint_for(answer))


@pytest.mark.parametrize(
    "message",
    [
        "Operation attempted on server which is not running",
        "No compute resources available: no servers with enough unreserved RAM",
        "a server-drain job of x is not finished yet: wait for job y",
        "VM a is on server b already",
        "network n is in use by port p",
        "Deployment x has ended already",
        "Server may not be reset because it has 3 vms",
    ],
)
def test_a_conflict_that_is_about_no_name_has_no_hint_about_names(message: str) -> None:
    """The message says what is in the way; a hint that does not fit would lead astray."""
    answer = SyncResponse(409, {}, json.dumps({"code": "X", "message": message}).encode())
    assert hint_for(answer) is None
