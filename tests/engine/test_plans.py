"""Execution plans: building, signing, decoding (guest-agent.md §3-5)."""

import base64
import stat
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import padding, rsa

from vetro.engine.errors import AgentException
from vetro.engine.plans import PlanBuilder, Stamps, decode_result
from vetro.engine.signing import PlanSigner

FILES = {"a.sh": b"#!/bin/sh\r\necho 1\r\n", "b.bin": b"\x00\xff", "dir/c.txt": b"c"}


def builder() -> PlanBuilder:
    """A builder with readable ids and stamps."""
    ids = iter(f"id{n}" for n in range(100))
    stamps = Stamps()
    return PlanBuilder(lambda name: FILES[name], lambda: next(ids), lambda: stamps.next(1.0))


def template(**script: Any) -> dict[str, Any]:
    """A v2 template with one script."""
    return {
        "FormatVersion": "2.0.0",
        "Body": "return s()",
        "Scripts": {"s": {"Type": "Application", "EntryPoint": "a.sh", **script}},
    }


def test_a_plan_carries_its_files_once_with_newlines_normalised() -> None:
    """Text, binary, alias and URL forms are accepted; a known name is not attached again."""
    files = ["<b.bin>", {"other.txt": "dir/c.txt"}, "https://h.test/x/repo.git", "a.sh"]
    given = template(Files=files)
    plan = builder().build(given)
    bodies = {body["Name"]: body for body in plan["Files"].values()}
    assert set(bodies) == {"a.sh", "b.bin", "other.txt", "repo.git"}
    assert bodies["a.sh"]["Body"] == "#!/bin/sh\necho 1\n"
    assert base64.b64decode(bodies["b.bin"]["Body"]) == b"\x00\xff"
    assert bodies["b.bin"]["Body"].endswith("\n")
    assert bodies["repo.git"]["Type"] == "Downloadable"
    script = plan["Scripts"]["s"]
    assert script["Files"][3] == script["EntryPoint"]
    assert (plan["Action"], plan["ID"]) == ("Execute", "id0")
    assert "ID" not in given, "the template is not changed"


def test_stamps_rise_whatever_the_clock_does() -> None:
    """A clock that stops or goes back does not repeat a stamp."""
    stamps = Stamps()
    values = [stamps.next(t) for t in (5.0, 5.0, 1.0, 6.0)]
    assert values == sorted(set(values))
    assert values[-1] == 60_000


def test_old_plans_carry_their_scripts_as_base64() -> None:
    """Without a format version a plan is of the first generation."""
    plan = builder().build({"Scripts": ["dir/c.txt"], "Commands": []})
    assert plan["Scripts"] == [base64.b64encode(b"c").decode()]
    assert "ID" not in plan


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("text", "Incorrect execution plan"),
        ({"FormatVersion": "2.0.0", "Scripts": {"x": {}}}, "No entry point in script x"),
        (template(Files=[{"a": "b", "c": "d"}]), "one 'name: path' pair"),
    ],
)
def test_wrong_templates_are_refused(given: Any, message: str) -> None:
    """The error names each mistake."""
    with pytest.raises(ValueError, match=message):
        builder().build(given)


def test_a_signature_verifies_with_the_published_key(tmp_path: Path) -> None:
    """The key is kept private, stays the same, and signs queue name and body."""
    path = tmp_path / "key.pem"
    signer = PlanSigner.load_or_create(path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert PlanSigner.load_or_create(path).public_key() == signer.public_key()
    assert all(line.startswith("\t") for line in signer.public_key("\t").splitlines())
    assert signer.public_key().startswith("-----BEGIN RSA PUBLIC KEY-----")
    public = serialization.load_pem_public_key(signer.public_key().encode())
    assert isinstance(public, rsa.RSAPublicKey)
    public.verify(signer.sign("queue", b"{}"), b"queue{}", padding.PKCS1v15(), hashes.SHA256())


@pytest.mark.parametrize(
    ("result", "value"),
    [
        (None, None),
        ({}, None),
        ({"FormatVersion": "2.0.0", "ErrorCode": 0, "Body": [1]}, [1]),
        ({"FormatVersion": "2.0.0", "Body": "x", "ReplyTo": None}, "x"),
        ({"IsException": False, "Result": []}, None),
        ({"IsException": False, "Result": [{"IsException": False, "Result": ["ok"]}]}, ["ok"]),
    ],
)
def test_good_results_are_decoded(result: Any, value: Any) -> None:
    """Results of both formats are decoded."""
    assert decode_result(result) == value


@pytest.mark.parametrize(
    ("result", "expected"),
    [
        (
            {
                "FormatVersion": "2.0.0",
                "ErrorCode": 100,
                "Time": "t",
                "Body": {
                    "Message": "Script failed",
                    "AdditionalInfo": {"exitCode": 7, "stderr": "bad", "stdout": None},
                },
            },
            {"errorCode": 100, "message": "Script failed"},
        ),
        (
            {"IsException": True, "Result": ["T", "m"]},
            {"type": "T", "message": "m", "source": "execution_plan"},
        ),
        ({"IsException": True, "Result": "just text"}, {"message": "just text"}),
        (
            {
                "IsException": False,
                "Result": [{"IsException": True, "Result": ["T", "m", "c", "d"]}],
            },
            {"command": "c", "details": "d", "source": "command"},
        ),
    ],
)
def test_failures_carry_their_map(result: Any, expected: dict[str, Any]) -> None:
    """The exception has the error map as its extra, and code and output in its text."""
    with pytest.raises(AgentException) as caught:
        decode_result(result)
    assert expected.items() <= caught.value.extra.items()
    if caught.value.extra.get("errorCode") == 100:
        assert "exit code 7" in str(caught.value)
        assert "stderr: bad" in str(caught.value)
