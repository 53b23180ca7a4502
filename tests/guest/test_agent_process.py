"""The agent as a real process against a real HTTP mailbox (guest-agent.md §5.5, §7, §10)."""

from __future__ import annotations

import base64
import json
import os
import signal
import subprocess
from typing import Any

import pytest
from tests.waiting import until


def refused(mailbox: Any, status: int) -> list[int]:
    """How many polls and how many other requests were answered with a status."""
    methods = [method for method, _, answer in mailbox.requests if answer == status]
    return [methods.count("GET"), methods.count("POST")]


def test_a_plan_runs_and_its_value_comes_back(guest: Any, mailbox: Any, make_plan: Any) -> None:
    """The body's return value is the result's body, with the plan's id as source."""
    plan = make_plan(
        "return say(args.who).stdout",
        {"say": "#!/bin/sh\necho hello $1\n"},
        Parameters={"who": "ann"},
    )
    result = guest.result_of(plan)
    assert result["SourceID"] == plan["ID"]
    assert result["ErrorCode"] == 0
    assert result["Body"] == "hello ann"
    assert result["FormatVersion"] == "2.0.0"
    assert result["Action"] == "Execution:Result"
    assert len(result["ID"]) == 32
    mailbox.wait_acknowledged(plan["ID"])
    mailbox.until(lambda: guest.folders() == [])
    assert list((guest.storage / "files").iterdir()) == []


def test_exit_code_seven_is_error_100_with_stderr(guest: Any, mailbox: Any, make_plan: Any) -> None:
    """A script that exits 7 ends the plan with its code, output and error text."""
    mailbox.offer(
        make_plan("return bad()", {"bad": "#!/bin/sh\necho out\necho broken >&2\nexit 7\n"})
    )
    guest.start()
    result = mailbox.result()
    assert result["ErrorCode"] == 100
    assert result["Body"]["AdditionalInfo"] == {
        "exitCode": 7,
        "stdout": "out",
        "stderr": "broken",
    }
    assert "bad" in result["Body"]["Message"]


def test_exit_code_is_a_value_when_it_is_not_verified(guest: Any, make_plan: Any) -> None:
    """With verifyExitcode false a non-zero code is an ordinary result."""
    plan = make_plan(
        "return bad()",
        {"bad": "#!/bin/sh\necho out\nexit 7\n"},
        options={"verifyExitcode": False, "captureStderr": False},
    )
    result = guest.result_of(plan)
    assert result["ErrorCode"] == 0
    assert result["Body"] == {"exitCode": 7, "stdout": "out", "stderr": None}


def test_plans_run_in_the_order_they_came(guest: Any, mailbox: Any, make_plan: Any) -> None:
    """Plans that arrive while one runs are kept and run first in, first out."""
    plans = [make_plan(f"return {number}") for number in range(5)]
    for plan in plans:
        mailbox.offer(plan)
    guest.start()
    assert [mailbox.result()["Body"] for _ in plans] == [0, 1, 2, 3, 4]


def test_the_agent_polls_on_while_a_plan_runs(
    guest: Any, mailbox: Any, make_plan: Any, tmp_path: Any
) -> None:
    """A second plan is acknowledged before the first one ends."""
    gate = tmp_path / "gate"
    os.mkfifo(gate)
    first = make_plan("return wait()", {"wait": f"#!/bin/sh\ncat {gate}\n"})
    second = make_plan("return 2")
    mailbox.offer(first)
    guest.start()
    mailbox.wait_acknowledged(first["ID"])
    mailbox.offer(second)
    mailbox.wait_acknowledged(second["ID"])
    assert mailbox.results.empty()
    gate.write_text("go\n")
    assert mailbox.result()["SourceID"] == first["ID"]
    assert mailbox.result()["SourceID"] == second["ID"]


def test_killed_between_receive_and_run(guest: Any, mailbox: Any, make_plan: Any) -> None:
    """A plan on disk that was never begun runs after a restart."""
    plan = make_plan("return 'late but here'", Stamp=5)
    guest.start()
    mailbox.until(lambda: mailbox.polls > 0)
    guest.kill()
    folder = guest.storage / "plans" / "17000000000000"
    folder.mkdir()
    (folder / "plan.json").write_text(
        json.dumps(
            {
                "Data": base64.b64encode(json.dumps(plan).encode()).decode(),
                "Signature": "",
                "ID": plan["ID"],
                "ReplyTo": None,
            }
        )
    )
    guest.start()
    assert mailbox.result()["Body"] == "late but here"


