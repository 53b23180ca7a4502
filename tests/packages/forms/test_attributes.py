"""Attributes of fields as tables of cases (packages-and-forms.md B1, B3, B4)."""

from typing import Any

import pytest

from vetro.packages.forms import Offers, load_form, run_case

Json = dict[str, Any]
REQUIRED = ["This field is required"]


def field(attributes: str, raw: Any = ..., **case: Any) -> Any:
    """The value of a field, or its errors; a field ``first`` (integer, 1) stands before it."""
    ui = (
        "Version: 2.1\nApplication: {v: $.p.x}\nForms:\n- p:\n    fields:\n"
        "    - {name: first, type: integer, required: false}\n"
        f"    - {{name: x, {attributes}}}\n- later:\n"
    )
    data: Json = {"first": "1"} if raw is ... else {"first": "1", "x": raw}
    outcome = run_case({"ui": ui, "fqn": "a.B", "data": {"p": data}, **case})
    if "model" in outcome:
        return outcome["model"]["v"]
    return outcome.get("errors", {}).get("x", outcome)


@pytest.mark.parametrize(
    ("attributes", "raw", "value"),
    [
        ("required: $.p.first = 1", "", REQUIRED),
        ("required: $.p.first = 2", "", ""),
        ("required: $.later.none", "", ""),
        ("required: $.p.none", "", ""),
        ("required: null", "", REQUIRED),
        ("required: true", "  ", REQUIRED),
        ("required: false", "  ", "  "),
        ("enabled: $.p.none", "", ""),
        ("enabled: null", "", REQUIRED),
        ("minLength: '3'", "ab", ["Enter at least 3 characters"]),
        ("minLength: $.p.first + 2", "ab", ["Enter at least 3 characters"]),
        ("validators: [{expr: {regexpValidator: !yaql \"'^' + str($.p.first)\"}, message: m}]", "2", ["m"]),
        ("validators: [{expr: {regexpValidator: $.later.none}, message: m}]", "2", "2"),
        ("validators: [{expr: $ = a, message: $.p.first}]", "2", ["1"]),
        ("validators: [{expr: $ = a, message: non-empty}]", "2", ["non-empty"]),
        ("validators: [{expr: $ = a, message: (one only)}]", "2", ["(one only)"]),
    ],
)  # fmt: skip
def test_attributes_of_a_string(attributes: str, raw: str, value: Any) -> None:
    """What an expression says no to by null is no; text that is an expression by accident is text."""
    assert field(f"type: string, {attributes}", raw) == value


@pytest.mark.parametrize(
    ("attributes", "raw", "value"),
    [
        ("type: integer, minValue: 2.5", "2", ["Enter a number of at least 2.5"]),
        ("type: integer, maxValue: '2'", "3", ["Enter a number of at most 2"]),
        ("type: choice, required: false, choices: [[null, None], [b, B]]", None, None),
        ("type: choice, required: false, choices: [['', None], [b, B]]", None, ""),
        ("type: choice, choices: {my-app: B}", "my-app", "my-app"),
        ("type: choice, choices: [[$.p.first, A]]", "1", 1),
        ("type: network, required: false", "", [None, None]),
        ("type: network, required: false", None, [None, None]),
        ("type: network, enabled: false", ..., [None, None]),
        ("type: network, errorMessages: {required: pick}", "", ["pick"]),
        ("type: network", "(u'n', u's')", ["n", "s"]),
        ("type: password, confirmInput: false, errorMessages: {invalid: weak}", "abc", ["weak"]),
        ("type: io.my-org.Db", "d", "d"),
    ],
)  # fmt: skip
def test_attributes_of_other_types(attributes: str, raw: Any, value: Any) -> None:
    """Limits, choices, networks and messages."""
    assert field(attributes, raw) == value


