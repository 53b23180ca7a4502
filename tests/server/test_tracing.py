"""Traces of a whole installation: from a request to what nodes do for it."""

import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.tracing.collector import collecting

pytestmark = pytest.mark.thorough

ROOT = Path(__file__).resolve().parents[2]
TRACE = "0af7651916cd43dd8448eb211c80319c"


@pytest.mark.e2e
def test_a_deployment_is_one_trace(install: Callable[..., Any], tmp_path: Path) -> None:
    """The request of a command that was given a trace, the deployment, its effects, the calls of the
    compute service and the node's tasks are one trace; heartbeats and polls are in none.
    """
    with collecting() as collector:
        vetro = install("traced", driver="process", VETRO_TRACING_ENDPOINT=collector.url)
        empty = tmp_path / "empty.tar"
        subprocess.run(
            ["tar", "--create", "--file", empty, "--files-from", "/dev/null"], check=True
        )
        vetro.run("image", "import", "empty", str(empty))
        vetro.run("package", "import", str(ROOT / "library/HelloScript"))
        vetro.run("env", "create", "web")
        script = "#!/bin/sh\necho traced\n"
        vetro.run(
            *("env", "add", "web", "HelloScript", "--name", "s"),
            *("--set", "image=empty", "--set", f"script={script}"),
        )
        vetro.environ["TRACEPARENT"] = f"00-{TRACE}-b7ad6b7169203331-01"
        vetro.run("env", "deploy", "web")
        assert vetro.status("web") == "ready"
        del vetro.environ["TRACEPARENT"]
        vetro.run("env", "destroy", "web", "--yes")
        vetro.stop()
    spans = [one for one in collector.spans if one.trace == TRACE]
    parts = {one.part for one in spans}
    assert parts == {"up", "worker"}
    tasks = [one for one in spans if one.name.startswith("node task ")]
    created = next(one for one in tasks if "machine_create" in one.name)
    assert collector.above(created) == [
        "POST",
        "POST /servers/{server_uuid}/vms",
        "POST",
        "stack.push",
        "action deploy",
        "POST /v1/environments/{environment_id}/sessions/{session_id}/deploy",
    ]
    # The guest ran the script, and its effect ended well.
    ran = next(one for one in spans if one.name.startswith("guest script"))
    assert collector.above(ran)[:3] == ["guest plan", "agent.result", "action deploy"]
    assert not [one for one in spans if one.failed]
    others = {one.name for one in collector.spans}
    assert not [name for name in others if "heartbeat" in name or name.startswith("GET /agents")]


@pytest.mark.e2e
def test_a_collector_that_is_away_changes_nothing(install: Callable[..., Any]) -> None:
    """Everything works, one line of the log says that traces are not sent, and the process ends in time."""
    vetro = install(
        "untraced", driver="simulated", VETRO_TRACING_ENDPOINT="http://127.0.0.1:1/v1/traces"
    )
    vetro.run("env", "create", "web")
    assert [row["name"] for row in vetro.json("env", "list")] == ["web"]
    vetro.stop()
    assert vetro.log().count("traces_not_sent") <= 1