def test_killed_before_the_acknowledgement(guest: Any, mailbox: Any, make_plan: Any) -> None:
    """A plan that is handed out again because its acknowledgement was lost runs once."""
    plan = make_plan("return 1")
    mailbox.before_ack = lambda: os.kill(guest.process.pid, signal.SIGKILL)
    mailbox.refuse = lambda method, path: (503, {}) if path.endswith("/ack") else None
    mailbox.offer(plan)
    guest.start()
    assert guest.process.wait(240) == -signal.SIGKILL
    mailbox.before_ack = lambda: None
    mailbox.refuse = lambda method, path: None
    guest.start()
    assert mailbox.result()["SourceID"] == plan["ID"]
    mailbox.wait_acknowledged(plan["ID"])
    probe = make_plan("return 2")
    mailbox.offer(probe)
    assert mailbox.result()["SourceID"] == probe["ID"]


def test_killed_while_a_plan_runs(guest: Any, mailbox: Any, make_plan: Any, tmp_path: Any) -> None:
    """The plan's process outlives the agent; the next agent delivers its result, once."""
    gate = tmp_path / "gate"
    os.mkfifo(gate)
    script = f"#!/bin/sh\ncat {gate}\ncat ./slow.sh > {tmp_path}/still-there\n"
    plan = make_plan("return slow().stdout", {"slow": script}, Stamp=7)
    mailbox.offer(plan)
    guest.start()
    mailbox.wait_acknowledged(plan["ID"])
    until(lambda: list(guest.storage.glob("files/*/.output/*")))
    guest.kill()
    guest.start()
    mailbox.until(lambda: mailbox.polls > 1)
    gate.write_text("it went on\n")
    assert mailbox.result()["Body"] == "it went on"
    assert mailbox.results.empty()


def test_the_whole_guest_dies_while_a_plan_runs(
    guest: Any, mailbox: Any, make_plan: Any, tmp_path: Any
) -> None:
    """A plan that a reboot interrupted is reported as such and is not run a second time."""
    gate, runs = tmp_path / "gate", tmp_path / "runs"
    os.mkfifo(gate)
    script = f"#!/bin/sh\necho run >> {runs}\ncat {gate}\n"
    plan = make_plan("return slow().stdout", {"slow": script}, Stamp=7)
    mailbox.offer(plan)
    guest.start()
    mailbox.wait_acknowledged(plan["ID"])
    until(lambda: runs.exists() and runs.read_text() == "run\n")
    guest.kill()
    note = json.loads(next(guest.storage.glob("plans/*/running")).read_text())
    os.killpg(note["group"], signal.SIGKILL)
    guest.start()
    result = mailbox.result()
    assert result["ErrorCode"] == 1
    assert "interrupted" in result["Body"]["Message"]
    assert runs.read_text() == "run\n"
    assert list((guest.storage / "files").iterdir()) == []


def test_killed_between_run_and_send(guest: Any, mailbox: Any, make_plan: Any) -> None:
    """A result that could not be sent survives the agent and is sent once."""
    plan = make_plan("return 'kept'")
    mailbox.refuse = lambda method, path: (503, {}) if path.endswith("/results") else None
    mailbox.offer(plan)
    guest.start()
    mailbox.until(lambda: any(r[1].endswith("/results") for r in mailbox.requests))
    guest.kill()
    assert mailbox.results.empty()
    mailbox.refuse = lambda method, path: None
    guest.start()
    assert mailbox.result()["Body"] == "kept"
    until(lambda: guest.folders() == [])
    assert mailbox.results.empty()


def test_a_replayed_stamp_is_dropped_also_after_a_restart(
    guest: Any, mailbox: Any, make_plan: Any
) -> None:
    """A plan whose stamp is not above the stored one is dropped without a result."""
    mailbox.offer(make_plan("return 1", Stamp=100))
    guest.start()
    assert mailbox.result()["Body"] == 1
    guest.kill(signal.SIGTERM)
    guest.start()
    replay = make_plan("return 'replayed'", Stamp=100)
    mailbox.offer(replay)
    mailbox.wait_acknowledged(replay["ID"])
    mailbox.offer(make_plan("return 2", Stamp=101))
    assert mailbox.result()["Body"] == 2
    assert (guest.storage / "plans" / "stamp").read_text() == "101"


@pytest.mark.parametrize("damage", ["body", "queue", "missing"])
def test_bad_signatures_are_dropped(
    guest: Any, mailbox: Any, make_plan: Any, signer: Any, damage: str
) -> None:
    """An altered body, another queue's signature or none at all: dropped without a result."""
    guest.extra = signer.option()
    bad = json.dumps(make_plan("return 'forged'")).encode()
    signature = {
        "body": signer.sign(guest.queue, bad + b" "),
        "queue": signer.sign("e1-h3", bad),
        "missing": None,
    }[damage]
    name = mailbox.offer(bad, signature=signature)
    good = make_plan("return 'genuine'")
    text = json.dumps(good, indent=3).encode()
    result = guest.result_of(text, signature=signer.sign(guest.queue, text), message_id=good["ID"])
    assert (result["Body"], result["SourceID"]) == ("genuine", good["ID"])
    assert name in mailbox.acknowledged
    until(lambda: guest.folders() == [])


