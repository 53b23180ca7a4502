"""Results that a process keeps by the text they were made of: texts from outside must not fill its memory."""

import ast
import importlib
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from vetro.compute.allocation.expression import ExpressionError, compile_expression
from vetro.compute.allocation.patterns import PatternError
from vetro.compute.allocation.patterns import compile_pattern as allocation_pattern
from vetro.compute.allocation.record import iso_time, stamp_time
from vetro.compute.values.records import is_reached
from vetro.environments.headers import header_problem
from vetro.muranopl.model import loading
from vetro.muranopl.syntax.versions import version_spec
from vetro.packages.errors import PackageFormatError
from vetro.packages.forms.wizard import load_form
from vetro.packages.signatures import parse_signature
from vetro.secrecy import is_secret
from vetro.workflows.queries import compile_query
from vetro.yaql.errors import ArgumentValueException, FormatException
from vetro.yaql.expression import compile_expression as yaql_expression
from vetro.yaql.regex import compile_pattern as yaql_pattern

SOURCES = Path(__file__).resolve().parent.parent / "src"
LONG = "x" * 300_000
FORM = "Version: 2\nApplication:\n  ?: {type: a.B}\n# "


def formatted(template: str) -> object:
    """What YAQL's `format` makes of a template and a number."""
    return yaql_expression("format($, 1)").evaluate(template)


#: What is kept by a text from outside: the cache, and a call with a long text.
OUTSIDE: dict[str, Callable[[], object]] = {
    "compute.allocation.expression.compile_expression": lambda: compile_expression(LONG),
    "compute.allocation.patterns.compile_pattern": lambda: allocation_pattern(LONG[:20_000]),
    "compute.allocation.record._iso_time": lambda: iso_time(LONG),
    "compute.allocation.record._stamp_time": lambda: stamp_time(LONG),
    "compute.values.records._is_reached": lambda: is_reached(LONG),
    "environments.headers._names_class": lambda: header_problem({"id": "1", "type": LONG}),
    "muranopl.model.loading._short_parts": lambda: loading.type_parts(LONG),
    "muranopl.syntax.versions._short_spec": lambda: version_spec(f"{' ' * 300_000}1.0"),
    "packages.forms.wizard._definition": lambda: load_form(
        FORM + LONG, package_name="a", title="a"
    ),
    "packages.signatures.parse_signature": lambda: parse_signature(LONG),
    "secrecy._is_secret": lambda: is_secret(LONG),
    "workflows.queries._short_query": lambda: compile_query(f"$.{LONG[:19_000]}"),
    "yaql.expression._compile": lambda: yaql_expression(f"${LONG[:200_000]}"),
    "yaql.regex.compile_pattern": lambda: yaql_pattern(LONG),
    "yaql.text.check_specification": lambda: formatted(f"{{:{'0' * 300_000}}}"),
    "yaql.text.read_template": lambda: formatted(LONG),
}
REFUSALS = (
    ArgumentValueException, ExpressionError, PackageFormatError, PatternError, FormatException,
)  # fmt: skip
#: What is kept by names of the code, by what is stored once, or by what one of the above made.
INSIDE = {
    "catalog.resolving._parents", "engine.worker.back_ends.shipped_packages", "http.assembly._date",
    "http.audit._meaning", "http.client._system_trust", "http.dispatch._kind", "http.handler._arguments",
    "http.handler._signature", "http.handler._signature_model", "http.logs._own_ones",
    "http.logs._second_text", "http.logs._secret_ones", "http.metrics._series", "http.metrics.in_progress",
    "muranopl.compiler.codecache.language_version", "muranopl.runtime.destruction._names_of",
    "muranopl.runtime.throwing._names_of_class", "packages.forms.expressions.library",
    "packages.plugin_formats._makers", "packages.plugin_formats._prepare", "storage.prepared._naming",
    "tracing.spans._provider", "yaql.evaluation._random_source", "yaql.regex._program",
    "yaql.regex.essence", "yaql.regex.tree._categories", "yaql.regex.tree._category_samples",
}  # fmt: skip


def test_whoever_keeps_results_says_whether_their_texts_come_from_outside() -> None:
    """Each cache of a module is in one of the two lists above."""
    found: set[str] = set()
    for file in SOURCES.rglob("*.py"):
        module = file.relative_to(SOURCES / "vetro").with_suffix("").parts
        for node in ast.walk(ast.parse(file.read_text("utf-8"))):
            if isinstance(node, ast.FunctionDef):
                marks = {ast.unparse(mark).split("(")[0] for mark in node.decorator_list}
                if marks & {"cache", "functools.cache", "lru_cache", "functools.lru_cache"}:
                    found.add(
                        ".".join([*(part for part in module if part != "__init__"), node.name])
                    )
    assert found == INSIDE | set(OUTSIDE)


@pytest.mark.parametrize("name", OUTSIDE)
def test_the_result_of_a_long_text_is_not_kept(name: str) -> None:
    """It is made again each time, or the text is refused."""
    module, _, function = name.rpartition(".")
    cache: Any = getattr(importlib.import_module(f"vetro.{module}"), function)
    before = cache.cache_info().currsize
    for _ in range(2):
        with suppress(*REFUSALS):
            OUTSIDE[name]()
    assert cache.cache_info().currsize == before
