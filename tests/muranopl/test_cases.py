"""The language by example: one YAML table per section of the spec, in `cases/`.

A case has a `name` and one of
  `body`     a method body; it becomes `run` of class `t.Main`,
  `class`    the rest of class `t.Main` (Properties, Methods, …) with a method `run`,
  `classes`  a whole class file, whose root class is `t.Main`.
Beside it: `format` (1.4), `args`, `kwargs`, `model` (the root's properties), `objects` (the whole
`Objects`), `call` (run), and what is expected: `value`, `trace` (what `trace(x)` was called with),
`dump` (the `Objects` afterwards), `shape` (of some of its properties: `inline` and `id` stand for
objects), `attributes`, `error` {name, message (regular expression), at: line:column}. A `name` may
list several, divided by `|`. `packages` are further ones: name, version, text; `require` is what `t`
requires of them.
"""

import re
import textwrap
from pathlib import Path

import pytest
from tests.tables import read_table

from vetro.muranopl import DirectEffects, Limits, MemoryPackage, MuranoError, Runtime, check_package

CASES = Path(__file__).parent / "cases"


def all_cases():
    for file in sorted(CASES.glob("*.yaml")):
        for case in read_table(file):
            yield pytest.param(case, id=f"{file.stem}: {case['name']}")


def source_of(case):
    head = "Namespaces: {=: t, std: io.murano}\nName: Main\n"
    if "body" in case:
        return (
            head + "Methods:\n  run:\n    Body:\n" + textwrap.indent(case["body"].rstrip(), " " * 6)
        )
    if "class" in case:
        return head + case["class"]
    return case["classes"]


def class_names(text):
    found = {"t.Main": "Main.yaml"}
    for name in re.findall(r"^Name: *([\w.]+)", text, re.M):
        found[name if "." in name else f"t.{name}"] = "Main.yaml"
    return found


def add_packages(case, runtime):
    """The package of a case, added to a runtime together with its further ones."""
    text = source_of(case)
    package = MemoryPackage(
        "t",
        {"Main.yaml": text},
        class_names(text),
        format=str(case.get("format", "1.4")),
        requirements=case.get("require", {}),
        resources={k: v.encode() for k, v in case.get("resources", {}).items()},
    )
    made = runtime.add_package(package)
    for other in case.get("packages", ()):
        files = dict.fromkeys(re.findall(r"^Name: *([\w.]+)", other["text"], re.M), "all.yaml")
        classes = {n if "." in n else f"{other['name']}.{n}": f for n, f in files.items()}
        runtime.add_package(
            MemoryPackage(
                other["name"], {"all.yaml": other["text"]}, classes, version=other["version"]
            )
        )
    return made


def run_case(case):
    trace = []
    runtime = Runtime(class_configs=case.get("configs"))
    runtime.add_function("trace", trace.append)
    add_packages(case, runtime)
    limits = Limits(**{"steps": 10_000_000, **case.get("limits", {})})
    session = runtime.session(effects=DirectEffects(seed=1), limits=limits)
    model = {"Objects": case.get("objects") or {"?": {"id": "root", "type": "t.Main"}}}
    if "model" in case:
        model["Objects"].update(case["model"])
    for key in ("ObjectsCopy", "Attributes"):
        if key in case:
            model[key] = case[key]
    outcome = {"trace": trace, "session": session, "value": None}
    try:
        root = session.load(model)
        if case.get("call", "run"):
            value = session.call(
                root, case.get("call", "run"), *case.get("args", ()), **case.get("kwargs", {})
            )
            outcome["value"] = session.serialize(value)
    except MuranoError as error:
        outcome["error"] = error
    return outcome


@pytest.mark.parametrize("case", list(all_cases()))
def test_the_case_comes_out_as_written(case):
    """Value, trace, dump and error are those of the table."""
    outcome = run_case(case)
    error = outcome.get("error")
    wanted = case.get("error")
    if error is not None and wanted is None:
        raise AssertionError(f"unexpected {error.format()}") from error
    if wanted is not None:
        assert error is not None, f"no error, value {outcome['value']!r}"
        wanted = {"name": wanted} if isinstance(wanted, str) else wanted
        if "name" in wanted:
            names = wanted["name"].split("|")
            assert any(n == w or n.endswith("." + w) for n in error.names for w in names)
        if "message" in wanted:
            assert re.search(wanted["message"], error.message), error.message
        if "hint" in wanted:
            assert wanted["hint"] in (error.hint or ""), error.hint
        if "at" in wanted:
            position = error.position or (error.stack_trace and error.stack_trace[-1].position)
            assert position, "the error has no position"
            assert f"{position.line}:{position.column}" == str(wanted["at"])
    if "value" in case:
        assert typed(outcome["value"]) == typed(case["value"])
    if "trace" in case:
        assert outcome["trace"] == case["trace"]
    if "dump" in case:
        assert outcome["session"].dump()["Objects"] == case["dump"]
    if "shape" in case:
        found = outcome["session"].dump()["Objects"]
        assert {name: shape(found[name]) for name in case["shape"]} == case["shape"]
    if "attributes" in case:
        assert outcome["session"].dump()["Attributes"] == case["attributes"]


def shape(value):
    """A value of a model with `inline` for objects and `id` for references to them."""
    if isinstance(value, dict):
        return "inline" if "?" in value else {key: shape(item) for key, item in value.items()}
    if isinstance(value, list):
        return [shape(item) for item in value]
    return "id" if isinstance(value, str) and re.fullmatch("[0-9a-f]{32}", value) else value


def typed(value):
    """Equal only for equal types: 1 is not true."""
    if isinstance(value, dict):
        return {"map": [[typed(k), typed(v)] for k, v in value.items()]}
    if isinstance(value, list):
        return [typed(item) for item in value]
    return (type(value).__name__, value)


def test_the_page_names_every_table_and_every_section():
    """Each section of the specification has its tests, and each table its section."""
    here = Path(__file__).parent
    page = (here.parents[1] / "docs/language/cases.md").read_text(encoding="utf-8")
    rows = [row.split("|") for row in page.splitlines() if re.match(r"\| \d", row)]
    assert [int(row[1].split()[0]) for row in rows] == list(range(1, 30))
    named = [re.findall(r"`([^`]+)`", row[2] + row[3]) for row in rows]
    assert all(named)
    assert all((here / name).is_file() for names in named for name in names)
    tables = {
        f"{file.parent.name}/{file.name}"
        for folder in (CASES, here / "tables")
        for file in folder.glob("*.yaml")
    }
    assert tables <= {name for names in named for name in names}


def test_no_two_cases_of_a_table_have_one_name():
    """A failing case is found by its name."""
    for file in CASES.glob("*.yaml"):
        names = [case["name"] for case in read_table(file)]
        assert sorted(names) == sorted(set(names)), file.name


NAMES = {"E311", "E312", "E313", "W206", "W207", "W208", "W209", "W211"}


@pytest.mark.parametrize("case", [param for param in all_cases() if "error" not in param.values[0]])
def test_the_check_finds_unknown_names_and_nothing_else(case):
    """Of programs that run it finds those lines that say `# mistake`, which nothing runs or which
    catch what comes of it, and no other."""
    runtime = Runtime(class_configs=case.get("configs"))
    runtime.add_function("trace", print)
    found = check_package(runtime, add_packages(case, runtime))
    lines = source_of(case).splitlines()
    marked = {number for number, line in enumerate(lines, 1) if "# mistake" in line}
    assert {item.position.line for item in found if item.code in NAMES} == marked
