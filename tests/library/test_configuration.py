"""`io.murano.configuration.Linux`: commands and files on guests (core-library.md §4.11)."""

from __future__ import annotations

import base64
import subprocess
from pathlib import Path
from typing import Any

import pytest

from vetro.engine.services import library_path

NOWHERE = {"useEnvironmentNetwork": False, "useFlatNetwork": False, "customNetworks": []}


async def call(lab: Any, statement: str, **options: Any) -> Any:
    """Run a statement with `$agent`; its value."""
    text = f"- $agent: $.vm.agent\n- Return: {statement}"
    return await lab.probe(text, vm=lab.instance(networks=NOWHERE), **options)


@pytest.mark.parametrize(
    ("arguments", "name", "options"),
    [
        ("", "Execute uptime", (True, True, True)),
        (", 'a title'", "a title", (True, True, True)),
        (
            ", helpText => t, captureStdout => false, ignoreErrors => true",
            "t",
            (False, True, False),
        ),
        (", null, false", "Execute uptime", (True, False, True)),
    ],
)
async def test_commands(lab: Any, arguments: str, name: str, options: tuple[bool, ...]) -> None:
    """The plan has the command as its script; title, captured streams and exit code as asked."""
    lab.cloud.transport.guest = lambda queue, plan: {
        "FormatVersion": "2.0.0", "ErrorCode": 0,
        "Body": {"exitCode": 3, "stdout": "out", "stderr": "err"},
    }  # fmt: skip
    result = await call(lab, f"conf:Linux.runCommand($agent, uptime{arguments})")
    assert result == {"exitCode": 3, "stdout": "out", "stderr": "err"}
    ((queue, plan),) = lab.cloud.transport.plans
    assert queue == "eenv-hvm"
    assert plan["Name"] == name
    script = plan["Scripts"]["runCommand"]
    assert script["Type"] == "Application"
    stdout, stderr, verify = options
    assert script["Options"] == {
        "captureStdout": stdout, "captureStderr": stderr, "verifyExitcode": verify,
    }  # fmt: skip
    assert plan["Files"][script["EntryPoint"]]["Body"] == "uptime"
    assert plan["Files"][script["EntryPoint"]]["Name"] == "scriptFile.sh"


async def test_the_time_to_wait_is_the_callers(lab: Any) -> None:
    """Given in seconds; else the engine's."""
    await call(lab, "conf:Linux.runCommand($agent, a, timeout => 9)")
    assert lab.cloud.transport.waited[0][1] == 9.0


async def test_a_command_that_dollars_are_in(lab: Any) -> None:
    """The command is text: nothing in it is replaced."""
    await call(lab, "conf:Linux.runCommand($agent, 'echo $HOME ${USER} {x}')")
    ((_, plan),) = lab.cloud.transport.plans
    assert "echo $HOME ${USER} {x}" in [body["Body"] for body in plan["Files"].values()]


@pytest.mark.parametrize(("code", "expected"), [(0, True), (1, False)])
async def test_files(lab: Any, code: int, expected: bool) -> None:
    """The content travels as base64, the path as a parameter; true when it was written."""
    lab.cloud.transport.guest = lambda queue, plan: {
        "FormatVersion": "2.0.0", "ErrorCode": 0, "Body": code,
    }  # fmt: skip
    content = "größe\\n"
    found = await call(
        lab, f'conf:Linux.putFile($agent, "{content}", "/etc/x y", ignoreErrors => true)'
    )
    assert found is expected
    ((_, plan),) = lab.cloud.transport.plans
    assert plan["Name"] == "Put to /etc/x y"
    assert plan["Parameters"] == {"path": "/etc/x y"}
    files = {body["Name"]: body for body in plan["Files"].values()}
    assert files["destinationFile"]["BodyType"] == "Base64"
    assert base64.b64decode(files["destinationFile"]["Body"]).decode() == "größe\n"
    assert plan["Scripts"]["putFile"]["Files"] == ["destination"]


def test_the_script_that_writes_a_file(tmp_path: Path) -> None:
    """It makes the directory and copies bytes as they are, whatever the path's name."""
    content = bytes(range(256))
    (tmp_path / "destinationFile").write_bytes(content)
    script = library_path() / "io.murano" / "Resources" / "scripts" / "putFile.sh"
    target = tmp_path / "a b" / "c'd"
    subprocess.run(["sh", str(script), str(target)], cwd=tmp_path, check=True, timeout=20)
    assert target.read_bytes() == content


async def test_one_agent_works_serially_and_two_in_parallel(lab: Any) -> None:
    """Calls of one agent come one after another; those of others do not wait for them."""
    running: dict[str, int] = {}
    most: dict[str, int] = {"each": 0, "all": 0}
    transport = lab.cloud.transport
    inner = transport.wait_result

    async def counted(message_id: str, timeout: float) -> Any:
        import asyncio

        queue = next(q for q, plan in transport.plans if plan["ID"] == message_id)
        running[queue] = running.get(queue, 0) + 1
        most["each"] = max(most["each"], running[queue])
        most["all"] = max(most["all"], sum(running.values()))
        for _ in range(50):
            await asyncio.sleep(0)
        running[queue] -= 1
        return await inner(message_id, timeout)

    transport.wait_result = counted
    text = """
    - $agents: list($.a.agent, $.a.agent, $.b.agent, $.b.agent)
    - $agents.pselect(conf:Linux.runCommand($, x))
    """
    await lab.probe(
        text,
        a=lab.instance("a", "a", networks=NOWHERE),
        b=lab.instance("b", "b", networks=NOWHERE),
    )
    assert most == {"each": 1, "all": 2}
