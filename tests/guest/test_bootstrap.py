"""User data: applied once, part by part, and then the agent runs (architecture, guest)."""

from __future__ import annotations

import base64
import gzip
import json
import os
import signal
import subprocess
import sys
from email.mime.multipart import MIMEMultipart
from email.mime.text import MIMEText
from pathlib import Path
from typing import Any

import pytest
from tests.waiting import until

from vetro.guest.agent import bootstrap


def _multipart(*parts: tuple[str, str]) -> bytes:
    message = MIMEMultipart()
    for number, (kind, text) in enumerate(parts):
        part = MIMEText(text, kind, "utf-8")
        part.add_header("Content-Disposition", "attachment", filename=f"part-{number}")
        message.attach(part)
    return message.as_bytes()


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A guest's file system below a folder."""
    folder = tmp_path / "root"
    folder.mkdir()
    return folder


def _cloud_config(config: dict[str, Any]) -> str:
    return "#cloud-config\n" + json.dumps(config)


def _agent_conf(guest: Any) -> str:
    return (
        f"[DEFAULT]\nstorage = /var/plans\n[mailbox]\nurl = {guest.mailbox.url}\n"
        f"token = {guest.mailbox.token}\ninput_queue = q\n"
    )


def _agent_file(guest: Any) -> dict[str, Any]:
    return {"path": "/etc/murano/agent.conf", "content": _agent_conf(guest), "permissions": "0600"}


def _start(guest: Any, root: Path, user_data: bytes) -> None:
    path = root / "user-data"
    path.write_bytes(user_data)
    guest.process = subprocess.Popen(
        [
            sys.executable,
            str(guest.archive),
            "--root",
            str(root),
            "--bootstrap",
            str(path),
            "--config-file",
            str(root / "etc/murano/agent.conf"),
        ],
    )


def test_multipart_user_data_writes_the_configuration_and_the_agent_runs(
    guest: Any, mailbox: Any, make_plan: Any, root: Path
) -> None:
    """A cloud-config and a shell part run in order; the plan waiting in the mailbox runs."""
    config = {
        "write_files": [
            {
                "path": "/etc/murano/agent.conf",
                "content": base64.b64encode(_agent_conf(guest).encode()).decode(),
                "encoding": "b64",
                "permissions": "0600",
            },
            {
                "path": "/etc/zipped",
                "content": base64.b64encode(gzip.compress(b"zipped")).decode(),
                "encoding": "gz+b64",
            },
        ],
        "isolation": "optional",
        "runcmd": ['echo one >> "$VETRO_GUEST_ROOT/trace"', ["sh", "-c", "exit 3"]],
        "manage_etc_hosts": True,
        "ssh_authorized_keys": ["ssh-ed25519 AAAA one", "ssh-ed25519 BBBB two"],
    }
    script = (
        '#!/bin/sh\n# Isolation: optional\necho two >> "$VETRO_GUEST_ROOT/trace"\n'
        'umask >> "$VETRO_GUEST_ROOT/trace"'
    )
    data = _multipart(("cloud-config", _cloud_config(config)), ("x-shellscript", script))
    mailbox.offer(make_plan("return 'booted'"))
    _start(guest, root, data)
    assert mailbox.result()["Body"] == "booted"
    assert (root / "trace").read_text() == "one\ntwo\n0022\n"
    assert (root / "etc/murano/agent.conf").stat().st_mode & 0o777 == 0o600
    assert (root / "etc/zipped").read_bytes() == b"zipped"
    assert (root / "var/plans/plans").is_dir()
    keys = root / "root/.ssh/authorized_keys"
    assert keys.read_text() == "ssh-ed25519 AAAA one\nssh-ed25519 BBBB two\n"
    assert keys.stat().st_mode & 0o777 == 0o600
    log = (root / "var/log/vetro-guest.log").read_text()
    assert "manage_etc_hosts" in log
    assert "exited with code 3" in log


def test_user_data_is_applied_once(guest: Any, mailbox: Any, make_plan: Any, root: Path) -> None:
    """A restarted instance does not run its user data again."""
    script = (
        "#!/bin/sh\n# Isolation: optional\n"
        "cd $VETRO_GUEST_ROOT\necho run >> trace\nmkdir -p etc/murano\n"
        "cat > etc/murano/agent.conf <<END\n" + _agent_conf(guest) + "END\n"
    )
    for number in range(2):
        mailbox.offer(make_plan(f"return {number}"))
        _start(guest, root, script.encode())
        assert mailbox.result()["Body"] == number
        guest.kill(signal.SIGTERM)
    assert (root / "trace").read_text() == "run\n"


