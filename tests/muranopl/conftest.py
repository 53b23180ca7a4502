"""Packages from text."""

import re

import pytest

from vetro.muranopl import DirectEffects, Limits, MemoryPackage, Runtime
from vetro.muranopl.run import raise_python_limit

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
