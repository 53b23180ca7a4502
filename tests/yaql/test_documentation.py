"""The pages about the language say what is so: each line of their examples is run."""

from __future__ import annotations

import builtins
import json
import re
from pathlib import Path
from typing import Any

import pytest

from vetro.yaql import compile, legacy_names
from vetro.yaql.standard import AREAS

DOCS = Path(__file__).parents[2] / "docs"
PAGE = DOCS / "language/yaql.md"
_FENCE = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def blocks(language: str, pages: list[Path]) -> list[Any]:
    """The fenced blocks of a language, each with the page and line it begins at."""
    found: list[Any] = []
    for page in pages:
        text = page.read_text(encoding="utf-8")
        for match in _FENCE.finditer(text):
            if match[1] == language:
                line = text.count("\n", 0, match.start()) + 2
                found.append(pytest.param(match[2], id=f"{page.name}:{line}"))
    return found


def names_of(error: BaseException) -> set[str]:
    """The names a program may catch."""
    return {type(error).__name__, *(name.rpartition(".")[2] for name in legacy_names(error))}


@pytest.mark.parametrize("block", blocks("yaql", sorted(DOCS.rglob("*.md"))))
def test_expressions(block: str) -> None:
    """`expression  -> result`: the expression has that result, or fails under that name."""
    data: Any = None
    flavour = "current"
    for line in block.splitlines():
        setting = re.match(r"# (data|flavour): (.*)", line)
        if setting is not None:
            if setting[1] == "data":
                data = json.loads(setting[2])
            else:
                flavour = setting[2]
            continue
        if not line.strip():
            continue
        text, separator, expected = line.rpartition("  -> ")
        assert separator, f"no result: {line}"
        try:
            result = compile(text, flavour=flavour).evaluate(data)
        except Exception as error:
            assert expected.startswith("error "), f"{line}: {error!r}"
            assert expected.removeprefix("error ") in names_of(error), line
        else:
            assert json.dumps(result) == json.dumps(json.loads(expected)), line


@pytest.mark.parametrize("block", blocks("python", [PAGE]))
def test_python(block: str) -> None:
    """The examples of embedding run, and what they assert holds."""
    code = builtins.compile(block, str(PAGE), "exec", dont_inherit=True)
    exec(code, {"__name__": __name__})


def test_every_name_is_on_the_page() -> None:
    """The page names each function of the library."""
    words = set(re.findall(r"\w+", PAGE.read_text(encoding="utf-8")))
    names = {name.rpartition("#")[2] for text in AREAS.values() for name in text.split()}
    assert names - words == set()
