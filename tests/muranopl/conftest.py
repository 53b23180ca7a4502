"""Packages from text."""

import re

import pytest

from vetro.muranopl import DirectEffects, Limits, MemoryPackage, Runtime
from vetro.muranopl.runtime.budgets import raise_python_limit
from vetro.muranopl.tools.testing import discover_tests, enable_testing, run_tests

# Before Hypothesis begins to watch the limit, which the first session raises.
raise_python_limit()


def package(name, text, *, version="0.0.0", format="1.4", **options):  # noqa: A002
    """A package of one file; its classes are those that the text names."""
    classes = {}
    for found in re.findall(r"^Name: *([\w.]+)", text, re.M):
        classes[found if "." in found else f"{name}.{found}"] = "all.yaml"
    return MemoryPackage(
        name, {"all.yaml": text}, classes, version=version, format=format, **options
    )


@pytest.fixture
def load():
    """`load(text, …) -> (session, root)`: a runtime with one package `t`, its `Main` loaded."""

    def loader(text, *, natives=(), model=None, limits=None, effects=None, runtime=None, **options):
        runtime = runtime or Runtime()
        for name, python_class in dict(natives).items():
            runtime.add_native_class(name, python_class, package="t")
        runtime.add_package(package("t", text, **options))
        session = runtime.session(
            effects=effects or DirectEffects(seed=1), limits=limits or Limits(steps=10_000_000)
        )
        header = {"?": {"type": "t.Main", "id": "root"}}
        return session, session.load({"Objects": {**header, **(model or {})}})

    return loader


@pytest.fixture(name="package")
def package_fixture():
    return package


# -- test classes (`vetro.muranopl.tools.testing`) ---------------------------------------------------------

_CASES_CODE = """
Namespaces: {=: t, std: io.murano}
Name: Shop
Properties:
  price: {Contract: $.int().notNull(), Default: 10}
Methods:
  cost:
    Arguments:
      - count: {Contract: $.int().notNull().check($ > 0)}
      - discount: {Contract: $.int(), Default: $.price - 8}
    Body:
      - Return: $.price * $count - $discount
  total:
    Arguments:
      - count: {Contract: $.int()}
    Body:
      - $secret: 7
      - Return: $.cost($count)
  sum:
    Arguments:
      - numbers: {Contract: $.int(), Usage: VarArgs}
      - options: {Contract: $.string(), Usage: KwArgs}
    Body:
      - Return: $numbers.sum(0)
  tax:
    Usage: Static
    Arguments:
      - amount: {Contract: $.int().notNull()}
    Body:
      Return: $amount + 1
  taxed:
    Body:
      Return: :Shop.tax(1)
---
Name: Boutique
Extends: Shop
Methods:
  total:
    Arguments:
      - count: {Contract: $.int()}
    Body:
      - Return: $.super($.total($count)).first() + 1000
---
Name: Kiosk
Extends: Shop
"""

_CASES_HEAD = "Namespaces: {=: t, std: io.murano, test: io.murano.test}\n"


def _run_cases(tests, *, code=_CASES_CODE, coverage=None, natives=(), head=_CASES_HEAD):
    """Run the methods of a test class; results by name."""
    runtime = Runtime()
    runtime.coverage = coverage
    enable_testing(runtime)
    for name, python_class in dict(natives).items():
        runtime.add_native_class(name, python_class, package="t")
    body = head + "Name: Cases\nExtends: test:TestFixture\nMethods:\n" + tests
    classes = {"t.Cases": "cases.yaml"}
    for name in ("Shop", "Boutique", "Kiosk"):
        classes[f"t.{name}"] = "code.yaml"
    package = runtime.add_package(
        MemoryPackage("t", {"code.yaml": code, "cases.yaml": body}, classes)
    )
    found = discover_tests(runtime, package)
    return {item.test.method: item for item in run_tests(runtime, found)}


def _only(tests, **options):
    """The single result of a class with one test."""
    (result,) = _run_cases(tests, **options).values()
    return result


def _passed(body, **options):
    """Run one test whose body is given as statements; it must pass."""
    lines = "\n".join("      " + line for line in body.strip("\n").splitlines())
    result = _only(f"  testIt:\n    Body:\n{lines}\n", **options)
    assert result.outcome == "passed", result.trace or result.message
    return result


@pytest.fixture
def cases_code():
    """The classes that the test classes test."""
    return _CASES_CODE


@pytest.fixture
def cases_head():
    """The first lines of a file with test classes."""
    return _CASES_HEAD


@pytest.fixture
def run_cases():
    return _run_cases


@pytest.fixture
def only():
    return _only


@pytest.fixture
def passed():
    return _passed