def test_bad_json_is_dropped(guest: Any, mailbox: Any, make_plan: Any) -> None:
    """A body that is not a JSON map leaves no trace and does not stop the agent."""
    for body in (b"{", b"[]", b"\xff\xfe", b"null"):
        mailbox.offer(body)
    mailbox.offer(make_plan("return 1"))
    guest.start()
    assert mailbox.result()["Body"] == 1


def test_a_plan_without_any_id_yields_no_result(
    guest: Any, mailbox: Any, make_plan: Any, tmp_path: Any
) -> None:
    """A plan without an id in body or message runs, and no result is sent."""
    trace = tmp_path / "trace"
    plan = make_plan(f"open({str(trace)!r}, 'w').close()")
    del plan["ID"]
    guest.start()
    mailbox.until(lambda: mailbox.polls > 0)
    guest.kill()
    folder = guest.storage / "plans" / "17000000000000"
    folder.mkdir()
    data = base64.b64encode(json.dumps(plan).encode()).decode()
    (folder / "plan.json").write_text(json.dumps({"Data": data, "Signature": "", "ID": None}))
    guest.start()
    until(lambda: trace.exists() and guest.folders() == [])
    assert mailbox.results.empty()


def test_timeout_kills_the_whole_process_group(
    guest: Any, mailbox: Any, make_plan: Any, tmp_path: Any
) -> None:
    """A plan over its time ends with its output so far, and its children are killed."""
    pids = tmp_path / "pids"
    script = f"#!/bin/sh\nsleep 300 &\necho $! > {pids}\necho working\nwait\n"
    result = guest.result_of(make_plan("return hang()", {"hang": script}, Timeout=1))
    assert result["ErrorCode"] == 1
    assert "did not finish" in result["Body"]["Message"]
    assert result["Body"]["AdditionalInfo"]["stdout"] == "working"
    until(lambda: not _alive(int(pids.read_text())))
    mailbox.offer(make_plan("return 'next'"))
    assert mailbox.result()["Body"] == "next"


def test_a_running_plan_can_be_cancelled(
    guest: Any, mailbox: Any, make_plan: Any, tmp_path: Any
) -> None:
    """`Action: Cancel` with the plan's id ends it with an error result."""
    started = tmp_path / "started"
    script = f"#!/bin/sh\ntouch {started}\nsleep 300\n"
    plan = make_plan("return hang()", {"hang": script}, Stamp=3)
    mailbox.offer(plan)
    guest.start()
    until(started.exists)
    mailbox.offer({"FormatVersion": "2.0.0", "Action": "Cancel", "ID": plan["ID"]}, message_id="c")
    result = mailbox.result()
    assert result["SourceID"] == plan["ID"]
    assert result["Body"]["Message"] == "The plan was cancelled"


def test_a_daemon_left_behind_does_not_hold_the_plan(
    guest: Any, mailbox: Any, make_plan: Any, tmp_path: Any
) -> None:
    """A script may start a server that keeps its output open; the plan still ends."""
    pids = tmp_path / "pids"
    script = f"#!/bin/sh\nsleep 300 &\necho $! > {pids}\necho started\n"
    mailbox.offer(make_plan("return serve().stdout", {"serve": script}))
    guest.start()
    assert mailbox.result()["Body"] == "started"
    os.kill(int(pids.read_text()), signal.SIGKILL)


def test_files_are_binary_safe_and_shared(guest: Any, mailbox: Any, make_plan: Any) -> None:
    """A base64 body arrives byte for byte; one file entry is linked into two scripts."""
    data = bytes(range(256))
    plan = make_plan(
        "return [a().stdout, b().stdout]",
        {
            "a": "#!/bin/sh\nsha256sum < sub/data.bin\n",
            "b": "#!/bin/sh\nreadlink sub/data.bin; sha256sum < sub/data.bin\n",
        },
    )
    plan["Files"]["data"] = {
        "Name": "sub/data.bin",
        "BodyType": "Base64",
        "Body": base64.b64encode(data).decode() + "\n",
    }
    plan["Scripts"]["a"]["Files"] = ["data"]
    plan["Scripts"]["b"]["Files"] = [{"data": {}}]
    mailbox.offer(plan)
    guest.start()
    first, second = mailbox.result()["Body"]
    expected = subprocess.run(["sha256sum"], input=data, capture_output=True, check=True)
    assert first == expected.stdout.decode().strip()
    link, digest = second.splitlines()
    assert link.endswith(f"/{plan['ID']}/data")
    assert digest == first


