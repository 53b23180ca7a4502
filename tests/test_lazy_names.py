"""Packages whose names are imported when they are first used (`vetro.lazy_names`)."""

import ast
import importlib
import sys
from pathlib import Path
from types import ModuleType

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
    """The names that a package imports under TYPE_CHECKING."""
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
    """Each name in a package's `__all__`, and each that type checkers see, can be imported."""
    module = importlib.import_module(package)
    for name in {*module.__all__, *names_for_type_checkers(FACES[package])}:
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
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The first use makes the name an attribute of the package; `new=old` renames; others are unknown."""
    package = ModuleType("late")
    monkeypatch.setitem(sys.modules, "late", package)
    get = import_when_used("late", {"vetro.lazy_names": "import_when_used again=import_when_used"})
    assert "again" not in vars(package)
    assert get("again") is import_when_used
    assert vars(package)["again"] is import_when_used
    with pytest.raises(AttributeError, match=r"^module 'late' has no attribute 'other'$"):
        get("other")
