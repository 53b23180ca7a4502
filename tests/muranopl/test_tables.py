"""The sections about what the host sees, by example: the tables in `tables/`.

`19-schema.yaml`: a `contract` (of property `x` of class `t.Main`) or a `class`, and the `schema`.
`23-tasks.yaml`: a `class`, `model` and `action`, and of the reply what the case names.
`25-native.yaml`: a method `body`, run with the Python classes below, and its `value` or `error`.
`26-tests.yaml`: a `test` body and other members of a test class, and the `outcome`.
"""

import re
import textwrap
from pathlib import Path

import pytest
from tests.tables import read_table

from vetro.muranopl import CallContext, DirectEffects, MuranoError, Runtime, loose_package, native
from vetro.muranopl.tools.testing import discover_tests, enable_testing, run_test

TABLES = Path(__file__).parent / "tables"
HEAD = (
    "Namespaces: {=: t, std: io.murano, m: io.murano.metadata, e: io.murano.metadata.engine,\n"
    "  f: io.murano.metadata.forms, test: io.murano.test, h: host, py: ''}\n"
)


def cases(table):
    rows = read_table(TABLES / table)
    names = [row["name"] for row in rows]
    assert sorted(names) == sorted(set(names))
    return [pytest.param(row, id=row["name"]) for row in rows]


def indented(text, spaces):
    return textwrap.indent(text.rstrip(), " " * spaces) + "\n"


def refused(error, wanted):
    """Whether an error is the one a case names."""
    wanted = {"name": wanted} if isinstance(wanted, str) else wanted
    assert any(name.endswith(wanted.get("name", "")) for name in error.names), error.names
    assert re.search(wanted.get("message", ""), error.message), error.message


# -- section 19 ----------------------------------------------------------------------------------

OTHER = """Name: Other
Methods:
  sizes: {Usage: Static, Body: {Return: [1, 2]}}
"""


@pytest.mark.parametrize("case", cases("19-schema.yaml"))
def test_a_class_has_the_schema(case):
    """JSON schemas of contracts, classes and model builders are those of the table."""
    text = case.get("class") or f"Properties:\n  x: {{Contract: {case['contract']}}}\n"
    runtime = Runtime()
    parts = [f"Name: Main\n{text}", OTHER, *case.get("others", ())]
    runtime.add_package(loose_package("t", *[HEAD + part for part in parts]))
    try:
        found = runtime.schema("t.Main", case.get("methods"))
    except MuranoError as error:
        refused(error, case["error"])
        return
    assert "error" not in case
    if "contract" in case:
        assert found[""]["properties"]["x"] == case["schema"]
    elif "properties" in case:
        assert found[""]["properties"] == case["properties"]
        assert list(found[""]["properties"]) == list(case["properties"])
    elif "sections" in case:
        assert found[""]["formSections"] == case["sections"]
    else:
        assert found == case["schemas"]


# -- section 23 ----------------------------------------------------------------------------------


@pytest.mark.parametrize("case", cases("23-tasks.yaml"))
async def test_a_task_comes_out_as_written(case):
    """Reply, model, trace and warnings of a task are those of the table."""
    trace = []
    runtime = Runtime()
    runtime.add_function("trace", trace.append)
    runtime.add_package(loose_package("t", f"{HEAD}Name: Main\n{case['class']}"))
    session = runtime.session(effects=DirectEffects(seed=1))
    objects = {"?": {"id": "root", "type": "t.Main"}, **case.get("properties", {})}
    model = {"Objects": objects, **case.get("model", {})}
    reply = await session.run_task_async({"action": case.get("action"), "model": model})
    wanted = case["reply"]
    assert reply.is_exception is wanted.get("exception", False), reply.details
    assert reply.stage == wanted.get("stage")
    assert reply.result == wanted.get("result")
    assert re.search(wanted.get("message", ""), reply.message or "")
    assert re.search(wanted.get("details", ""), reply.details or "")
    whole = reply.as_json()
    assert set(whole) == {"model", "action"}
    assert whole["action"]["isException"] is wanted.get("exception", False)
    for name, value in wanted.get("objects", {}).items():
        assert reply.model["Objects"].get(name, "absent") == value, name
    for name in ("ObjectsCopy", "Attributes"):
        if name in wanted:
            assert reply.model[name] == wanted[name]
    assert trace == case.get("trace", [])
    assert len(reply.warnings) == len(wanted.get("warnings", []))
    for text, pattern in zip(reply.warnings, wanted.get("warnings", []), strict=True):
        assert re.search(pattern, text), text


