"""Rules in the form of oslo.policy."""

import os
from pathlib import Path

import pytest

from vetro.http import Forbidden, Policy, PolicyError, Principal

ANN = Principal("id-ann", "ann", "p", roles=frozenset({"member", "Operator"}))
ROOT = Principal("id-root", "root", "r", roles=frozenset({"admin"}))
TARGET = {"environment_id": "e", "owner": "id-ann", "project": "p"}


@pytest.mark.parametrize(
    ("check", "ann", "root"),
    [
        ("", True, True),
        ("@", True, True),
        ("!", False, False),
        ("role:admin", False, True),
        ("role:operator", True, False),
        ("is_admin:True", False, True),
        ("rule:admin_api", False, True),
        ("not role:admin", True, False),
        ("not not role:admin", False, True),
        ("role:none or role:member and role:operator", True, False),
        ("(role:admin or role:member) and not role:operator", False, True),
        ("ROLE:admin", False, False),
        ("user_id:%(owner)s", True, False),
        ("project_id:%(project)s", True, False),
        ("project_id:%(nothing)s", False, False),
        ("'e':%(environment_id)s", True, True),
        ("unknown_attribute:x", False, False),
        ("rule:unknown", True, True),
        ([["role:admin"], ["role:member", "role:operator"]], True, True),
        ([["role:admin", "role:member"]], False, False),
        ([], True, True),
    ],
)
def test_checks(tmp_path: Path, check: object, ann: bool, root: bool) -> None:
    """Each form of a check, for a member and for an administrator."""
    import json

    file = tmp_path / "policy.yaml"
    file.write_text(json.dumps({"r": check}))
    policy = Policy({"admin_api": "is_admin:True"}, file)
    assert (policy.allows(ANN, "r", TARGET), policy.allows(ROOT, "r", TARGET)) == (ann, root)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("r: role", "is not a check"),
        ("r: role:admin role:member", "after its end"),
        ("r: role:admin and", "missing"),
        ("r: (role:admin", "parenthesis"),
        ("r: http://example.org/%(x)s", "HTTP"),
        ("r: 5", "must be text"),
        ("r: [[5]]", "texts"),
        ("[1]", "by name"),
        ("r: [", "policy.yaml"),
    ],
)
def test_a_policy_that_does_not_parse_is_refused_at_the_start(
    tmp_path: Path, text: str, says: str
) -> None:
    """The error names the file, the rule and what is wrong."""
    file = tmp_path / "policy.yaml"
    file.write_text(text)
    with pytest.raises(PolicyError, match=says) as raised:
        Policy({}, file)
    assert "policy.yaml" in str(raised.value)


def test_rules_that_refer_to_each_other_let_nobody_through(tmp_path: Path) -> None:
    """A circle is no permission."""
    file = tmp_path / "policy.yaml"
    file.write_text("a: rule:b\nb: rule:a\n")
    assert not Policy({}, file).allows(ROOT, "a")


def test_a_changed_file_is_read_and_a_broken_one_is_not(tmp_path: Path) -> None:
    """Rules follow the file; while it is broken or gone, the last good ones hold."""
    file = tmp_path / "policy.yaml"

    def write(text: str, moment: int) -> None:
        file.write_text(text)
        os.utime(file, ns=(moment, moment))

    write("r: '!'", 1)
    policy = Policy({}, file)
    with pytest.raises(Forbidden, match="its rule is r"):
        policy.require(ANN, "r")
    write("r: '@'", 2)
    policy.require(ANN, "r")
    write("r: (", 3)
    assert policy.allows(ANN, "r")
    file.unlink()
    assert policy.allows(ANN, "r")
    write("default: '!'", 4)
    assert not policy.allows(ANN, "r")
