"""What forms themselves say, in other languages than English."""

import ast
import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import vetro.packages.forms
from vetro.packages.forms import generated_form, load_form
from vetro.packages.forms.phrases import PHRASES, all_in_language, in_language
from vetro.packages.forms.vocabulary import PASSWORD_RULES

ROOM = Path(vetro.packages.forms.__file__).parent
#: What says something to people: the place of the text among the arguments.
SAYING = {"Refused": 0, "said": 1, "_each": 1, "_help": 1, "in_language": 0, "translations": 1}


def texts_of(node: ast.expr) -> list[str]:
    """The texts that an expression may be, ``x`` for what is said in them."""
    if isinstance(node, ast.Constant):
        return [node.value] if isinstance(node.value, str) and node.value else []
    if isinstance(node, ast.JoinedStr):
        parts = [str(one.value) if isinstance(one, ast.Constant) else "x" for one in node.values]
        return ["".join(parts)]
    if isinstance(node, ast.IfExp):
        return texts_of(node.body) + texts_of(node.orelse)
    if isinstance(node, ast.BinOp):
        pairs = itertools.product(texts_of(node.left), texts_of(node.right))
        return [left + right for left, right in pairs]
    return []


def said_in(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Call):
            name = getattr(node.func, "attr", getattr(node.func, "id", ""))
            place = SAYING.get(name)
            if place is not None and len(node.args) > place:
                yield from texts_of(node.args[place])
        elif isinstance(node, ast.Yield) and isinstance(node.value, ast.JoinedStr):
            yield from texts_of(node.value)


#: What is the same word in a language as in English.
SAME = {"de": ["Optional"]}


@pytest.mark.parametrize("language", PHRASES)
def test_everything_that_a_form_says_has_a_translation(language: str) -> None:
    """Each text that the room's modules give to people is one that every language has."""
    said = {text for path in ROOM.glob("*.py") for text in said_in(path)}
    said |= {text for _, text in PASSWORD_RULES}
    assert len(said) > 30
    # A text that is a translation of itself looks as if it had none.
    assert sorted(text for text in said if in_language(text, language) == text) == SAME[language]


def test_what_is_said_in_a_text_stays_as_it_is() -> None:
    """Values, names and braces of people are kept; other languages and other texts are untouched."""
    given = "{0} is not one of the values to choose; did you mean Optional?"
    there = "{0} ist keiner der Werte zur Auswahl; meinten Sie Optional?"
    assert all_in_language({"a": [given, "Of an author"]}, "de-AT") == {
        "a": [there, "Of an author"]
    }
    assert in_language("There is no image x; there are none yet", "DE") == (
        "Nicht gefunden: image x; es gibt noch keine"
    )
    for language in ("", "en", "fr", "../de"):
        assert in_language(given, language) == given


def test_a_form_is_described_in_a_language() -> None:
    """Titles of pages, helps, empty choices and the application's name; not what an author wrote."""
    schema: dict[str, Any] = {
        "properties": {
            "tags": {"type": "array", "items": {"type": "string"}},
            "mode": {"type": ["string", "null"], "enum": ["fast", None], "title": "Optional"},
        }
    }
    form = load_form(generated_form(schema, class_name="a.B"), package_name="a.B", title="B")
    shown = form.describe(language="de")["pages"]
    tags, mode = shown[0]["fields"]
    assert [one["title"] for one in shown] == ["Schritt 1", "Schritt 2"]
    assert (tags["help_text"], tags["placeholder"]) == ("Eins je Zeile", "Optional")
    assert (mode["label"], mode["choices"][0]["label"]) == ("Optional", "(keine)")
    assert shown[1]["fields"][0]["label"] == "Name der Anwendung"
    english = form.describe()["pages"]
    assert english[0]["title"] == "Step 1"
    assert english[0]["fields"][0]["help_text"] == "One a line"
