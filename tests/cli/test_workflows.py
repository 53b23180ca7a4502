"""`vetro workflow-case`, `vetro workflow test` and `vetro workflow explain`, as an author uses them."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import pytest

RULES = """<workflow>
  <rule id="net" match="$.services[?(not @.net)]">
    <get-default-router-id result="router"><success>
      <set path="net"><select path="#router"/></set>
    </success></get-default-router-id>
  </rule>
  <rule id="stack" match="$.services[?(@.net)].units[?(not @.out)]">
    <update-cf-stack template="S" result="outputs" error="why">
      <parameter name="mappings"><map><item name="host"><select path="id"/></item></map></parameter>
      <success><set path="out"><select path="ip" source="outputs"/></set></success>
      <failure>
        <report entity="unit" level="error">
          <parameter name="id"><select path="id"/></parameter>
          <parameter name="text">no: <select path="message" source="why"/></parameter>
        </report>
        <stop/>
      </failure>
    </update-cf-stack>
  </rule>
  <rule id="agent" match="$.services[*].units[?(@.out and not @.done)]">
    <send-command template="A" error="why" result="said">
      <parameter name="service"><select path="::id"/></parameter>
      <parameter name="unit"><select path="id"/></parameter>
      <success>
        <set path="done"><select path="0.Result.0" source="said" default="nothing"/></set>
      </success>
      <failure><set path="done"><select path="0.source" source="why"/></set></failure>
    </send-command>
  </rule>
