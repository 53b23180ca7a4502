"""Forms that try to take too much: each ends with an error, soon."""

from typing import Any

import pytest

from vetro.packages.forms import FormError, State, load_form, run_case

DEEP = "Application: " + "[" * 70 + "]" * 70
BOMB = "a: &a [x, x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"{new}: &{new} [{', '.join(['*' + old] * 10)}]\n"
    for old, new in ("ab", "bc", "cd", "de", "ef")
)


@pytest.mark.parametrize(
    ("ui", "text"),
    [
        (DEEP, "nested deeper"),
        (BOMB, "nodes"),
        ("x" * (2**20 + 1), "too large"),
        ("Application: {a: 1}\n? [1]\n: 2\n", ""),
        ("Application: !!python/object:os.system {}\n", "not YAML"),
        ("Application: {a: $t}\nTemplates: {t: {a: $t}}\n", "contains itself"),
        ("Application: {a: !yaql 'repeat($t, 9000)'}\nTemplates: {t: {b: !yaql 'repeat($u, 9000)'}, u: 1}\n",
         "more than 100000 values"),
        ("Application: {a: !yaql \"'x' * 2000000\"}\n", ""),
        ("Application: {a: !yaql 'range(0, 9999).selectMany(range(0, 9999)).len()'}\n", ""),
        ("Application: {a: ref(t)}\nTemplates: {t: {a: ref(t)}}\n", ""),
        ("Application: {a: !yaql '$.__class__'}\n", ""),
    ],
)  # fmt: skip
def test_hostile_definitions_end(ui: str, text: str) -> None:
    """Limits of size, depth, templates and expressions; nothing but an error or an object comes out."""
    outcome = run_case({"ui": ui, "fqn": "a.B"})
    assert set(outcome) in ({"error", "line", "column"}, {"model"})
    assert text in outcome.get("error", "")


@pytest.mark.parametrize(
    "attributes",
    ["regexpValidator: '^(a+)+$'", "regexpValidator: '('", "regexpValidator: '/a/q'",
     "validators: [{expr: {regexpValidator: '('}}]", "maxLength: [1]", "choices: 5, label: [1]"],
)  # fmt: skip
def test_patterns_cannot_hold_up_a_page(attributes: str) -> None:
    """Patterns that backtrack end, wrong ones are errors of their field, odd attributes do nothing."""
    field = f"{{name: x, type: string, {attributes}}}"
    ui = f"Version: 2.1\nApplication: {{}}\nForms: [{{p: {{fields: [{field}]}}}}]\n"
    outcome = run_case({"ui": ui, "fqn": "a.B", "data": {"p": {"x": "a" * 3000 + "!"}}})
    assert "model" in outcome or list(outcome["errors"]) == ["x"]
    form = load_form(ui, package_name="a.B", title="")
    assert form.describe()["pages"][0]["fields"][0]["name"] == "x"


@pytest.mark.parametrize(
    "raw", [None, True, 5, 1.5, "x", "\x00", [], [1], {}, {"a": [1]}, "((((", "9" * 400]
)
@pytest.mark.parametrize(
    "type_", ["string", "integer", "boolean", "password", "choice", "flavor", "network", "image",
              "databaselist", "clusterip", "table", "instance", "a.B", "keypair"],
)  # fmt: skip
def test_any_value_is_taken_or_refused(type_: str, raw: Any) -> None:
    """No raw value makes a field fail otherwise than by an error text."""
    field = f"{{name: x, type: {type_}}}"
    ui = f"Version: 2.1\nApplication: {{v: $.p.x}}\nForms: [{{p: {{fields: [{field}]}}}}]\n"
    outcome = run_case({"ui": ui, "fqn": "a.B", "data": {"p": {"x": raw}}})
    assert "model" in outcome or list(outcome["errors"]) == ["x"]


def test_markup_stays_text() -> None:
    """Texts of tenants are passed on as they are, and the form says that they are plain."""
    ui = "Version: 2.1\nApplication: {}\nForms: [{p: {fields: [{name: x, type: string, label: '<b>&'}]}}]\n"
    described = load_form(ui, package_name="a.B", title="<i>").describe()
    assert described["texts"] == "plain"
    assert described["pages"][0]["fields"][0]["label"] == "<b>&"


def test_a_state_of_another_form_is_refused() -> None:
    """Anything but a state is an error, and values of unknown pages are not used."""
    form = load_form("Version: 2.1\nApplication: {}\n", package_name="a.B", title="")
    with pytest.raises(FormError, match="is a map"):
        State.of_json([])
    assert "?" not in form.build(State({"other": {"x": 1}}))
