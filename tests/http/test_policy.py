"""Rules in the form of oslo.policy."""

import os
from pathlib import Path

import pytest

from vetro.http import Forbidden, Policy, PolicyError, Principal

ANN = Principal("id-ann", "ann", "p", roles=frozenset({"member", "Operator"}))
ROOT = Principal("id-root", "root", "r", roles=frozenset({"admin"}))
TARGET = {"environment_id": "e", "owner": "id-ann", "project": "p", "end": "ber", "nothing": ""}


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
        ("user_id:%(owner)s", True, False),
        ("project_id:%(project)s", True, False),
        ("project_id:%(nothing)s", False, False),
        ("'e':%(environment_id)s", True, True),
        # What cannot be decided is no permission, and its opposite is none.
        ("not project_id:%(nothing)s", False, False),
        ("not not project_id:%(nothing)s", False, False),
        ("not (role:admin or user_id:%(nothing)s)", False, False),
        ("not (role:admin and user_id:%(nothing)s)", True, False),
        ("user_id:%(nothing)s or role:admin", False, True),
        ("not 'e':%(nothing)s", False, False),
        ("not role:%(nothing)s", False, False),
        ("not role:x%(nothing)s", False, False),
        ("role:mem%(end)s", True, False),
        ("not system_scope:all", False, False),
        ("not is_admin:False", False, True),
        ("rule:unknown", True, True),
        ("not rule:unknown", False, False),
        ("@ and role:admin", False, True),
        ("! or role:admin", False, True),
        ("not ! and not @", False, False),
        ([list[str]()], False, False),
        ([list[str](), ["role:admin"]], False, True),
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
        (
            "r: not rol:guest",
            "rule r: 'rol:guest': there is no check of the kind rol; did you mean role",
        ),
        ("r: ROLE:admin", "no check of the kind ROLE"),
        ("r: [['not role:admin']]", "no check of the kind not role"),
        ("r: role:admin or not @role:x", "no check of the kind @role"),
        ("r: not is_admin:true", "is_admin is True or False"),
        ("r: [['user_id:%(owner)']]", "%\\(NAME\\)s"),
        ("r: not rule:r", "it refers to itself: r > r"),
        (
            "context_is_admin: is_admin:True",
            "it refers to itself: context_is_admin > context_is_admin",
        ),
        ("default: not rule:x", "it refers to itself: default > x > default"),
        ("a: rule:b\nb: not rule:c\nc: role:x and rule:a", "it refers to itself: a > b > c > a"),
        ("r: 5", "must be text"),
        ("r:", "must be text"),
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


def test_names_that_no_rule_has_are_refused_where_all_are_known(tmp_path: Path) -> None:
    """A reference to no rule, and a rule that is nearly a call's; other names may be there."""
    file = tmp_path / "policy.yaml"
    for text, says in (
        (
            "delete_stack: not rule:delete_stak",
            "rule:delete_stak refers to no rule; did you mean delete_stack",
        ),
        ("delete_stak: '!'", "rule delete_stak: no call has this rule; did you mean delete_stack"),
    ):
        file.write_text(text)
        with pytest.raises(PolicyError, match=says):
            Policy({}, file, {"delete_stack", "show_stack"})
    file.write_text(
        "delete_stack: rule:mine\nmine: not rule:show_stack\nof_others: '!'\ndefault: '!'\n"
    )
    policy = Policy({}, file, {"delete_stack", "show_stack"})
    assert not policy.allows(ROOT, "delete_stack"), "nobody has written down that it may"


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
    for moment, broken in enumerate(("r: (", "r: not rol:x", "r: rule:r"), 3):
        write(broken, moment)
        assert policy.allows(ANN, "r")
    file.unlink()
    assert policy.allows(ANN, "r")
    write("default: '!'", 9)
    assert not policy.allows(ANN, "r")
