"""How the guest agent is stopped: the plan that runs is left alone (guest-agent.md §8)."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.waiting import until

from vetro.engine.services import library_path
from vetro.node.drivers.qemu import seed
from vetro.node.guest.instance_files import Init, start_script, write_init
from vetro.node.guest.root import GuestRoot


def _image_unit(folder: Path) -> str:
    root = GuestRoot(folder)
    write_init(root, Init.SYSTEMD, with_agent=True)
    return (root.read("/etc/systemd/system/vetro-guest.service") or b"").decode()


def _library_unit(folder: Path) -> str:
    return (library_path() / "io.murano/Resources/murano-agent.service").read_text()


@pytest.mark.parametrize("unit", [_image_unit, _library_unit, lambda _: seed.AGENT_UNIT])
def test_systemd_ends_the_agent_only(unit: Callable[[Path], str], tmp_path: Path) -> None:
    """Every unit that starts an agent leaves the other processes of its group alone."""
    lines = unit(tmp_path).splitlines()
    assert "Restart=always" in lines
    assert [line for line in lines if line.startswith("KillMode=")] == ["KillMode=process"]


@pytest.fixture
def script(tmp_path: Path) -> Path:
    """The start script, with an agent that writes its id, and notes when it is told to stop."""
    agent = tmp_path / "agent.py"
    agent.write_text(
        "import os, signal, sys, time\n"
        f"said = {str(tmp_path)!r}\n"
        "def stop(number, frame):\n"
        "    open(said + '/stopped', 'w').close()\n"
        "    sys.exit(0)\n"
        "signal.signal(signal.SIGTERM, stop)\n"
        "plan = os.fork()\n"
        "if plan == 0:\n"
        "    os.setpgid(0, 0)\n"
        "    signal.signal(signal.SIGTERM, signal.SIG_DFL)\n"
        "    time.sleep(300)\n"
        "open(said + '/new', 'w').write(str(plan))\n"
        "os.rename(said + '/new', said + '/plan')\n"
        "while True: time.sleep(300)\n"
    )
    path = tmp_path / "start-agent"
    text = start_script().replace("/opt/vetro/vetro-guest.pyz", str(agent))
    assert str(agent) in text
    path.write_text(text)
    path.chmod(0o755)
    return path


def test_the_start_script_passes_the_order_to_stop_on(script: Path, tmp_path: Path) -> None:
    """Ended alone, it ends the agent and waits for it, without a pause; the plan goes on."""
    process = subprocess.Popen([str(script)], stdout=subprocess.DEVNULL, start_new_session=True)
    until((tmp_path / "plan").exists)
    plan = int((tmp_path / "plan").read_text())
    try:
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 0
        assert (tmp_path / "stopped").exists()
        os.kill(plan, 0)
    finally:
        os.kill(plan, signal.SIGKILL)
