"""Plans of format 1 in the real agent. A stand-in for `pwsh` plays what the session script does."""

from __future__ import annotations

import base64
import json
import os
import shlex
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.waiting import until

STAND_IN = """import json, os, pathlib, signal, sys
assert sys.argv[1:5] == ["-NoLogo", "-NoProfile", "-NonInteractive", "-File"], sys.argv
assert pathlib.Path(sys.argv[5]).read_text().lstrip().startswith("param(")
folder = pathlib.Path(sys.argv[6])
work = json.loads((folder / "work.json").read_text())
known = {}
for name in work["Scripts"]:
    text = (folder / name).read_text()
    if "throw" in text:
        (folder / "failed.json").write_text(json.dumps(["ParseException", text]))
        sys.exit(1)
    exec(text, known)
for number in range(work["First"], len(work["Commands"])):
    command = work["Commands"][number]
    (folder / f"begun-{number}").write_text("true")
    try:
        out = known[command["Name"]](**command["Arguments"]) if command["Name"] else []
        entry = {"IsException": False, "Result": out}
    except Exception as error:
        entry = {"IsException": True, "Result": [type(error).__name__, str(error), command["Name"], "at 1"]}
    (folder / f"entry-{number}.json.new").write_text(json.dumps(entry))
    (folder / f"entry-{number}.json.new").rename(folder / f"entry-{number}.json")
    if entry["IsException"]:
        break
"""
SCRIPTS = """
def Note(Text):
    open(os.environ["NOTES"], "a").write(Text + "\\n")
    return [Text]
def Fail():
    raise ValueError("boom")
def Die():
    sys.exit(7)
def Pause():
    open(os.environ["NOTES"] + ".pid", "w").write(str(os.getpid()))
    signal.pause()
"""


def plan(*commands: Any, scripts: str = SCRIPTS, **more: Any) -> dict[str, Any]:
    """A plan of format 1, of scripts and commands with their arguments."""
    texts = ["import os, signal, sys\n", scripts]
    return {
        "Scripts": [base64.encodebytes(text.encode()).decode() for text in texts],
        "Commands": [{"Name": name, "Arguments": arguments} for name, arguments in commands],
        **more,
    }


@pytest.fixture
def notes(tmp_path: Path, guest: Any) -> Path:
    """Where commands leave notes; `pwsh` and `shutdown` stand at the head of the agent's PATH."""
    folder, file = tmp_path / "tools", tmp_path / "notes"
    folder.mkdir()
    stand_in = tmp_path / "stand_in.py"
    stand_in.write_text(STAND_IN)
    # Not by the interpreter in the first line: its path may have a space, or be too long for that.
    python = shlex.join([sys.executable, str(stand_in)])
    for name, command in (
        ("pwsh", f'exec {python} "$@"'),
        ("shutdown", f"echo restart $* >> {shlex.quote(str(file))}"),
    ):
        (folder / name).write_text(f"#!/bin/sh\n{command}\n")
        (folder / name).chmod(0o755)
    guest.environment.update(PATH=f"{folder}:{os.environ['PATH']}", NOTES=str(file))
    return file


def ok(*outputs: Any) -> dict[str, Any]:
    return {"IsException": False, "Result": list(outputs)}


def test_commands_run_in_order_and_an_error_ends_the_plan(
    guest: Any, mailbox: Any, notes: Path
) -> None:
    """One entry a command; a command without a name does nothing; what follows an error does not run."""
    guest.start()
    mailbox.offer(plan(("Note", {"Text": "é"}), (None, None)), message_id="p1")
    assert mailbox.result() == {"SourceID": "p1", **ok(ok("é"), ok())}
    mailbox.offer(plan(("Fail", {}), ("Note", {"Text": "never"})), message_id="p2")
    failed = {"IsException": True, "Result": ["ValueError", "boom", "Fail", "at 1"]}
    assert mailbox.result() == {"SourceID": "p2", **ok(failed)}
    mailbox.offer(plan(), message_id="p3")
    assert mailbox.result() == {"SourceID": "p3", **ok()}
    mailbox.offer(plan(("Note", {"Text": "never"}), scripts="throw"), message_id="p4")
    broken = {"IsException": True, "Result": ["ParseException", "throw"]}
    assert mailbox.result() == {"SourceID": "p4", **broken}
    mailbox.offer(plan(("Die", {}), ("Note", {"Text": "never"})), message_id="p5")
    (entry,) = mailbox.result()["Result"]
    assert "pwsh ended with code 7" in entry["Result"][1]
    assert notes.read_text() == "é\n"