@pytest.mark.parametrize(
    ("kind", "type_"),
    [
        ("keypairs", "keypair"), ("azones", "azone"), ("volumes", "volume"), ("dns_zones", "zone"),
        ("security_groups", "securitygroup"),
    ],
)  # fmt: skip
def test_what_a_platform_lacks_never_holds_up_a_form(kind: str, type_: str) -> None:
    """B4: required fields are required where there is something to choose."""
    some: Any = {kind: [["a", "a"], ["b", "b"]]}
    assert field(f"type: {type_}, required: true", "", environment=some) == REQUIRED
    assert field(f"type: {type_}, required: true", "", environment={kind: []}) == ""
    assert field(f"type: {type_}, required: false", "", environment=some) == ""
    expected = "" if type_ == "securitygroup" else REQUIRED  # the first choice is a good one
    assert field(f"type: {type_}", "", environment=some) == expected


def test_an_answer_fills_in_both_inputs_of_a_password() -> None:
    """``answers`` are by field; ``data`` is by input."""
    answers = {"x": "Abcdef1!"}
    assert field("type: password", answers=answers) == "Abcdef1!"
    assert field("type: password", "Abcdef1!", answers=answers) == "Abcdef1!"
    assert field("type: password", "Abcdef2!", answers=answers) == ["Xs don't match"]
    assert field("type: password", "Abcdef1!") == ["Xs don't match"]


def test_names_and_texts_with_dashes_are_not_expressions() -> None:
    """B1: names are names; texts for people are evaluated only where they are meant to be."""
    ui = (
        "Version: 2.1\nApplication: {v: !yaql '$.get(\"my-page\").get(\"my-field\")', t: !yaql '$t'}\n"
        "Templates: {my-node: 1, t: 2}\nForms:\n- my-page:\n    fields:\n"
        "    - {name: my-field, type: string, label: Auto-scaling, helpText: '$.a', description: $.none}\n"
        '    - {name: on, type: boolean, label: !yaql "concat(a, b)", description: Yes=No}\n'
    )
    outcome = run_case({"ui": ui, "fqn": "a.B", "data": {"my-page": {"my-field": "v"}}})
    assert outcome == {"model": {"v": "v", "t": 2}}
    page = load_form(ui, package_name="a.B", title="").describe()["pages"][0]
    first, second = page["fields"]
    assert (page["name"], first["name"]) == ("my-page", "my-field")
    assert (first["label"], first["help_text"], first["description"]) == (
        "Auto-scaling",
        "$.a",
        None,
    )
    assert (second["label"], second["description"]) == ("ab", "Yes=No")


@pytest.mark.parametrize("header", ["'?'", "?", '"?"'])
def test_headers_in_braces_are_headers(header: str) -> None:
    """A question mark in braces is the key of the header, though to YAML 1.1 it is an empty key."""
    ui = f"Version: 2.1\nApplication: {{{header}: {{type: T}}, a: {{b: 1, {header}: {{type: N}}}}}}\n"
    model = run_case({"ui": ui, "fqn": "a.B"})["model"]
    assert (model["?"]["type"], model["a"]["?"]["type"]) == ("T", "N")
    assert model["?"]["id"] != model["a"]["?"]["id"]
    assert field("type: choice, choices: {null: None, b: B}, required: false", None) is None


def test_what_is_required_here_is_shown() -> None:
    """A front end marks a field as required where an empty value is refused."""
    ui = "Version: 2.1\nApplication: {}\nForms: [{p: {fields: [{name: k, type: keypair}]}}]\n"
    form = load_form(ui, package_name="a.B", title="")

    def shown(keypairs: Any) -> Any:
        described = form.describe(None, Offers({"keypairs": keypairs}))["pages"][0]["fields"][0]
        return described["required"], described["placeholder"]

    assert shown([["a", "a"]]) == (True, None)
    assert shown([]) == (False, "Optional")
    off = "Version: 2.1\nApplication: {}\nForms: [{p: {fields: [{name: a, type: string, visible: false}]}}]\n"
    page = load_form(off, package_name="a.B", title="").describe()["pages"][0]
    assert page["fields"][0]["required"] is False