# -- section 25 ----------------------------------------------------------------------------------


class Counter:
    """Methods of all kinds, in Python's spelling."""

    def __init__(self, start_at: int = 0, step: int | None = None) -> None:
        self.value = start_at
        self.step = step or 1

    def count_up(self, how_often: int = 1) -> int:
        self.value += self.step * how_often
        return self.value

    def names(self, *args: str, **kwargs: str) -> list:
        return [list(args), dict(kwargs)]

    def who(self, ctx: CallContext) -> list:
        return [ctx.this.type.name, ctx.caller_type.name, ctx.this.id == ctx.this.id]

    def hold(self, values: list, table: dict) -> list:
        values.append(1)  # arguments are the callee's own
        table["x"] = 1
        return [values, table]

    def fail(self) -> None:
        raise KeyError("the host's error")

    def nothing(self) -> None:
        return None

    def lazy(self):
        yield from (1, 2)

    def both(self, ctx: CallContext, name: str) -> str:
        return f"{ctx.this.type.name}:{name}"

    def _hidden(self) -> int:
        return 1

    @staticmethod
    def largest() -> int:
        return 99

    @classmethod
    def kind(cls) -> str:
        return cls.__name__

    @native(extends="string", static=True)
    @staticmethod
    def mirrored(text: str, times: int = 1) -> str:
        return text[::-1] * times

    @native(name="spelled_out", static=True)
    @staticmethod
    def other() -> int:
        return 7


@pytest.mark.parametrize("case", cases("25-native.yaml"))
def test_a_native_class_answers(case):
    """Calls of Python classes from the language give the value or the error of the table."""
    runtime = Runtime()
    runtime.add_native_class("host.Counter", Counter, package="t")
    text = case.get("class") or "Import: h:Counter\nMethods:\n  run:\n    Body:\n" + indented(
        case["body"], 6
    )
    extra = [HEAD + item for item in case.get("others", ())]
    runtime.add_package(loose_package("t", f"{HEAD}Name: Main\n{text}", *extra))
    with runtime.session(effects=DirectEffects(seed=1)) as session:
        root = session.load({"Objects": {"?": {"id": "root", "type": "t.Main"}}})
        try:
            value = session.to_plain(session.call(root, "run"))
        except MuranoError as error:
            refused(error, case["error"])
        else:
            assert "error" not in case, value
            assert value == case["value"]


# -- section 26 ----------------------------------------------------------------------------------


@pytest.mark.parametrize("case", cases("26-tests.yaml"))
def test_a_test_class_comes_out_as_written(case):
    """Outcome, failing step and message of a test are those of the table."""
    runtime = Runtime()
    enable_testing(runtime)
    trace = []
    runtime.add_function("trace", trace.append)
    text = f"{HEAD}Name: Main\nExtends: test:TestFixture\n{case.get('class', '')}Methods:\n"
    text += indented(case.get("methods", ""), 2) if "methods" in case else ""
    text += "  testIt:\n    Body:\n" + indented(case["test"], 6)
    others = [HEAD + item for item in case.get("others", ())]
    package = runtime.add_package(loose_package("t", text, *others))
    (found,) = [item for item in discover_tests(runtime, package) if item.method == "testIt"]
    result = run_test(runtime, found)
    assert result.outcome == case.get("outcome", "passed"), result.trace
    assert re.search(case.get("message", ""), result.message), result.message
    if "step" in case:
        assert result.step == case["step"]
    for name in ("expected", "observed"):
        if name in case:
            assert getattr(result, name) == case[name]
    assert trace == case.get("trace", [])