def test_the_result_is_sent_after_the_restart(guest: Any, mailbox: Any, notes: Path) -> None:
    """1 restarts only after success, 2 always; what waits runs afterwards; no plan is run twice."""
    guest.start()
    mailbox.offer(plan(("Fail", {}), RebootOnCompletion=1), message_id="p0")
    assert mailbox.result()["SourceID"] == "p0"
    mailbox.offer(plan(("Note", {"Text": "a"}), RebootOnCompletion="1"), message_id="p1")
    mailbox.offer(plan(("Note", {"Text": "b"})), message_id="p2")
    until(lambda: notes.exists() and "restart -r now" in notes.read_text())
    mailbox.wait_acknowledged("p2")
    guest.kill()
    assert mailbox.results.empty()
    (waiting,) = guest.storage.glob("plans/*/after-restart.json")
    kept = json.loads(waiting.read_text())
    waiting.write_text(json.dumps({**kept, "Start": "an earlier one"}))
    guest.start()
    assert mailbox.result() == {"SourceID": "p1", **ok(ok("a"))}
    assert mailbox.result() == {"SourceID": "p2", **ok(ok("b"))}
    assert notes.read_text().splitlines() == ["a", "restart -r now", "b"]


def test_a_plan_that_was_cut_off_goes_on(guest: Any, mailbox: Any, notes: Path) -> None:
    """Commands that ran are not repeated, nor is the one that was cut off; without one the rest runs."""
    guest.start()
    commands: list[Any] = [("Note", {"Text": "a"}), ("Pause", {}), ("Note", {"Text": "c"})]
    for number, begun in enumerate((True, False)):
        mailbox.offer(plan(*commands), message_id=f"p{number}")
        pid = Path(f"{notes}.pid")
        until(pid.exists)
        until(lambda pid=pid: pid.read_text() != "")
        group = os.getpgid(int(pid.read_text()))
        guest.kill()
        os.killpg(group, 9)
        pid.unlink()
        if not begun:  # as if it had happened between two commands
            (folder,) = guest.storage.glob("plans/*/powershell")
            (folder / "begun-1").unlink()
            work = json.loads((folder.parent / "plan.json").read_text())
            body = json.loads(base64.b64decode(work["Data"]))
            body["Commands"][1] = {"Name": "Note", "Arguments": {"Text": "b"}}
            work["Data"] = base64.b64encode(json.dumps(body).encode()).decode()
            (folder.parent / "plan.json").write_text(json.dumps(work))
        guest.start()
        result = mailbox.result()["Result"]
        if begun:
            assert result[0] == ok("a")
            assert result[1]["Result"][0] == "Interrupted"
            assert len(result) == 2
        else:
            assert result == [ok("a"), ok("b"), ok("c")]
    assert notes.read_text().splitlines() == ["a", "a", "b", "c"]


def test_bad_plans_and_machines_without_powershell(guest: Any, mailbox: Any, notes: Path) -> None:
    """Anything but a plan of format 1 is refused with code 2, and so is every one where `pwsh` is
    missing: that one names it."""
    guest.start()
    for number, (bad, text) in enumerate(
        [
            ({"Scripts": ["***"]}, "Scripts[0] is not base64"),
            ({"Commands": "x"}, "Commands is not a list"),
            ({"Commands": [{"Name": 1}]}, "Commands[0]: Name is not a string"),
            ({"Commands": [{"Name": "x", "Arguments": [1]}]}, "Arguments is not a dictionary"),
            ({"RebootOnCompletion": True}, "RebootOnCompletion"),
        ]
    ):
        mailbox.offer({"Scripts": [], **bad}, message_id=f"p{number}")
        result = mailbox.result()
        assert (result["ErrorCode"], text in result["Body"]["Message"]) == (2, True), result
    until(lambda: not guest.folders())  # else its last result is sent again
    guest.kill()
    shutil.rmtree(notes.parent / "tools")
    guest.start()
    mailbox.offer(plan(("Note", {"Text": "a"})), message_id="none")
    result = mailbox.result()
    assert result["ErrorCode"] == 2
    assert "for PowerShell, and there is no pwsh on the PATH" in result["Body"]["Message"]
