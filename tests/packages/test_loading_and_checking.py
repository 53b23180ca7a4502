"""Loading and checking read with the same readers: one fails if and only if the other finds errors."""

from collections.abc import Callable, Iterator
from typing import Any, cast

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.effort import examples

from vetro.muranopl import MemoryPackage, MuranoError, Runtime, check_package, enable_testing
from vetro.muranopl.syntax.class_reader import declare
from vetro.muranopl.syntax.expressions import parse_expression
from vetro.muranopl.syntax.findings import Finding, Sink
from vetro.muranopl.syntax.statements import parse_body
from vetro.muranopl.syntax.yamltree import load_documents
from vetro.muranopl.values.errors import Position
from vetro.packages.check_codes import LOADS

from . import test_check, test_check_names
from .small_packages import HEAD

GOOD = """\
Namespaces: {=: p, std: io.murano, m: io.murano.metadata}
Name: App
Extends: Base
Import: [Helper]
Meta:
  m:Title: {text: An application}
Properties:
  name: {Contract: $.string().notNull(), Default: web}
  count: {Contract: $.int().check($ > 0), Usage: InOut, Default: 1}
  part: {Contract: $.class(Helper), Usage: Runtime}
  table: {Contract: {$.string().notNull(): $.int()}, Usage: Static, Default: {a: 1}}
Methods:
  .init:
    Body: {$.part: new(Helper)}
  run:
    Scope: Public
    Arguments:
      - first: {Contract: $.string(), Default: x}
      - rest: {Contract: $, Usage: VarArgs}
      - more: {Contract: $, Usage: KwArgs}
    Body:
      - $x: $first + $.name
      - $this.count: $.count + 1
      - If: $x = web
        Then: [$.part.help($x)]
        Else: {Return: $rest}
      - While: $.count < 3
        Do: [$.count: $.count + 1, {Break: }]
      - For: item
        In: [1, 2]
        Do: [{Continue: }]
      - Repeat: 2
        Do: $.part.help($x)
      - Match: {a: [{Return: 1}], b: {Return: 2}}
        Value: $x
        Default: []
      - Switch:
          $x = a: {Return: 1}
        Default: {Return: 2}
      - Parallel: [$.part.help(a), {Do: [$.part.help(b)]}]
        Limit: 2
      - Try: [{Throw: Wrong, Message: no, Extra: {a: 1}}]
        Catch:
          - {With: Wrong, As: e, Do: [{Return: $e.message}]}
          - Do: {Rethrow: }
        Else: []
        Finally: []
      - Return: {a: [$x, 1], b: $more}
  twice:
    Usage: Extension
    Arguments: [{value: {Contract: $.int().notNull()}}]
    Body: {Return: $value * 2}
---
Name: Base
Methods: {other: {Body: []}}
---
Name: Helper
Methods:
  help: {Usage: Runtime, Arguments: [{a: {Contract: $.string()}}], Body: {Return: $a}}
"""
CLASSES = {"p.App": "App.yaml", "p.Base": "App.yaml", "p.Helper": "App.yaml"}
Finding_ = tuple[str, str, Position]


def facts(finding: Finding) -> Finding_:
    """The parts of a finding that users see."""
    return finding.code, finding.message, finding.position


def package_of(text: str, classes: dict[str, str]) -> tuple[Runtime, MemoryPackage]:
    """A new runtime and a package of one class file."""
    runtime = Runtime()
    enable_testing(runtime)
    return runtime, MemoryPackage("p", {"App.yaml": text}, classes)


def errors_of_loading(text: str, classes: dict[str, str]) -> tuple[set[Finding_], set[Finding_]]:
    """Errors that refuse classes, and errors of methods, which wait for a call."""
    runtime, source = package_of(text, classes)
    package = runtime.add_package(source)
    refused: set[Finding_] = set()
    start = Position("p/Classes/App.yaml", 1, 1)
    for name in classes:
        try:
            type_ = runtime.classes.own_type(package, name)
            assert type_ is not None
            _ = type_.assembly
        except MuranoError as error:
            refused.add(facts(Finding.of(error, start)))
    dormant = {facts(item) for item in runtime.classes.findings if item.level == "error"}
    return refused, {item for item in dormant if item[2].file == start.file}


def errors_of_check(text: str, classes: dict[str, str]) -> set[Finding_]:
    """The errors that a check of the package finds."""
    runtime, source = package_of(text, classes)
    found = check_package(runtime, runtime.add_package(source))
    return {facts(item) for item in found if item.level == "error"}


def compare(text: str, classes: dict[str, str] = CLASSES) -> None:
    """Assert that loading and checking agree on a class file."""
    refused, dormant = errors_of_loading(text, classes)
    checked = errors_of_check(text, classes)
    # `$this: 1` fails where it runs: a program may catch that.
    read = {
        item for item in checked if item[0] not in LOADS and "cannot be assigned" not in item[1]
    }
    # A class that the file lacks, while the file has errors, is not an error of its own.
    assert {item for item in refused if item[0] != "E051"} | dormant <= checked
    assert bool(refused | dormant) or not read
    assert not refused or checked


