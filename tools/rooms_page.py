"""docs/rooms.md: a picture of the rooms and of who imports whom, made from the imports of the code."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

SOURCE = Path(__file__).resolve().parent.parent / "src" / "vetro"


def rooms() -> dict[str, str]:
    """The name of each room with the first line of its docstring."""
    found: dict[str, str] = {}
    for init in sorted(SOURCE.glob("*/__init__.py")):
        text = ast.get_docstring(ast.parse(init.read_text(encoding="utf-8"))) or ""
        found[init.parent.name] = text.split("\n\n")[0].replace("\n", " ").strip()
    return found


def imported(tree: ast.AST) -> Iterator[str]:
    """The modules that a file imports when it runs, wherever in it; not those for types only."""
    pending: list[ast.AST] = [tree]
    while pending:
        node = pending.pop()
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            pending += node.orelse
            continue
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module is not None and not node.level:
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
        pending += ast.iter_child_nodes(node)


def arrows(names: set[str]) -> dict[str, set[str]]:
    """For each room, the rooms that it imports."""
    found: dict[str, set[str]] = {name: set() for name in names}
    for name in names:
        for path in (SOURCE / name).rglob("*.py"):
            for module in imported(ast.parse(path.read_text(encoding="utf-8"))):
                parts = module.split(".")
                if parts[0] == "vetro" and len(parts) > 1 and parts[1] in names - {name}:
                    found[name].add(parts[1])
    return found


def reachable(graph: dict[str, set[str]], start: str) -> set[str]:
    """Every room that ``start`` needs, directly or through others."""
    seen: set[str] = set()
    pending = list(graph[start])
    while pending:
        room = pending.pop()
        if room not in seen:
            seen.add(room)
            pending += graph[room]
    return seen


def page() -> str:
    """The text of docs/rooms.md."""
    about = rooms()
    graph = arrows(set(about))
    lines = [
        "# Rooms",
        "",
        "Written by `make docs` from the imports of the code. An arrow points at what a room imports; an "
        "arrow that follows from others is left out of the picture, not of the table.",
        "",
        "```mermaid",
        "graph TD",
    ]
    for room in sorted(graph):
        implied = {far for near in graph[room] for far in reachable(graph, near)}
        direct = sorted(graph[room] - implied)
        lines += [f"  {room} --> {other}" for other in direct] or [f"  {room}"]
    lines += ["```", "", "| room | what it is | imports |", "|---|---|---|"]
    for room, text in about.items():
        lines.append(f"| `{room}` | {text} | {', '.join(sorted(graph[room])) or '-'} |")
    return "\n".join(lines) + "\n"
