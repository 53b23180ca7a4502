"""A form filled in on a terminal: what is missing is asked for."""

from typing import Any

import click
import pytest
from click.testing import CliRunner

from vetro.cli.catalog.forms import Wizard
from vetro.cli.terminal import confirmation as choices
from vetro.packages.forms import Component, Form, Offers, PageInvalid, State, load_form

FORM = """
Application: {size: $.p.size, mode: $.p.mode, secret: $.p.secret, open: $.p.open}
Forms:
- p:
    fields:
    - {name: size, type: integer, maxValue: 3, description: How many}
    - {name: mode, type: choice, choices: [[a, Fast], [b, Safe]], required: false}
    - {name: secret, type: password}
    - {name: open, type: boolean}
- q: {fields: [{name: size, type: integer, initial: 1, maxValue: 5}]}
"""


class Answer:
    def __init__(self, value: Any) -> None:
        self.value = value

    def json(self) -> Any:
        return self.value


class Service:
    """The wizard calls of a service, on the library they serve."""

    def __init__(self, text: str = FORM, offers: Offers | None = None) -> None:
        self.offers = offers or Offers()
        self.form: Form = load_form(text, package_name="org.acme.App", title="App")
        self.state: State = self.form.begin()
        self.calls: list[str] = []

    def request(self, method: str, path: str, json: Any = None, headers: Any = None) -> Answer:
        self.calls.append(f"{method} {path}")
        if path == "/v1/wizards":
            described = self.form.describe(self.state, self.offers)
            return Answer({"id": "w", "package": {"name": "App"}, "form": described})
        if path.endswith("/build"):
            return Answer({"model": self.form.build(self.state, self.offers)})
        if method == "DELETE":
            return Answer(None)
        page, errors = path.rsplit("/", 1)[-1], {}
        try:
            self.form.submit(page, json["values"], self.state, self.offers)
        except PageInvalid as error:
            errors = error.errors
        shown = self.form.describe_page(page, self.state, self.offers)
        return Answer({"valid": not errors, "errors": errors, "page": shown})


def run(
    settings: dict[str, Any],
    typed: str = "",
    name: str | None = None,
    service: Service | None = None,
) -> tuple[Any, Service]:
    service = service or Service()

    @click.command()
    def fill() -> None:
        with Wizard(service, {"id": "x"}, None, None) as wizard:  # type: ignore[arg-type]
            wizard.fill(wizard.place(settings, name))
            click.echo(repr(wizard.build()))

    return CliRunner().invoke(fill, input=typed), service


def test_what_is_missing_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only refused fields; an answer that is refused too is asked for again."""
    monkeypatch.setattr(choices, "is_watched", lambda: True)
    done, service = run({"mode": "b"}, "9\nAbcdef1!\nAbcdef1!\n3\n")
    assert done.exit_code == 0, done.output
    assert "'size': 3" in done.stdout
    assert "'mode': 'b'" in done.stdout
    assert "How many" in done.stderr
    assert "Enter a number of at most 3" in done.stderr
    assert "Fast" not in done.stderr
    assert service.calls[-1] == "DELETE /v1/wizards/w"


def test_what_was_refused_is_not_proposed_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """The answer of return alone is what the form proposes, not the mistake."""
    monkeypatch.setattr(choices, "is_watched", lambda: True)
    given = {"p.size": 1, "mode": "a", "secret": "Abcdef1!", "q.size": 7}
    done, _ = run(given, "eight\n\n")
    assert "not one of the values" not in done.stderr
    assert done.exit_code == 0, done.output
    assert "Size [1]" in done.stderr
    assert "7" not in done.stderr


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        ({}, "p.size: this field is required; p.secret: this field is required"),
        ({"p.size": 1, "secret": "short"}, "p.secret: enter 7 to 255 characters"),
        ({"sise": 1}, "did you mean size?"),
        ({"none": 1}, "fields: size, mode"),
        ({"size": 1}, "Several pages have a field size: p.size, q.size"),
    ],
)
def test_without_a_terminal_the_command_says_what_is_missing(settings: Any, text: str) -> None:
    """Nobody is asked; the wizard is forgotten."""
    done, service = run(settings)
    assert done.exit_code == 1
    assert text in done.stderr
    assert service.calls[-1] == "DELETE /v1/wizards/w"


def test_a_password_is_confirmed_by_setting_it() -> None:
    """One --set gives both inputs, and the name goes to the page that asks for it."""
    done, _ = run({"p.size": 1, "secret": "Abcdef1!", "open": True}, name="shop")
    assert done.exit_code == 0, done.output
    assert "'open': True" in done.stdout


SEVERAL = """
Application: {dbs: $.p.dbs}
Forms:
- p: {fields: [{name: dbs, type: org.acme.Db, multiple: true, required: true, minValue: 2}]}
"""


def shelf() -> Service:
    """A form for several components, of which there are three."""
    found = [Component(f"id{one}", f"db {one}", "org.acme.Db") for one in (1, 2, 3)]
    return Service(SEVERAL, Offers(components=found))


def test_several_components_are_asked_for_by_numbers_or_names(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """In the order of the answer; too few are refused, and asked for again."""
    monkeypatch.setattr(choices, "is_watched", lambda: True)
    done, _ = run({}, "3\ndb 2, 1\n", service=shelf())
    assert done.exit_code == 0, done.output
    assert "'dbs': ['id2', 'id1']" in done.stdout
    assert "1  db 1" in done.stderr
    assert "Choose at least 2 components" in done.stderr


@pytest.mark.parametrize("given", ["id3, db 1", ["id3", "id1"]])
def test_several_components_are_set_with_commas_or_as_json(given: Any) -> None:
    """`--set dbs=id3,id1` and `--set 'dbs=["id3", "id1"]'` are the same."""
    done, _ = run({"dbs": given}, service=shelf())
    assert done.exit_code == 0, done.output
    assert "'dbs': ['id3', 'id1']" in done.stdout