def raised_by(action: Any, *given: Any) -> MuranoError | None:
    """What a reader raises."""
    try:
        action(*given)
    except MuranoError as error:
        return error
    return None


def compare_readers(text: str) -> None:
    """Assert that a reader raises the first of the errors that it has when it collects."""
    mistakes: dict[int, Any] = {}
    try:
        documents = load_documents(text, "f", parse_expression=parse_expression, mistakes=mistakes)
    except MuranoError:
        return
    every = Sink(collects=True)
    declarations = declare(documents, "p.App", every, mistakes)
    assert shown(raised_by(declare, documents, "p.App", None, mistakes)) == shown(every.first)
    for declaration in declarations:
        for method in declaration.methods.values():
            every = Sink(collects=True)
            parse_body(method.body, declaration.namespaces, every)
            raised = raised_by(parse_body, method.body, declaration.namespaces)
            assert shown(raised) == shown(every.first)


def shown(error: MuranoError | None) -> tuple[object, ...]:
    """What two errors that are the same have in common."""
    return () if error is None else (type(error), error.message, error.hint, error.position)


def cases_of(test: Any):
    """The cases of a parametrized test."""
    (mark,) = test.pytestmark
    return mark.args[1]


WRONG = [
    *(text for text, _ in cases_of(test_check.test_classes)),
    *(
        f"{HEAD}Methods:\n  m:\n    Body:\n      - {statement}\n"
        for statement, _ in cases_of(test_check.test_statements)
    ),
    *(
        test_check_names.NAMES.replace("STATEMENT", f"Do: {one}" if one[0] == "[" else one)
        for one, _, _ in cases_of(test_check_names.test_names_that_nothing_has)
    ),
    *(
        test_check_names.KNOWN.replace("STATEMENT", one)
        for one, _, _ in cases_of(test_check_names.test_methods_of_values_whose_class_is_known)
    ),
]


def test_a_good_package_is_loaded_and_has_no_errors() -> None:
    """What the damage begins with has none."""
    assert errors_of_loading(GOOD, CLASSES) == (set(), set())
    assert errors_of_check(GOOD, CLASSES) == set()


@pytest.mark.parametrize("text", WRONG, ids=range(len(WRONG)))
def test_the_packages_of_the_check_fail_to_load_if_they_have_errors(text: str) -> None:
    """Every class file of the check's own tests: the same errors at the same places."""
    compare(text, {"p.App": "App.yaml"})
    compare_readers(text)


COMPOSE = cast("Callable[[str], Any]", yaml.compose)
WORDS = ("5", "true", "", "text", "$.x(", "a-b", "$", "Static", "2026-99-99", "In", "null")


def maps_of(node: Any) -> list[Any]:
    """All maps of a document that have keys."""
    found: list[Any] = []
    stack: list[Any] = [node]
    while stack:
        item = stack.pop()
        if isinstance(item, yaml.MappingNode):
            if item.value:
                found.append(item)
            stack.extend(part for pair in item.value for part in pair)
        elif isinstance(item, yaml.SequenceNode):
            stack.extend(item.value)
    return found


def text_node(text: str) -> Any:
    """A plain scalar, of the type that YAML gives it."""
    return COMPOSE(f"[{text}]" if text else "[null]").value[0]


@st.composite
def damaged(draw: Any) -> str:
    """The good file with keys dropped, renamed and doubled, and values of a wrong kind."""
    nodes: list[Any] = [*cast("Iterator[Any]", yaml.compose_all(GOOD))]
    for _ in range(draw(st.integers(1, 3))):
        pairs = draw(st.sampled_from([one for node in nodes for one in maps_of(node)])).value
        if not pairs:
            continue
        at = draw(st.integers(0, len(pairs) - 1))
        key, value = pairs[at]
        match draw(st.sampled_from(["drop", "rename", "double", "word", "list", "map"])):
            case "drop":
                del pairs[at]
            case "rename":
                name = draw(st.sampled_from([*WORDS, *(f"{key.value}{end}" for end in "sx")]))
                pairs[at] = text_node(name), value
            case "double":
                pairs.insert(draw(st.integers(0, len(pairs))), (key, value))
            case "word":
                pairs[at] = key, text_node(draw(st.sampled_from(WORDS)))
            case "list":
                pairs[at] = key, yaml.SequenceNode("tag:yaml.org,2002:seq", [value])
            case _:
                pairs[at] = key, yaml.MappingNode("tag:yaml.org,2002:map", [(key, value)])
    return "---\n".join(yaml.serialize(node) for node in nodes)


@settings(
    max_examples=examples(150),
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)
@given(damaged())
def test_a_damaged_package_fails_to_load_if_a_check_has_errors(text: str) -> None:
    """Whatever is dropped, renamed, doubled or of a wrong kind: both say the same."""
    compare(text)
    compare_readers(text)