</workflow>"""
MODEL = {"id": "E", "token": "t0ken", "services": [{"id": "S", "units": [{"id": "U"}]}]}
FILES = {
    "workflows/R.xml": {"base64": base64.b64encode(RULES.encode()).decode()},
    "templates/cf/S.template": '{"Resources": {"$host": {}}, "Outputs": {"ip": {}}}',
    "templates/agent/A.template": '{"Scripts": ["s.ps1"], "Commands": [{"Name": "Go"}]}',
    "templates/agent/scripts/s.ps1": {"base64": "/w=="},
}


@pytest.fixture
def run(invoke: Any) -> Any:
    """The answer of `vetro workflow-case` to a document."""

    def answer(**changed: Any) -> dict[str, Any]:
        case = {"id": "c1", "model": MODEL, "files": FILES} | changed
        code, output = invoke("workflow-case", input=json.dumps(case))
        assert code == 0, output
        return json.loads(output)

    return answer


def test_a_case_answers_with_what_was_done(run: Any) -> None:
    """Effects have their round, kind and values; replies that are not given have their defaults."""
    answer = run(replies=None, config=None, limits=None)
    assert answer == {
        "effects": [
            {"round": 1, "kind": "network", "command": "get-default-router-id", "arguments": {}},
            {
                "round": 2,
                "kind": "stack-update",
                "fragments": [{"template": "S", "mappings": {"host": "U"}}],
                "template": {"Resources": {"U": {}}, "Outputs": {"ip": {}}},
                "arguments": {},
            },
            {
                "round": 3,
                "kind": "agent",
                "template": "A",
                "service": "S",
                "unit": "U",
                "mappings": {},
                "plan": {
                    "Scripts": ["/w==\n"],
                    "Commands": [{"Name": "Go", "Arguments": {}}],
                    "RebootOnCompletion": 0,
                },
            },
        ],
        "model": {
            "id": "E",
            "services": [
                {
                    "id": "S",
                    "net": {"routerId": "router-1", "floatingId": "extnet-1"},
                    "units": [{"id": "U", "name": "None_instance_0", "out": "OUT-ip", "done": "nothing"}],
                }
            ],
        },
        "rounds": 4,
        "stopped": False,
        "error": None,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("replies", "done"),
    [
        ('{"agent": [{"unit": "other", "timeout": true}]}', "nothing"),
        ('{"agent": [{"template": "A", "timeout": true}]}', "timeout"),
        ('{"agent": [{"result": {"IsException": true, "Result": ["T", "m"]}}]}', "execution_plan"),
        ('{"agent": [{"repeat": true, "result": {"ErrorCode": 0, "Body": "v2"}}]}', "nothing"),
        ('{"agent": [{"unit": "U", "template": "A"}], "stack": [{}]}', "nothing"),
    ],
)
def test_replies_are_what_agents_say(run: Any, replies: str, done: str) -> None:
    """A reply is used where its template and unit fit; without a result the plan succeeded."""
    assert run(replies=json.loads(replies))["model"]["services"][0]["units"][0]["done"] == done


def test_an_error_of_the_task_is_in_the_answer(run: Any) -> None:
    """The command ends well when the task ends in an error, is stopped, or does not converge."""
    answer = run(replies={"stack": [{"error": "no room"}]})
    assert (answer["stopped"], answer["error"], answer["rounds"]) == (True, None, 2)
    assert answer["effects"][-1]["text"] == "no: no room"
    assert "does not converge: not at rest after 2 rounds" in run(limits={"rounds": 2})["error"]
    assert run(files={"workflows/A.xml": "<nope/>"})["error"].startswith(
        "A.xml:1: the root element"
    )


@pytest.mark.parametrize(
    ("case", "said"),
    [
        ("[]", "the case is not an object"),
        ("{}", "model is not an object"),
        ('{"model": {}, "files": []}', "files is not an object"),
        ('{"model": {}, "files": {"a": {"base64": "%"}}}', "files['a'] is not base64"),
        ('{"model": {}, "files": {"a": 1}}', "files['a'] is not an object"),
        ('{"model": {}, "replies": {"stack": [1]}}', "replies.stack[0] is not an object"),
        ('{"model": {}, "replies": {"agent": {}}}', "replies.agent is not a list"),
        ('{"model": {}, "limits": {"rounds": "3"}}', "rounds is not an integer"),
        ('{"model": ', "line 1"),
    ],
)
def test_a_case_that_is_none_says_what_is_wrong(invoke: Any, case: str, said: str) -> None:
    """A document that is not a case ends the command with the place in it."""
    code, output = invoke("workflow-case", input=case)
    assert code == 1
    assert said in output


@pytest.mark.parametrize(
    ("case", "line"),
    [
        ({"model": MODEL, "expect": {"rounds": 2}}, "rounds: 1 instead of 2"),
        ({"model": MODEL, "expect": [1]}, "expect is not an object"),
        ({"model": MODEL, "expect": {"plans": {}}}, "expect.plans is not a list"),
        ({"model": MODEL, "definitions": "none"}, "there is no folder"),
        (7, "the case is not an object"),
    ],
)
def test_a_case_that_does_not_hold_is_shown(
    invoke: Any, tmp_path: Path, case: Any, line: str
) -> None:
    """`workflow test` names the case and the difference, and its exit code is 1."""
    holds = {"description": "fine", "model": MODEL, "expect": {"rounds": 1}}
    (tmp_path / "cases.json").write_text(json.dumps([holds, case]), encoding="utf-8")
    code, output = invoke("workflow", "test", tmp_path)
    assert code == 1
    assert "ok  " in output
    assert line in output
    assert "1 of 2 cases hold" in output


def test_explain_shows_rules_fragments_and_plans(invoke: Any, tmp_path: Path) -> None:
    """Per round: rules with objects and places, fragments, plans; secrets masked; by a service's files."""
    model = {
        "id": "e1",
        "name": "dev",
        "services": [
            {"id": "w", "type": "webServer", "name": "w", "osImage": "ws", "adminPassword": "P@ssw0rd1",
             "unitNamingPattern": "w#", "units": [{"id": "u"}]},
            {"id": "t", "type": "linuxTelnetService", "name": "t", "osImage": "i", "units": [{"id": "v"}]},
        ],
    }  # fmt: skip
    file = tmp_path / "model.json"
    file.write_text(json.dumps(model), encoding="utf-8")
    code, output = invoke("workflow", "explain", file, "--service", "webServer")
    assert code == 0
    assert "round 4" in output
    assert "hostname  Common.xml:" in output
    assert '"fragment": {' in output
    assert '"Name": "Set-LocalUserPassword"' in output
    assert "P@ssw0rd1" not in output
    code, output = invoke("workflow", "explain", file, "--service", "webServer", "--json")
    told = json.loads(output)
    plans = [one["template"] for one in told["effects"] if one["kind"] == "agent"]
    assert plans == ["SetPassword", "InstallIIS"]
    assert "P@ssw0rd1" not in output
    assert invoke("workflow", "explain", file, "--service", "none")[0] == 1