def test_an_interrupted_bootstrap_goes_on_where_it_was(
    guest: Any, mailbox: Any, make_plan: Any, root: Path
) -> None:
    """Parts that were applied before a power cut are not applied again."""
    first = '#!/bin/sh\n# Isolation: optional\necho first >> "$VETRO_GUEST_ROOT/trace"\n'
    config = {"write_files": [{"path": "/etc/murano/agent.conf", "content": _agent_conf(guest)}]}
    state = root / "var/lib/vetro/bootstrap.json"
    state.parent.mkdir(parents=True)
    state.write_text(json.dumps({"parts": 1, "complete": False}))
    mailbox.offer(make_plan("return 1"))
    _start(
        guest,
        root,
        _multipart(("x-shellscript", first), ("cloud-config", _cloud_config(config))),
    )
    assert mailbox.result()["Body"] == 1
    assert not (root / "trace").exists()


@pytest.mark.parametrize(
    "bad",
    [
        "#!/bin/sh\n# Isolation: optional\nexit 1\n",
        "#!/nonexistent/interpreter\n",
        "#cloud-config\nhostname: not json\n",
        "#cloud-config\n[]",
        '#cloud-config\n{"write_files": [{"path": "/x", "content": "!", "encoding": "b64"}]}',
        "neither this nor that",
    ],
)
def test_a_broken_part_does_not_stop_the_next(
    guest: Any, mailbox: Any, make_plan: Any, root: Path, bad: str
) -> None:
    """A part that fails is logged; the part that configures the agent still runs."""
    config = {"write_files": [{"path": "/etc/murano/agent.conf", "content": _agent_conf(guest)}]}
    mailbox.offer(make_plan("return 1"))
    _start(
        guest,
        root,
        _multipart(("plain", bad), ("cloud-config", _cloud_config(config))),
    )
    assert mailbox.result()["Body"] == 1
    log = (root / "var/log/vetro-guest.log").read_text()
    assert "ERROR" in log or "WARNING" in log


def test_folders_of_written_files_are_for_everybody(
    guest: Any, mailbox: Any, make_plan: Any, root: Path
) -> None:
    """Missing parents are created as by cloud-init; a file has the given mode."""
    entries = [
        {"path": "/srv/www/site/index.html", "content": "hello", "permissions": "0644"},
        {"path": "/srv/secret", "content": "s", "permissions": "0600"},
        {"path": "/srv/plain", "content": "p"},
        {"path": "/srv/run", "content": "r", "permissions": 0o755, "append": True},
    ]
    config = {"write_files": [*entries, _agent_file(guest)]}
    _start(guest, root, _cloud_config(config).encode())
    mailbox.until(lambda: mailbox.polls > 0)
    modes = {
        str(path.relative_to(root)): oct(path.stat().st_mode & 0o777)
        for path in [*(root / "srv").rglob("*"), root / "srv", root / "var/log"]
    }
    assert modes == {
        "srv": "0o755", "srv/www": "0o755", "srv/www/site": "0o755",
        "srv/www/site/index.html": "0o644", "srv/secret": "0o600", "srv/plain": "0o644",
        "srv/run": "0o755", "var/log": "0o755",
    }  # fmt: skip


@pytest.mark.parametrize(
    "data",
    [b"\x1f\x8bbroken", b"\xff\xfe\x00", b"{" + b"[" * 100_000],
    ids=["gzip", "text", "deep"],
)
def test_user_data_that_cannot_be_read_does_not_keep_the_agent(
    guest: Any, mailbox: Any, root: Path, data: bytes
) -> None:
    """The log has the reason; an existing configuration is used."""
    conf = root / "etc/murano/agent.conf"
    conf.parent.mkdir(parents=True)
    conf.write_text(_agent_conf(guest))
    _start(guest, root, data)
    mailbox.until(lambda: mailbox.polls > 0)
    said = (root / "var/log/vetro-guest.log").read_text()
    assert "user data cannot be read" in said or "User data part 1" in said


def test_a_machine_without_agent_configuration_ends_its_agent_for_good(
    guest: Any, root: Path
) -> None:
    """What is started again for ever burns a processor and fills a log; it says why once and waits."""
    log = root / "var/log/vetro-guest.log"
    _start(guest, root, b"#!/bin/sh\n# Isolation: optional\ntrue\n")
    command = Path(f"/proc/{guest.process.pid}/cmdline")
    until(lambda: command.read_bytes().startswith(b"sleep\0"))
    assert guest.process.poll() is None
    assert log.read_text().count("There is no agent configuration") == 1
    assert "ERROR" not in log.read_text()
    assert guest.kill(signal.SIGTERM) == -signal.SIGTERM


