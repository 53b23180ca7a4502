"""Forms without a user interface."""

from pathlib import Path
from typing import Any

import pytest

from vetro.packages import open_package
from vetro.packages.forms import Form, FormError, load_form

TEXT = """
Version: 2.2
Templates:
  node:
    ?: {type: org.acme.Node}
    host: generateHostname($.main.pattern, $index)
Application:
  ?: {type: org.acme.Farm}
  nodes: repeat($node, $.main.count)
  label: Step 1
Forms:
  - main:
      fields:
        - {name: pattern, type: string, initial: "n#"}
        - {name: count, type: integer, minValue: 1, maxValue: 9, initial: 2}
"""


def form(text: str = TEXT) -> Form:
    """The example's form."""
    return load_form(text, package_name="org.acme.Farm", title="Acme farm")


def build(filled: Form, values: Any, name: str | None = None) -> Any:
    """The object of a form with values by field; others as they are shown."""
    return filled.build(filled.fill(values, name=name), name=name)


def test_the_object_is_built_from_initial_values() -> None:
    """Templates are repeated with their index, objects get ids, texts stay texts."""
    value = build(form(), {})
    assert [node["host"] for node in value["nodes"]] == ["n1", "n2"]
    ids = {value["?"]["id"], *(node["?"]["id"] for node in value["nodes"])}
    assert len(ids) == 3
    assert (value["?"]["type"], value["?"]["name"]) == ("org.acme.Farm", "Farm")
    assert value["label"] == "Step 1"


def test_given_values_replace_initial_ones() -> None:
    """By field or page and field; the application's name can be chosen."""
    value = build(form(), {"count": 1, "main.pattern": "web-#"}, "shop")
    assert [node["host"] for node in value["nodes"]] == ["web-1"]
    assert value["?"]["name"] == "shop"


@pytest.mark.parametrize(
    ("values", "name", "message"),
    [
        ({"cuont": 1}, None, "did you mean count"),
        ({"count": "many"}, None, "whole number"),
        ({"count": 0}, None, "at least 1"),
        ({"count": 10}, None, "at most 9"),
        ({"pattern": ""}, None, "is required"),
        ({}, "a b", "letters, digits"),
    ],
)
def test_wrong_answers_are_explained(values: Any, name: str | None, message: str) -> None:
    """Unknown fields, wrong types, values out of range, bad names."""
    with pytest.raises(FormError, match=message):
        build(form(), values, name)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("Version: 2\n", "Application section is required"),
        ("Version: 3.0\nApplication: {}\n", "not supported"),
        ("- x\n", "must be a map"),
        ("a: [\n", "not YAML"),
        ("Application: {}\nForms: [1]\n", "one page name"),
        ("Application: {}\nForms: [{a: {fields: [{name: x}]}}]\n", "no type"),
    ],
)
def test_wrong_definitions_are_explained(text: str, message: str) -> None:
    """What is wrong with a definition is said when it is loaded."""
    with pytest.raises(FormError, match=message):
        form(text)


CHECKED = r"""
Version: 2.4
Application:
  ?: {type: org.acme.Farm}
Forms:
  - main:
      fields:
        - {name: code, type: string, minLength: 2, maxLength: 4, initial: abc}
        - {name: zone, type: string, max_length: 3, initial: x, errorMessages: {max_length: too long}}
        - {name: mail, type: string, required: false, regexpValidator: '/^\S+@[a-z.]+$/i'}
        - name: even
          type: integer
          initial: 2
          validators:
            - {expr: $ mod 2 = 0, message: must be even}
            - {expr: $ < 100, message: must be small}
            - {expr: {regexpValidator: '^[0-8]+$'}}
        - {name: top, type: integer, initial: $.main.even, maxValue: $.main.even + 1}
        - {name: secret, type: password, required: false}
        - {name: pin, type: password, required: false, validators: [{expr: $.len() = 4}]}
        - {name: spare, type: integer, enabled: $.main.even > 10, initial: 0, minValue: 1}
      validators:
        - {expr: $.main.code != $.main.zone, message: code and zone must differ}
"""


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"code": "a"}, "code: Enter at least 2 characters"),
        ({"code": "abcde"}, "code: Enter at most 4 characters"),
        ({"zone": "abcd"}, "too long"),
        ({"mail": "none"}, "mail: Enter a value that matches"),
        ({"even": 3}, "must be even"),
        ({"even": 101}, "even: must be even; main.even: must be small"),
        ({"even": 90}, r"that matches \^\[0-8\]"),
        ({"top": 4}, "at most 3"),
        ({"secret": "short"}, "7 to 255 characters; .*least one digit; .*least one upper"),
        ({"pin": "12345"}, "does not satisfy"),
        ({"code": "xyz", "zone": "xyz"}, "must differ"),
        ({"code": "a", "even": 3}, "at least 2.*must be even"),
        ({"even": 12}, "spare: .*at least 1"),
    ],
)
def test_lengths_and_validators_are_checked(values: Any, message: str) -> None:
    """Everything that a definition forbids is refused, all of a page at once."""
    with pytest.raises(FormError, match=message) as caught:
        build(form(CHECKED), values)
    assert "short" not in str(caught.value)


def test_answers_that_fit_are_taken() -> None:
    """Empty optional fields and disabled ones are not checked; passwords keep the rules."""
    given = {"mail": "Me@Example.org", "secret": "Abcdef1!", "pin": "1234", "even": 8, "top": 9}
    assert build(form(CHECKED), given)["?"]["type"] == "org.acme.Farm"
    assert build(form(CHECKED), {})["?"]["type"] == "org.acme.Farm"


def test_a_template_that_contains_itself_ends() -> None:
    """Endless templates are refused, not followed."""
    text = "Templates: {t: {a: $t}}\nApplication: {'?': {type: x}, b: $t}\n"
    with pytest.raises(FormError, match="contains itself"):
        build(form(text.replace("$t}", "!yaql '$t'}")), {})


@pytest.mark.parametrize("name", ["ApacheHttpServer", "HelloScript", "TwoTier"])
def test_the_samples_forms_build_their_objects(name: str) -> None:
    """Each sample's form makes an object of its class with the initial values."""
    root = Path(__file__).resolve().parents[3] / "library" / name
    package = open_package(root)
    assert package.ui is not None
    value = build(load_form(package.ui, package_name=package.full_name, title=name), {}, "x")
    assert value["?"]["type"] == package.full_name
    assert value["name"] == "x"
