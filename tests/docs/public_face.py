"""A program that uses every public name of the languages; `make lint` checks its types (docs/versions.md)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import assert_type

from vetro import muranopl, packages, yaql
from vetro.muranopl import MuranoObject, Runtime, Session


def expressions() -> object:
    """A YAQL expression is compiled once and evaluated with data."""
    expression = yaql.compile("$.select($ * 2)")
    assert_type(expression, yaql.Expression)
    try:
        return expression.evaluate([1, 2])
    except yaql.YaqlException as error:
        assert_type(str(error), str)
        raise


def programs() -> object:
    """A class is loaded from its text; a method of it is called."""
    runtime = Runtime()
    runtime.add_package(
        muranopl.loose_package("face", "Name: Main\nMethods: {run: {Body: [Return: 1]}}")
    )
    session = runtime.session(limits=muranopl.Limits(steps=1000))
    assert_type(session, Session)
    main = session.load({"Objects": {"?": {"type": "face.Main", "id": "main"}}})
    assert_type(main, MuranoObject | None)
    assert main is not None
    assert_type(session.find("main"), MuranoObject | None)
    try:
        return session.call(main, "run")
    except muranopl.MuranoError as error:
        assert_type(error.names, tuple[str, ...])
        assert_type(error.message, str)
        raise


def archives(directory: Path) -> Sequence[packages.Finding]:
    """A package directory is opened, checked and packed."""
    package = packages.open_package(directory)
    assert_type(package, packages.Package)
    assert_type(package.full_name, str)
    assert_type(package.version, str)
    packages.build_archive(directory, directory.with_suffix(".zip"))
    return packages.check(directory)
