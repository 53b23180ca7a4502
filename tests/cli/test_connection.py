"""What the command says of an error answer, in each face's style."""

import json
from typing import Any

import pytest

from vetro.cli.client.hints import error_text, hint_for
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
        (400, {"message": "the file is not a zip archive (x)"}, "the file is not a zip archive (x)",
         "vetro package build"),
        (403, {"message": "Only an administrator may add categories"},
         "Only an administrator may add categories", "ask an administrator"),
        (403, {"message": "This call is for operators"}, "This call is for operators",
         "ask an administrator"),
        (403, {"message": "Package p belongs to another project"},
         "Package p belongs to another project", "OS_PROJECT_NAME"),
        (403, {"message": "Environment e is deploying; wait until it has finished"},
         "Environment e is deploying; wait until it has finished", "deployment cancel"),
        (409, {"message": "Package p 1 is in this project's catalog already; x"},
         "Package p 1 is in this project's catalog already; x", "--exists-action update"),
        (409, {"message": "There are changes that are not deployed, and this would overtake them: x"},
         "There are changes that are not deployed, and this would overtake them: x", "env changes"),
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
@pytest.mark.parametrize("status", [403, 409])
def test_a_refusal_that_says_all_has_no_hint(message: str, status: int) -> None:
    """The message says what is in the way; a hint that does not fit would lead astray."""
    answer = SyncResponse(status, {}, json.dumps({"code": "X", "message": message}).encode())
    assert hint_for(answer) is None
