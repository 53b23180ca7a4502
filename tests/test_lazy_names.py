"""Packages whose names are imported when they are first used (`vetro.lazy_names`)."""

import ast
import importlib
from pathlib import Path

import pytest

import vetro
from vetro.lazy_names import import_when_used

ROOT = Path(vetro.__file__).parent
FACES = {
    ".".join(("vetro", *path.parent.relative_to(ROOT).parts)): path
    for path in sorted(ROOT.rglob("__init__.py"))
    if "import_when_used(" in path.read_text(encoding="utf-8")
}


def names_for_type_checkers(path: Path) -> set[str]:
    """The names that a package imports under TYPE_CHECKING, read as Python reads them."""
    return {
        name.asname or name.name
        for node in ast.parse(path.read_text(encoding="utf-8")).body
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
        for statement in node.body
        if isinstance(statement, ast.ImportFrom)
        for name in statement.names
    }


def test_the_big_rooms_are_among_the_packages_that_load_late() -> None:
    """The packages that load names late are found at all."""
    assert {"vetro.compute", "vetro.engine", "vetro.muranopl", "vetro.stacks"} <= set(FACES)


@pytest.mark.parametrize("package", FACES)
def test_every_published_name_can_be_used(package: str) -> None:
    """Each name that type checkers see, and each in a package's `__all__`, can be imported."""
    module = importlib.import_module(package)
    names = names_for_type_checkers(FACES[package])
    assert names
    for name in {*vars(module).get("__all__", ()), *names}:
        assert getattr(module, name) is not None, name


def test_no_package_has_a_loader_of_its_own() -> None:
    """Packages use the one mechanism; none defines `__getattr__` itself."""
    own = [
        str(path.relative_to(ROOT))
        for path in ROOT.rglob("__init__.py")
        if "\ndef __getattr__" in path.read_text(encoding="utf-8")
    ]
    assert own == []


def test_a_name_is_imported_once_and_may_be_published_under_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first use makes the name an attribute of the package; `old as new` renames; others are unknown."""
    (tmp_path / "late").mkdir()
    (tmp_path / "late/__init__.py").write_text(
        "from typing import TYPE_CHECKING\n"
        "from vetro.lazy_names import import_when_used\n"
        "if TYPE_CHECKING:\n"
        "    from vetro.digits import is_number\n\n"
        "    from vetro.lazy_names import (\n"
        "        import_when_used as again,\n"
        "    )\n"
        "    from .inner import here\n"
        "__getattr__ = import_when_used(__name__)\n"
        "def inside() -> None:\n"
        "    from os import sep\n"
    )
    (tmp_path / "late/inner.py").write_text("here = 5\n")
    monkeypatch.syspath_prepend(tmp_path)
    package = importlib.import_module("late")
    assert "again" not in vars(package)
    assert package.again is import_when_used
    assert vars(package)["again"] is import_when_used
    assert package.is_number("7")
    assert package.here == 5
    for unknown in ("other", "sep"):
        with pytest.raises(AttributeError, match=rf"^module 'late' has no attribute '{unknown}'$"):
            getattr(package, unknown)
