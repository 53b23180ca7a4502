"""Documents that want to harm: bombs, entities, depth, sizes, encodings, and traversal."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from vetro.documents import read_yaml
from vetro.workflows import WorkflowSyntaxError, compile_workflow, run_case

BOMB = (
    '<!DOCTYPE w [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;&a;"><!ENTITY c "&b;&b;&b;&b;">]>'
    "<workflow>&c;</workflow>"
)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (BOMB, "a document type is not allowed"),
        ("<!DOCTYPE workflow SYSTEM 'http://example.org/x.dtd'><workflow/>", "document type"),
        ("<workflow>&undeclared;</workflow>", "undefined entity"),
        ("<text>" * 5000 + "</text>" * 5000, "nest deeper than 100"),
        ("<workflow>" + "<null/>" * 100_001 + "</workflow>", "more than 100000 elements"),
        ("<workflow>" + " " * (4 * 1024 * 1024) + "</workflow>", "larger than"),
        (b"<?xml version='1.0' encoding='no-such'?><workflow/>", "encoding"),
        (b"\xff\xfe\x00", "not well-formed"),
        ("", "no element found"),
        ("<workflow>\ud800</workflow>", "not well-formed"),
        ("<rule match=\"$.a[?(" + "not " * 500 + "@.x)]\"/>", "root element"),
    ],
)  # fmt: skip
def test_a_hostile_file_is_refused_with_its_place(content: str | bytes, message: str) -> None:
    """A file that tries something is an error with file and line before anything runs."""
    with pytest.raises(WorkflowSyntaxError) as caught:
        compile_workflow(content, "Evil.xml")
    assert message in str(caught.value)
    assert str(caught.value).startswith("Evil.xml:")


@pytest.mark.parametrize("depth", [100, 4000])
@pytest.mark.parametrize("piece", ["not ", "(", "-"])
def test_a_deep_expression_is_refused(depth: int, piece: str) -> None:
    """Conditions and index expressions have a depth of their own."""
    expression = f"$.a[({piece * depth}1)]" if piece == "-" else f"$.a[?({piece * depth}@.x)]"
    with pytest.raises(WorkflowSyntaxError, match="nests deeper than"):
        compile_workflow(f'<workflow><rule match="{expression}"/></workflow>', "Evil.xml")


@pytest.mark.parametrize("name", ["../../secret", "/etc/passwd", "a/../../b", "x/..", "a\\b"])
def test_a_template_stays_in_its_folder(name: str) -> None:
    """A template name that leads out of its folder is an error that says so."""
    rules = f'<workflow><update-cf-stack template="{name}"/></workflow>'
    files = {"workflows/A.xml": rules, "secret.template": "{}", "etc/passwd.template": "{}"}
    result = run_case({"model": {"id": "e1"}, "files": files}, read_yaml)
    assert "does not stay inside its folder" in result["error"]
    assert [effect["kind"] for effect in result["effects"]] == ["report"]


def test_a_model_that_grows_by_sharing_is_stopped() -> None:
    """Doubling a value by references ends in an error before it is written out."""
    rules = (
        "<workflow><rule match='$[?(@.n != 40)]'><unmute/>"
        "<set path='a'><list><select path='a'/><select path='a'/></list></set>"
        "<set path='n'><select path='n'/></set></rule></workflow>"
    )
    case = {
        "model": {"id": "e1", "a": [1]},
        "files": {"workflows/A.xml": rules},
        "limits": {"passes": 60},
    }
    assert "values; at most 2000000 are allowed" in run_case(case, read_yaml)["error"]


GAPS: list[Any] = [None, [], {}, "x", 7, [None], {"a": None}]
NEEDED = (
    "services", "services.0", "services.0.id", "services.0.type", "services.0.name", "services.0.units",
    "services.0.units.0", "services.0.units.0.id", "services.0.unitNamingPattern", "services.0.osImage",
    "networking", "temp", "state", "id",
)  # fmt: skip


@pytest.mark.parametrize("path", NEEDED)
def test_a_model_that_lacks_what_a_path_needs_ends_with_an_outcome(path: str) -> None:
    """Whatever stands where rules look, or nothing, the task ends; an error names the place."""
    rules = b"""<workflow><rule id="r" match="$.services[*].units[?(@.id and not @.state.ready)]">
      <set path="state.hostname"><generate-hostname>
        <parameter name="pattern"><select path="::unitNamingPattern"/></parameter>
        <parameter name="service_id"><select path="::id"/></parameter></generate-hostname></set>
      <set path="/temp.x.y"><select path="::osImage.name"/></set>
      <set path="state.ready"><true/></set></rule>
      <rule match="$.networking.networks[?(not @.cidr)]"><set path="cidr">c</set></rule></workflow>"""
    for gap in GAPS:
        model: Any = {
            "id": "e", "networking": {"networks": [{"id": "n"}]}, "temp": {}, "state": {},
            "services": [{
                "id": "s", "type": "webServer", "name": "web", "osImage": "img",
                "unitNamingPattern": "w#", "units": [{"id": "u", "name": "n"}],
            }],
        }  # fmt: skip
        *outer, last = path.split(".")
        holder = model
        for step in outer:
            holder = holder[int(step) if isinstance(holder, list) else step]
        holder[int(last) if isinstance(holder, list) else last] = gap
        case = {"model": model, "files": {"workflows/Gap.xml": rules.decode()}}
        result = run_case(case, read_yaml)
        error = result["error"]
        assert error is None or "Gap.xml:" in error, (gap, error)
        assert "token" not in result["model"]


DOUBLED = (
    '<set path="#a"><list><item>1</item></list></set>'
    + '<set path="#a"><list><select path="#a"/><select path="#a"/></list></set>' * 45
)
DOUBLED_TEXT = (
    '<set path="#a">x</set>' + '<set path="#a"><select path="#a"/><select path="#a"/></set>' * 45
)
DEEPER = '<rule match="$"><unmute/><set path="a"><list><select path="a"/></list></set></rule>'
USES = {
    "model": '<set path="x"><select path="#a"/></set>',
    "text": '<set path="x"><text><select path="#a"/></text></set>',
    "report": '<report entity="unit" id="u"><parameter name="text"><select path="#a"/></parameter></report>',
    "mapping": '<update-cf-stack template="A"><parameter name="mappings"><map><item name="k">'
    '<select path="#a"/></item></map></parameter></update-cf-stack>',
    "error": '<set path="x"><format-error error="a"/></set>',
}  # fmt: skip


@pytest.mark.parametrize("rules", [*(DOUBLED + use for use in USES.values()), DOUBLED_TEXT, DEEPER])
def test_a_value_that_would_fill_the_memory_is_an_error(rules: str) -> None:
    """What grows by references, by joining texts or by nesting ends the task before it is written out."""
    files = {"workflows/A.xml": f"<workflow>{rules}</workflow>", "templates/cf/A.template": "{}"}
    result = run_case({"model": {"id": "e1"}, "files": files}, read_yaml)
    assert re.search("at most|nests deeper", result["error"])
    assert len(json.dumps(result)) < 5000


def test_a_model_that_aliases_make_too_large_is_cut() -> None:
    """Growth that no single change shows is found between rounds, and the outcome can still be stored."""
    doubled = "".join(
        f'<set path="k{n}"><list><select path="k{n - 1}"/><select path="k{n - 1}"/></list></set>'
        for n in range(1, 18)
    )
    filled = '<map><item name="m"><select path="fill"/></item></map>'
    rules = f'<set path="k0"><list/></set>{doubled}<set path="k1.0">{filled}</set>'
    model = {"id": "e1", "fill": list(range(60))}
    case = {"model": model, "files": {"workflows/A.xml": f"<workflow>{rules}</workflow>"}}
    result = run_case(case, read_yaml)
    assert "values; at most 2000000 are allowed" in result["error"]
    assert result["model"]["fill"] == list(range(60))
    assert len(json.dumps(result)) < 100_000