def test_refused_plans_are_answered_and_removed(guest: Any, mailbox: Any, make_plan: Any) -> None:
    """Plans that break a rule get their code once; the readiness probe passes."""
    chef = {"Type": "Chef", "EntryPoint": "a::b", "Options": {}}
    berks = {"Type": "Chef", "EntryPoint": "a::b", "Options": {"useBerkshelf": True}}
    mailbox.offer(make_plan(version="2.0.0", Scripts={"c": chef}))
    mailbox.offer(make_plan(version="2.1.0", Scripts={"c": berks}))
    mailbox.offer(make_plan(version="2.2.0", Scripts={"c": berks}))
    mailbox.offer(make_plan(version="2.3.0"))
    mailbox.offer({"ID": "v1", "Scripts": ["eA=="], "Commands": [], "RebootOnCompletion": 0})
    probe = {"FormatVersion": "2.0.0", "ID": "probe", "Body": "return", "Scripts": {}}
    mailbox.offer(probe)
    guest.start()
    results = [mailbox.result() for _ in range(6)]
    assert [result["ErrorCode"] for result in results] == [2, 2, 0, 9, 2, 0]
    assert results[4]["Body"]["Message"].startswith(
        "Scripts is not a dictionary: the plan is of format 1"
    )
    assert results[5]["Body"] is None
    until(lambda: guest.folders() == [])


def test_a_result_that_is_too_large_becomes_an_error(
    guest: Any, mailbox: Any, make_plan: Any
) -> None:
    """The mailbox's 413 turns into an error result instead of an endless retry."""
    mailbox.largest_result = 2000
    plan = make_plan("return 'x' * 5000")
    result = guest.result_of(plan)
    assert result["SourceID"] == plan["ID"]
    assert result["ErrorCode"] == 1
    assert "413" in result["Body"]["Message"]


def test_an_unknown_credential_makes_the_agent_wait(
    guest: Any, mailbox: Any, make_plan: Any
) -> None:
    """After a 401 the agent neither stops nor retries at once: it waits a minute."""
    mailbox.token = "right"
    guest.mailbox_section = ""
    guest.configure()
    guest.start()
    # Its sign of life is answered as well: a late one would count as the next agent's.
    mailbox.until(lambda: mailbox.polls > 0 and any(x == "POST" for x, *_ in mailbox.requests))
    guest.kill()
    mailbox.token, guest.mailbox_section = "other", "token = wrong"
    guest.start()
    until(lambda: "trying again in 60.0 s" in guest.log)
    # Its first poll and its first sign of life go by two connections; the second may not have begun.
    mailbox.until(lambda: any(refused(mailbox, 401)))
    assert max(refused(mailbox, 401)) == 1
    assert guest.process.poll() is None


def test_retry_after_is_honoured(guest: Any, mailbox: Any, make_plan: Any) -> None:
    """429 with Retry-After sets the pause."""
    mailbox.refuse = lambda method, path: (429, {"Retry-After": "17"})
    guest.start()
    until(lambda: "trying again in 17.0 s" in guest.log)
    mailbox.until(lambda: any(refused(mailbox, 429)))
    assert max(refused(mailbox, 429)) == 1


def test_nothing_needless_is_imported_before_the_first_poll(guest: Any, mailbox: Any) -> None:
    """Modules that only plans need are not imported when the agent first polls."""
    guest.python_options = ["-X", "importtime"]
    guest.start()
    mailbox.until(lambda: mailbox.polls > 0)
    guest.kill()
    imported = {line.rpartition("|")[2].strip() for line in guest.log.splitlines()}
    assert "vetro_guest.loop" in imported
    late = {"vetro_guest.runner", "vetro_guest.executors", "subprocess", "argparse", "logging"}
    assert not imported & (late | {"ssl.SSLContext", "urllib.request", "typing"})


def test_files_of_the_agent_are_private(guest: Any, mailbox: Any, make_plan: Any) -> None:
    """Plans and their files are readable by the agent's user only."""
    mailbox.refuse = lambda method, path: (503, {}) if path.endswith("/results") else None
    mailbox.offer(make_plan("return 1"))
    guest.start()
    mailbox.until(lambda: any(r[1].endswith("/results") for r in mailbox.requests))
    for path in guest.storage.rglob("*"):
        assert path.stat().st_mode & 0o077 == 0, path


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    with open(f"/proc/{pid}/stat") as stream:
        return stream.read().split()[2] != "Z"
