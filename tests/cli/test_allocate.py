"""``vetro allocate``: cases from a file, as JSON and as a table."""

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from vetro.cli import cli

GIB = 2**30
DISK = (
    "pool_size", "pool_alloc", "system_used", "installed_images_used", "cores_quota_used",
    "zone_quota", "kvm_quota", "kvm_zvol_volsize",
)  # fmt: skip


def server(number: int, **changes: Any) -> dict[str, Any]:
    """A valid server."""
    return {
        "uuid": f"00000000-0000-4000-8000-{number:012d}",
        "setup": True,
        "status": "running",
        "reserved": False,
        "headnode": False,
        "reservation_ratio": 0.15,
        "memory_total_bytes": 64 * GIB,
        "memory_available_bytes": 64 * GIB,
        **{f"disk_{name}_bytes": 1000 * GIB if name == "pool_size" else 0 for name in DISK},
        "sysinfo": {
            "Live Image": "20250101T000000Z",
            "System Type": "SunOS",
            "CPU Total Cores": 16,
            "Network Interfaces": {"e0": {"Link Status": "up", "NIC Names": ["admin"]}},
        },
        "vms": {},
        **changes,
    }


CASE: dict[str, Any] = {
    "description": "the only one [that] runs",
    "servers": [server(1, status="unknown"), server(2), server(3, reserved=True)],
    "vm": {"owner_uuid": "11111111-1111-4111-8111-111111111111", "ram": 1024},
    "image": {},
    "package": {"max_physical_memory": 1024},
    "nic_tags": ["admin"],
    "settings": {"weight_sign": "documented"},
    "seed": 1,
}


def run(file: Path, document: Any, *options: str) -> str:
    """The command's output for a document; it must succeed."""
    file.write_text(document if isinstance(document, str) else json.dumps(document))
    done = CliRunner().invoke(cli, ["allocate", "--case", str(file), *options])
    assert done.exit_code == 0, done.output
    return done.output


def test_a_case_is_a_line_of_json(tmp_path: Path) -> None:
    """Chosen, error, every step of the default pipeline in its order, and the scores."""
    [line] = run(tmp_path / "case.json", CASE).splitlines()
    answer = json.loads(line)
    assert answer["chosen"] == CASE["servers"][1]["uuid"]
    assert answer["error"] is None
    assert len(answer["steps"]) == 38
    assert answer["steps"][0]["step"] == "Received by DAPI"
    assert answer["steps"][2] == {
        "step": "Servers which are currently running",
        "remaining": [one["uuid"] for one in CASE["servers"][1:]],
        "reasons": {CASE["servers"][0]["uuid"]: "Server has status: unknown"},
    }
    assert answer["steps"][-1]["step"] == "Increase server scores randomly"
    # 2.0 memory, 1.0 disk, 0.5 chance: the only one gets all; platform and reboots skip.
    assert answer["scores"] == {answer["chosen"]: 3.5}


def test_a_list_of_cases_is_a_line_each(tmp_path: Path) -> None:
    """Invalid cases and cases without a place do not stop the others."""
    cases = [CASE, {**CASE, "vm": {"ram": 1}}, {**CASE, "servers": []}, 5]
    lines = [json.loads(line) for line in run(tmp_path / "c.json", cases).splitlines()]
    assert lines[1] == {"invalid": "vm", "message": 'VM "owner_uuid" is not a valid UUID'}
    assert lines[2]["error"] == "No compute resources available: received by DAPI"
    assert lines[3] == {"invalid": "case", "message": "a case must be an object"}
    assert lines[0] == json.loads(run(tmp_path / "one.json", CASE))


def test_a_case_brings_its_own_pipeline(tmp_path: Path) -> None:
    """``description`` is a pipeline as a nested list; what is wrong with it is said of it."""
    own = {**CASE, "description": ["pipe", "hard-filter-running", ["or", "identity", "identity"]]}
    wrong = [
        {**CASE, "description": ["pipe", "guess"]},
        {**CASE, "description": [["pipe"]]},
        {**CASE, "description": 5},
    ]
    file = tmp_path / "own.json"
    one, *bad = [json.loads(line) for line in run(file, [own, *wrong]).splitlines()]
    assert [(step["step"], len(step["remaining"])) for step in one["steps"]] == [
        ("Received by DAPI", 3),
        ("Servers which are currently running", 2),
        ("Identity function", 2),
    ]
    assert one["chosen"] == CASE["servers"][2]["uuid"]
    assert bad == [
        {"invalid": "description", "message": "Unrecognized algorithm: guess"},
        {
            "invalid": "description",
            "message": "Bad expression given: Invalid command: pipe",
        },
        {"invalid": "description", "message": "description must be a list"},
    ]


def test_explain_shows_who_was_dropped_and_why(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A table of steps with counts and reasons, the ranking, the choice; errors in red words."""
    monkeypatch.setenv("COLUMNS", "200")
    text = run(tmp_path / "case.json", CASE, "--explain")
    assert "the only one [that] runs" in text
    assert f"Server has status: unknown: {CASE['servers'][0]['uuid']}" in text
    assert f"chosen: {CASE['servers'][1]['uuid']}" in text
    assert "3.50" in text
    full = {**CASE, "vm": {**CASE["vm"], "ram": 10**6}}
    text = run(tmp_path / "full.json", full, "--explain")
    assert "VM's calculated 1000000 RAM is less than server's spare 55705" in text
    assert "no servers with enough unreserved RAM" in text
    text = run(tmp_path / "bad.json", {**CASE, "vm": None}, "--explain")
    assert "invalid vm: VM object is an invalid type" in text


def test_a_file_that_is_not_json_is_said(tmp_path: Path) -> None:
    """The error names the file and what it should be."""
    file = tmp_path / "bad.json"
    file.write_text("{")
    done = CliRunner().invoke(cli, ["allocate", "--case", str(file)])
    assert done.exit_code != 0
    assert "not JSON" in done.output


def test_remarks_are_not_among_the_answers(tmp_path: Path) -> None:
    """Standard output is JSON alone, also when a server's record is wrong; that is said on the other."""
    file = tmp_path / "case.json"
    file.write_text(json.dumps({**CASE, "servers": [server(1, memory_total_bytes="x"), server(2)]}))
    done = CliRunner().invoke(cli, ["allocate", "--case", str(file)])
    assert done.exit_code == 0
    assert json.loads(done.stdout)["chosen"] == server(2)["uuid"]
    assert "server_record_invalid" in done.stderr
