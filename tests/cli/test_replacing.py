"""What is replaced is replaced by one call of the service, in the command and in the dashboard.

A client that deletes first and creates then loses what there was when it is refused, or ends, in between.
"""

from __future__ import annotations

import ast
import re
from pathlib import Path

import vetro.cli

CLI = Path(vetro.cli.__file__).parent
DASHBOARD = Path(__file__).parents[2] / "dashboard" / "src"
#: Calls of the command that take something away, and those that make something.
TAKES = re.compile(r"(remove|destroy|delete|drop|withdraw)(_\w+)?")
MAKES = re.compile(r"(create|add|new|upload|import|put|set|change|replace)(_\w+)?")
#: Files in which both are near each other, and why nothing is replaced there.
EXPLAINED = {
    "areas/administration/queries.ts": "they take or give what they are asked to",
    "areas/packages/queries.ts": "a package is deleted by one function, and added by another",
    "areas/machines/queries.ts": "they destroy or start an instance, or take or delete a snapshot, as asked",
    "areas/composer/wizard.tsx": "what a wizard keeps of its form is forgotten after it has delivered",
    "areas/templates/page.tsx": "a component is taken out; the calls after it belong to other dialogs",
}


def requests_of(function: ast.AST) -> list[tuple[int, str]]:
    """The lines of a function that ask the service for something to go ("takes") or to be made ("makes")."""
    found: list[tuple[int, str]] = []
    for node in ast.walk(function):
        if not isinstance(node, ast.Call):
            continue
        called = node.func
        name = called.attr if isinstance(called, ast.Attribute) else getattr(called, "id", "")
        first = node.args[0] if node.args else None
        method = first.value if isinstance(first, ast.Constant) else None
        if name in ("request", "answer"):
            if method == "DELETE":
                found.append((node.lineno, "takes"))
            elif method in ("POST", "PUT", "PATCH"):
                found.append((node.lineno, "makes"))
        elif name in ("send", "answer_to") and isinstance(first, ast.Call):
            asked = first.func
            what = asked.attr if isinstance(asked, ast.Attribute) else getattr(asked, "id", "")
            if TAKES.fullmatch(what):
                found.append((node.lineno, "takes"))
            elif MAKES.fullmatch(what):
                found.append((node.lineno, "makes"))
        elif MAKES.fullmatch(name) and isinstance(first, ast.Name) and first.id == "connection":
            found.append((node.lineno, "makes"))
    return sorted(found)


def deletes_before_it_creates(found: list[tuple[int, str]]) -> bool:
    """Whether something is taken away before something is made."""
    taken = [line for line, what in found if what == "takes"]
    return bool(taken) and any(line > taken[0] and what == "makes" for line, what in found)


def test_a_command_that_deletes_first_and_creates_then_would_be_found() -> None:
    """The rule of the next test sees the replacement of a package as it once was."""
    text = """
def replace_package(connection, existing, name, content):
    connection.request("DELETE", path)
    return upload_archive(connection, name, content)

def other(connection):
    connection.send(PORTS.remove(one))
    connection.send(PORTS.create(two))

def right(connection):
    made = connection.request("POST", path)
    connection.request("DELETE", made)
"""
    functions = [one for one in ast.parse(text).body if isinstance(one, ast.FunctionDef)]
    assert [deletes_before_it_creates(requests_of(one)) for one in functions] == [True, True, False]


def test_no_command_deletes_first_and_creates_then() -> None:
    """In no function of the command a request that makes something follows one that takes something away."""
    wrong: list[str] = []
    seen = 0
    for file in sorted(CLI.rglob("*.py")):
        for node in ast.walk(ast.parse(file.read_text("utf-8"))):
            if isinstance(node, ast.FunctionDef):
                found = requests_of(node)
                seen += sum(what == "takes" for _, what in found)
                if deletes_before_it_creates(found):
                    wrong.append(f"{file.relative_to(CLI)} {node.name}")
    assert seen >= 15
    assert wrong == []


#: Where a function begins that asks a service for something.
BEGINS = re.compile(r"\basync\b|\brun\(")
ASKS = re.compile(r"\bDELETE\b|\bPOST\b|\bPUT\b|\bPATCH\b|\bupload[<(]")


def test_no_page_of_the_dashboard_deletes_first_and_creates_then() -> None:
    """The same for each function of the dashboard that asks a service."""
    wrong: set[str] = set()
    seen = 0
    for file in sorted((*DASHBOARD.rglob("*.ts"), *DASHBOARD.rglob("*.tsx"))):
        for part in BEGINS.split(file.read_text("utf-8")):
            asked = ASKS.findall(part)
            if "DELETE" in asked:
                seen += 1
                if any(one != "DELETE" for one in asked[asked.index("DELETE") :]):
                    wrong.add(str(file.relative_to(DASHBOARD)))
    assert seen >= 10
    assert wrong == set(EXPLAINED)
