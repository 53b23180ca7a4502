"""Names of a plan's scripts and files that meet each other, or that no file can have."""

from __future__ import annotations

import hashlib
from typing import Any

import pytest
from tests.waiting import until

TEXT = "#!/bin/sh\nread -r words < words\necho $1 $words\n"


def _plan(make_plan: Any, names: list[tuple[str, str, str]], **more: Any) -> Any:
    """A plan whose scripts (name, id of its entry, id of its other file) all run, twice each."""
    scripts, files = {}, {}
    for name, entry, other in names:
        scripts[name] = {"Type": "Application", "EntryPoint": entry, "Files": [other]}
        files[entry] = {"Name": "run.sh", "BodyType": "Text", "Body": TEXT}
        files[other] = {"Name": "words", "BodyType": "Text", "Body": f"words of {len(name)}\n"}
    calls = ", ".join(f"args.scripts[{number}]('{number}').stdout" for number in range(len(names)))
    body = f"return [{calls}, {calls}]".replace("args.scripts", "scripts")
    head = (
        f"import builtins\nscripts = [globals()[name] for name in {[n for n, _, _ in names]!r}]\n"
    )
    return make_plan(head + body, Scripts=scripts, Files=files, **more)


MADE = ".vetro-file-" + hashlib.sha256(b"deploy").hexdigest()
CLASHES = {
    "a script as its entry": [("deploy", "deploy", "w")],
    "a script as its other file": [("deploy", "e", "deploy")],
    "scripts as each other's files": [("one", "two", "w"), ("two", "one", "v")],
    "the agent's folder as a script": [(".output", "e", "w")],
    "the agent's folder as files": [("deploy", ".output", "w")],
    "names that replace a name": [("deploy", "deploy", MADE), (MADE, "e", "w")],
    "long names": [("s" * 300, "e" * 300, "w" * 300), ("s" * 301, "f" * 301, "v")],
    "names of many bytes": [("ü" * 200, "ö" * 200, "w")],
    "the name of a folder on the way": [("plans", "files", "..."), ("-", "--", " ")],
    "names without characters": [("deploy", "a\x00b", "half \ud800")],
}


@pytest.mark.parametrize("names", CLASHES.values(), ids=CLASHES)
def test_names_that_meet(guest: Any, make_plan: Any, names: list[tuple[str, str, str]]) -> None:
    """Each script runs its own entry file with its own files, at every call."""
    result = guest.result_of(_plan(make_plan, names))
    expected = [f"{number} words of {len(name)}" for number, (name, _, _) in enumerate(names)]
    assert (result["ErrorCode"], result["Body"]) == (0, expected * 2)
    until(lambda: guest.folders() == [])


IMPOSSIBLE = {
    "a folder's name": ("lib", "a folder has this name there"),
    "a file as a folder": ("first.sh/more", "File exists"),
    "the folder itself": (".", "a folder has this name there"),
    "a folder's end": ("more/", "File exists"),
    "too long": ("x" * 300, "File name too long"),
}


@pytest.mark.parametrize(("name", "reason"), IMPOSSIBLE.values(), ids=IMPOSSIBLE)
def test_a_file_that_cannot_have_its_name(
    guest: Any, mailbox: Any, make_plan: Any, name: str, reason: str
) -> None:
    """The plan's error names file, name, script and reason, and the next plan runs."""
    plan = make_plan("deploy()", {"deploy": TEXT})
    plan["Files"]["file-deploy"]["Name"] = "first.sh"
    plan["Files"]["in"] = {"Name": "lib/in", "BodyType": "Text", "Body": ""}
    plan["Files"]["odd"] = {"Name": name, "BodyType": "Text", "Body": TEXT}
    plan["Scripts"]["deploy"]["Files"] = ["in", "odd"]
    mailbox.offer(plan)
    result = guest.result_of(make_plan("return 'next'"))
    assert result["ErrorCode"] == 1
    said = result["Body"]["Message"]
    assert "File 'odd' cannot be " in said
    assert "in the folder of the script 'deploy'" in said
    assert reason in said
    assert mailbox.result()["Body"] == "next"


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "../a", "/a", "a\x00b"])
@pytest.mark.parametrize("what", ["script", "file"])
def test_a_name_that_leads_elsewhere(guest: Any, make_plan: Any, name: str, what: str) -> None:
    """A script name or file id is never used as a path, and a NUL in an id does no harm."""
    plan = make_plan("return 'ran'", {"deploy": TEXT})
    kind = {"script": "Scripts", "file": "Files"}[what]
    plan[kind][name] = next(iter(plan[kind].values()))
    result = guest.result_of(plan)
    if (what, name) == ("file", "a\x00b"):
        assert result["Body"] == "ran"
    else:
        assert result["ErrorCode"] == 2
