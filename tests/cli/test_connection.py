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
        (409, {"code": "Conflict", "message": "in use", "errors": "none"}, "in use", "exists"),
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