@pytest.mark.parametrize(
    "text",
    [
        "<configuration/>",
        "[mailbox]\nurl = nowhere\ntoken = t\n",
        "[DEFAULT]\nplan_timeout = long\n",
    ],
    ids=["another agent's", "address", "number"],
)
def test_an_unusable_configuration_ends_the_agent_for_good(
    guest: Any, root: Path, text: str
) -> None:
    """Another start would find the same: it says once what is wrong with the file, and waits."""
    conf, log = root / "etc/murano/agent.conf", root / "var/log/vetro-guest.log"
    conf.parent.mkdir(parents=True)
    conf.write_text(text)
    _start(guest, root, b"")
    command = Path(f"/proc/{guest.process.pid}/cmdline")
    until(lambda: command.read_bytes().startswith(b"sleep\0"))
    assert log.read_text().count("ERROR") == 1
    assert "No plans are taken until the next start" in log.read_text()
    assert guest.kill(signal.SIGTERM) == -signal.SIGTERM


def test_a_stopped_agent_takes_its_user_data_script_along(
    guest: Any, mailbox: Any, root: Path
) -> None:
    """The next agent runs that part again, and the former run must have ended."""
    trace = root / "trace"
    script = (
        "#!/bin/sh\n# Isolation: optional\n"
        f"echo $$ >> {trace}\n[ $(wc -l < {trace}) -gt 1 ] || sleep 300 & wait\n"
        f"mkdir -p {root}/etc/murano\ncat > {root}/etc/murano/agent.conf <<'E'\n"
        f"{_agent_conf(guest)}E\n"
    )
    _start(guest, root, script.encode())
    until(lambda: trace.exists() and trace.read_text().endswith("\n"))
    guest.kill(signal.SIGTERM)
    (first,) = trace.read_text().split()
    until(lambda: not Path(f"/proc/{first}").exists())
    _start(guest, root, script.encode())
    mailbox.until(lambda: mailbox.polls > 0)
    assert len(trace.read_text().split()) == 2


def test_two_agents_do_not_apply_user_data_side_by_side(guest: Any, root: Path) -> None:
    """The second agent refuses with code 2 and names the first one."""
    started = root / "started"
    _start(guest, root, f"#!/bin/sh\n# Isolation: optional\ntouch {started}\nsleep 300\n".encode())
    until(started.exists)
    first = guest.process
    _start(guest, root, b"#!/bin/sh\n# Isolation: optional\n")
    second = guest.process
    assert second.wait(240) == 2
    guest.process = first
    assert f"process {first.pid}" in (root / "var/log/vetro-guest.log").read_text()
    guest.kill(signal.SIGTERM)


def test_a_guest_without_isolation_runs_only_what_says_that_it_is_safe(
    guest: Any, mailbox: Any, make_plan: Any, root: Path
) -> None:
    """Scripts, commands and plans without that declaration would change a shared machine."""
    trace = root / "trace"
    config = {"write_files": [{"path": "/etc/murano/agent.conf", "content": _agent_conf(guest)}]}
    unsafe = (
        f"#!/bin/sh\necho script >> {trace}\n",
        _cloud_config({"runcmd": [f"echo command >> {trace}"]}),
    )
    plan = make_plan("run()", {"run": f"#!/bin/sh\necho plan >> {trace}\n"})
    refused = {name: value for name, value in plan.items() if name != "Isolation"}
    mailbox.offer({**refused, "Name": "Install a server"})
    _start(
        guest,
        root,
        _multipart(
            ("x-shellscript", unsafe[0]),
            ("cloud-config", unsafe[1]),
            ("cloud-config", _cloud_config(config)),
        ),
    )
    answer = mailbox.result()
    assert answer["ErrorCode"] == 2
    assert "Install a server was not run" in answer["Body"]["Message"]
    assert "Isolation: optional" in answer["Body"]["Message"]
    mailbox.offer(plan)
    assert mailbox.result()["ErrorCode"] == 0
    assert trace.read_text() == "plan\n"
    assert (root / "var/log/vetro-guest.log").read_text().count("it was not applied") == 2


def test_a_script_that_is_being_started_is_taken_along_too(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The signal comes after the program began and before the agent has its process: it is ended."""
    begun: list[Any] = []
    start = subprocess.Popen

    def stopped_meanwhile(*arguments: Any, **options: Any) -> Any:
        begun.append(start(*arguments, **options))
        os.kill(os.getpid(), signal.SIGTERM)
        return begun[0]

    monkeypatch.setattr(bootstrap.subprocess, "Popen", stopped_meanwhile)
    monkeypatch.setattr(bootstrap.log, "descriptor", lambda: subprocess.DEVNULL)
    former = signal.getsignal(signal.SIGTERM)
    with pytest.raises(SystemExit):
        bootstrap.run_program(["/bin/sleep", "300"], "")
    assert begun[0].poll() == -signal.SIGKILL
    assert signal.getsignal(signal.SIGTERM) == former
