"""Which modules rooms show to each other, and what `pyproject.toml` lets the layers ignore."""

import ast
import re
import tomllib
from collections import Counter
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
SOURCES = ROOT / "src"

FACES = {
    "vetro.compute.allocation", "vetro.compute.client", "vetro.compute.wire", "vetro.engine.system",
    "vetro.http.client", "vetro.http.declaration", "vetro.http.endpoint", "vetro.http.parameters",
    "vetro.http.tls", "vetro.stacks.heat",
    "vetro.packages.forms",
}  # fmt: skip
"""Parts of rooms that are faces of their own (docs/architecture.md)."""

LANGUAGE = {"vetro.muranopl": "vetro.yaql"}
"""MuranoPL compiles YAQL into its own code: it builds on the phases of YAQL, not on its face alone."""

EVERYWHERE = {
    "vetro.lazy_names", "vetro.digits", "vetro.ipv6_door", "vetro.json_texts",
    "vetro.json_values", "vetro.log_context", "vetro.random_ids",
}  # fmt: skip
"""Modules that every room may import."""

LAUNCHERS = {"vetro.cli": "vetro.server"}
"""`vetro up` and its kin start the server's parts from the command line."""


def module_of(file: Path) -> str:
    parts = file.relative_to(SOURCES).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


FILES = {module_of(file): file for file in (SOURCES / "vetro").rglob("*.py")}


def imported(module: str) -> list[tuple[str, bool]]:
    """The modules that a module imports, each with whether only type checkers see it."""
    found: list[tuple[str, bool]] = []
    base = module.split(".") if FILES[module].name == "__init__.py" else module.split(".")[:-1]

    def visit(node: ast.AST, typing_only: bool) -> None:
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            for child in node.body:
                visit(child, True)
            return
        if isinstance(node, ast.Import):
            found.extend((item.name, typing_only) for item in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = base[: len(base) - node.level + 1] if node.level else []
            origin = ".".join([*above, *([node.module] if node.module else [])])
            for item in node.names:
                inner = f"{origin}.{item.name}"
                is_module = inner in FILES and not (origin in FILES and binds(origin, item.name))
                found.append((inner if is_module else origin, typing_only))
        for child in ast.iter_child_nodes(node):
            visit(child, typing_only)

    visit(ast.parse(FILES[module].read_text(encoding="utf-8")), False)
    return found


def room_of(module: str) -> str:
    return ".".join(module.split(".")[:2])


def binds(package: str, name: str) -> bool:
    """Whether a package's `__init__` publishes a name that is also a module of it."""
    return any(
        isinstance(node, ast.ImportFrom) and name in {one.asname or one.name for one in node.names}
        for node in ast.walk(ast.parse(FILES[package].read_text(encoding="utf-8")))
    )


def test_rooms_use_each_other_through_their_faces() -> None:
    """No module imports the inside of another room."""
    insides: set[tuple[str, str]] = set()
    for module in FILES:
        for target, _ in imported(module):
            room = room_of(target)
            if target not in FILES or target == room or room == room_of(module):
                continue
            if any(target == face or target.startswith(f"{face}.") for face in FACES):
                continue
            if room in (LANGUAGE.get(room_of(module)), LAUNCHERS.get(room_of(module))):
                continue
            if module != "vetro" and room not in EVERYWHERE:
                insides.add((room_of(module), target))
    assert insides == set(), "use what the room's __init__ publishes"


def contracts() -> list[dict[str, Any]]:
    """The import contracts of pyproject.toml."""
    document = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    return document["tool"]["importlinter"]["contracts"]


def test_every_room_has_a_contract() -> None:
    """For each room, a contract says which rooms it may import; no contract names a room that is gone."""
    rooms = {
        room_of(module) for module, file in FILES.items() if file.parent.parent.name == "vetro"
    }
    named = [contract["room"] for contract in contracts() if contract["type"] == "room"]
    assert sorted(named) == sorted(rooms)


def test_only_documents_may_read_yaml() -> None:
    """The contract that forbids `yaml` names every room but `documents`."""
    (contract,) = [one for one in contracts() if one.get("forbidden_modules") == ["yaml"]]
    rooms = {one["room"] for one in contracts() if one["type"] == "room"}
    assert {*contract["source_modules"], "vetro.documents"} == rooms


def test_a_room_with_many_modules_has_layers() -> None:
    """A room of more than 25 modules has a layers contract over its parts."""
    sizes = Counter(room_of(module) for module in FILES if "migrations" not in module)
    layered = {
        container
        for contract in contracts()
        if contract["type"] == "layers"
        for container in contract["containers"]
    }
    assert {room for room, size in sizes.items() if size > 25} - layered == set()


def test_what_layers_ignore_is_for_type_checkers_only() -> None:
    """Each import that a contract in pyproject.toml ignores stands under TYPE_CHECKING, everywhere."""
    ignored = [
        tuple(item.split(" -> "))
        for contract in contracts()
        if contract["type"] == "layers"
        for item in contract.get("ignore_imports", ())
    ]
    at_run_time = {
        (source, target)
        for source, target in ignored
        if any(found == target and not typing_only for found, typing_only in imported(source))
    }
    assert at_run_time == set()


def test_no_endpoint_executes_statements() -> None:
    """Modules with a table of endpoints, and those about calls, ask the stores of their room."""
    tables: dict[str, list[int]] = {}
    for name, file in FILES.items():
        tree = ast.parse(file.read_text(encoding="utf-8"))
        targets = {
            ast.unparse(target)
            for node in tree.body
            if isinstance(node, ast.Assign)
            for target in node.targets
        }
        if "ENDPOINTS" in targets or name.startswith("vetro.compute.http."):
            tables[name] = [
                node.lineno
                for node in ast.walk(tree)
                if isinstance(node, ast.Call)
                and isinstance(node.func, ast.Attribute)
                and node.func.attr == "execute"
            ]
    assert len(tables) >= 20
    assert {name: lines for name, lines in tables.items() if lines} == {}


def test_rooms_publish_only_what_others_use() -> None:
    """Each name that a room's face imports is used or named from there, or used by the face itself."""
    places = [ROOT / name for name in ("src/vetro", "tests", "tools", "benchmarks")]
    texts = [file.read_text("utf-8") for at in places for file in at.rglob("*.py")]
    # By patterns: the trees of all files took eleven seconds.
    used: set[tuple[str, str]] = set()
    for text in texts:
        for source, names in re.findall(r"^ *from ([\w.]+) import (\([^)]*\)|.+)$", text, re.M):
            used |= {(source, name) for name in re.findall(r"\w+", names)}
        for chain in set(re.findall(r"\w+(?:\.\w+)+", text)):
            words = chain.split(".")
            used |= {(".".join(words[:at]), word) for at, word in enumerate(words) if at}
    texts += [file.read_text("utf-8") for file in (ROOT / "docs").rglob("*.md")]
    said = "".join(texts)
    unused: set[str] = set()
    for module in sorted({room_of(module) for module in FILES} | FACES):
        tree = ast.parse(FILES[module].read_text(encoding="utf-8"))
        if FILES[module].name != "__init__.py" or "__all__" in ast.dump(tree):
            continue
        own = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom) and node.module != "__future__":
                names = {one.asname or one.name for one in node.names} - own
                unused |= {
                    f"{module}.{name}"
                    for name in names
                    if not {(module, name), (module.rpartition(".")[2], name)} & used
                    and f"from {module} import {name}" not in said
                    and f"`{module}.{name}`" not in said
                }
    assert unused == set()
