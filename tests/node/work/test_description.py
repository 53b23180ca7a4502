"""The OpenAPI document of the task API."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from vetro.http.client import HttpClient
from vetro.node.work.endpoints import ENDPOINTS


async def test_the_document_has_every_route_and_needs_no_key(node: Any) -> None:
    """Each call of the task API is described with its method; a generated client needs only the URL."""
    async with HttpClient(app=node.client._client._transport.app, base_url="http://node") as client:
        answer = await client.request("GET", "/openapi.json")
    assert answer.status == 200
    document = answer.json()
    described = {
        path: next(iter(operations)).upper() for path, operations in document["paths"].items()
    }
    assert described == {one.path: one.verbs for one in ENDPOINTS}
    for path in ("/ping", "/openapi.json"):
        assert document["paths"][path]["get"]["security"] == []


async def test_answers_of_the_task_api_are_as_described(node: Any) -> None:
    """Results, refusals and failures are all in the document: the comparison of every test notes none."""
    for method, path, body, status in (
        ("GET", "/ping", None, 200),
        ("GET", "/history", None, 200),
        ("POST", "/tasks", {"task": "nop", "params": {}}, 200),
        ("POST", "/tasks", {"task": "nop", "params": {"error": True}}, 500),
        ("POST", "/tasks", {"params": {}}, 409),
        ("POST", "/tasks", {"task": "unheard", "params": {}}, 404),
        ("POST", "/pause", None, 204),
        ("POST", "/tasks", {"task": "nop", "params": {}}, 503),
        ("POST", "/resume", None, 204),
        ("GET", "/images/99999999-9999-4999-8999-999999999999/file", None, 404),
        ("GET", "/images/%2e%2e/file", None, 404),
    ):
        answer = await node.client.request(method, path, json=body)
        assert answer.status == status, (path, body, answer.text)


async def test_a_typed_client_is_generated_from_it(node: Any, tmp_path: Path) -> None:
    """The generator that the other faces are tested with takes the document without a warning."""
    answer = await node.client.request("GET", "/openapi.json")
    file = tmp_path / "node.json"
    file.write_bytes(answer.content)
    made = subprocess.run(
        [Path(sys.executable).with_name("openapi-python-client"), "generate", "--path", str(file),
         "--output-path", str(tmp_path / "client"), "--meta", "none", "--fail-on-warning"],
        capture_output=True, text=True, check=False,
        env={**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"},
    )  # fmt: skip
    assert made.returncode == 0, made.stdout + made.stderr
    assert (tmp_path / "client/api").is_dir()
