"""Every parameter of every documented call, generated: nothing crashes, every refusal is explained."""

import contextlib
from collections.abc import Iterator
from typing import Any

import hypothesis
import pytest
import requests
import schemathesis
from schemathesis.core.result import Ok
from tests.effort import ONE_IN, examples
from tests.server.conftest import Installation

EXAMPLES = examples(5 * ONE_IN)
for _type in ("application/murano-packages-json-patch", "application/env-model-json-patch"):
    schemathesis.serializer.alias(_type, "application/json")
pytestmark = [pytest.mark.e2e]


@pytest.fixture(scope="module")
def fuzzed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installation]:
    """An installation without a node, for these tests: requests may do to it whatever they may."""
    made = Installation(
        tmp_path_factory.mktemp("fuzzed"), driver="process", VETRO_NODE_ENABLED="false"
    )
    made.inside = True
    made.start()
    yield made
    made.end()


@pytest.mark.parametrize("face", ["", "/identity", "/repository"])
def test_no_request_breaks_a_face(fuzzed: Installation, face: str) -> None:
    """Valid and invalid requests get answers: never a 5xx, always an explained refusal."""
    headers = {"X-Auth-Token": fuzzed.run("token").strip()}
    schema = schemathesis.openapi.from_url(f"{fuzzed.url}{face}/schema/openapi.json")
    schema.config.base_url = f"{fuzzed.url}{face}"
    operations = [one.ok() for one in schema.get_all_operations() if isinstance(one, Ok)]
    assert len(operations) > 15
    operations = operations[::ONE_IN]  # making a strategy is what takes time
    with requests.Session() as session:
        calls = 0
        for number, operation in enumerate(operations):
            real = real_ids(fuzzed, number, headers["X-Auth-Token"]) if not face else {}
            for mode in schemathesis.GenerationMode:
                calls += explore(operation, mode, session, headers, real)
    assert calls > EXAMPLES * len(operations)
    # And it still works.
    assert fuzzed.run("env", "list") is not None


def explore(
    operation: Any,
    mode: Any,
    session: requests.Session,
    headers: dict[str, str],
    real: dict[str, str],
) -> int:
    """Make generated requests of one operation and look at the answers; how many there were."""
    if operation.path.endswith("/events"):
        return 0  # a stream that ends with its deployment
    calls = 0

    @hypothesis.settings(
        max_examples=EXAMPLES,
        database=None,
        deadline=None,
        derandomize=True,
        suppress_health_check=list(hypothesis.HealthCheck),
        phases=[hypothesis.Phase.generate],
    )
    @hypothesis.given(case=operation.as_strategy(generation_mode=mode))
    def one(case: Any) -> None:
        nonlocal calls
        calls += 1
        given = dict(headers)
        # Half of the calls are about things that are there: what is random never gets far.
        if calls % 2:
            for name, value in real.items():
                if name in (case.path_parameters or {}):
                    case.path_parameters[name] = value
            if "session_id" in real and operation.method.upper() != "GET":
                given["X-Configuration-Session"] = real["session_id"]
        check(case, case.call(headers=given, session=session, timeout=30))

    with contextlib.suppress(hypothesis.errors.Unsatisfiable):  # nothing can be wrong about it
        one()
    return calls


def real_ids(fuzzed: Installation, number: int, token: str) -> dict[str, str]:
    """An environment with a session and an application, made for one operation."""

    def call(path: str, body: Any = None, **headers: str) -> Any:
        return fuzzed.http("POST", f"/v1/environments{path}", body, token=token, **headers)[1]

    environment = call("", {"name": f"fuzz-{number}"})["id"]
    session = call(f"/{environment}/configure")["id"]
    service = {"?": {"type": "org.acme.App"}, "name": "app", "ports": [80]}
    call(f"/{environment}/services", service, **{"X-Configuration-Session": session})
    return {"environment_id": environment, "session_id": session}


def check(case: Any, answer: Any) -> None:
    """An answer as documented: no server error, a request id, a fault body with one object."""
    where = f"{case.method} {case.formatted_path}: {answer.status_code} {answer.content[:300]!r}"
    assert answer.status_code < 500, where
    assert answer.headers.get("x-openstack-request-id", [""])[0].startswith("req-"), where
    label = answer.headers.get("content-type", [""])[0]
    assert label.count("charset") <= 1, f"{where} {label}"
    if answer.status_code >= 400 and case.method != "HEAD" and answer.content:
        body = answer.json()
        assert list(body) == ["error"], where
        assert body["error"]["code"] == answer.status_code, where
        assert body["error"]["message"], where
