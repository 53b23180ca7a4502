"""Forms generated from the schema of a class."""

from typing import Any

import pytest

from vetro.packages.forms import Component, Offers, PageInvalid, generated_form, load_form

OBJECT = {"type": ["muranoObject", "null"], "muranoType": "org.acme.Db"}
SERVER = {"type": "muranoObject", "muranoType": "io.murano.resources.Instance"}
SCHEMA: dict[str, Any] = {
    "properties": {
        "name": {"type": "string"},
        "port": {"type": "integer", "minimum": 0, "exclusiveMinimum": True, "maximum": 9, "default": 8,
                 "title": "Port", "description": "Where it: listens # always"},
        "mode": {"type": ["string", "null"], "enum": ["fast", "safe", None]},
        "adminPassword": {"type": "string"},
        "note": {"type": ["string", "null"], "pattern": "^[a-z]*$", "formSection": "more"},
        "isOpen": {"type": "boolean", "default": True},
        "database": OBJECT,
        "tags": {"type": "array", "items": {"type": "string"}},
        "ports": {"type": ["array", "null"], "items": {"type": "integer"}},
        "labels": {"type": "object", "additionalProperties": {"type": "string"}, "default": {"a": "b=c"}},
        "server": SERVER,
        "nodes": {"type": "array", "items": SERVER, "minItems": 2},
        "inner": {"type": "string", "visible": False},
    },
    "formSections": {"more": {"title": "More", "index": 0}},
}  # fmt: skip
OFFERS = Offers(
    {"flavors": [["m1.small", "m1.small"]], "images": [["i1", "Debian"]], "keypairs": []},
    [Component("d1", "db", "org.acme.Db")],
)


def form() -> Any:
    text = generated_form(SCHEMA, class_name="org.acme.App", version="1.2.0")
    return load_form(text, package_name="org.acme.App", title="App")


def test_a_class_gets_a_form_that_makes_its_object() -> None:
    """Every kind of input becomes fields, and their values an object of the class."""
    filled = form()
    assert [page.name for page in filled.pages] == ["main", "more", "workflowManagement"]
    values = {"adminPassword": "x", "tags": "one\n two \n", "nodes": "2", "database": "d1"}
    model = filled.build(filled.fill(values, OFFERS, name="shop"), OFFERS)
    assert (model["?"]["type"], model["?"]["classVersion"]) == ("org.acme.App", "1.2.0")
    assert (model["name"], model["port"], model["mode"], model["isOpen"]) == ("shop", 8, None, True)
    assert (model["adminPassword"], model["note"], model["database"]) == ("x", None, "d1")
    assert (model["tags"], model["ports"], model["labels"]) == (["one", "two"], [], {"a": "b=c"})
    assert [one["name"] for one in model["nodes"]] == ["nodes1", "nodes2"]
    assert model["server"]["?"]["type"] == "io.murano.resources.LinuxMuranoInstance"
    assert (model["server"]["flavor"], model["server"]["image"]) == ("m1.small", "i1")
    assert model["server"]["keyname"] is None
    assert "inner" not in model


@pytest.mark.parametrize(
    ("values", "field"),
    [
        ({"port": 0}, "port"), ({"port": 10}, "port"), ({"mode": "slow"}, "mode"),
        ({"adminPassword": ""}, "adminPassword"), ({"note": "A"}, "note"), ({"nodes": 1}, "nodes"),
        ({"tags": ""}, "tags"), ({"database": "none"}, "database"), ({"ports": "x"}, None),
    ],
)  # fmt: skip
def test_contracts_refuse_values(values: dict[str, Any], field: str | None) -> None:
    """What the class would refuse, its form refuses first."""
    filled = form()
    given = {"adminPassword": "x", "tags": "one", "nodes": 2, **values}
    if field is None:
        with pytest.raises(Exception, match="ports"):
            filled.build(filled.fill(given, OFFERS), OFFERS)
        return
    with pytest.raises(PageInvalid) as caught:
        filled.fill(given, OFFERS)
    assert list(caught.value.errors) == [field]


def test_labels_and_descriptions_come_from_the_class() -> None:
    """Titles and descriptions as written; names without them in words."""
    fields = {one["name"]: one for one in form().describe(None, OFFERS)["pages"][0]["fields"]}
    assert (fields["port"]["label"], fields["port"]["description"]) == (
        "Port",
        "Where it: listens # always",
    )
    assert fields["adminPassword"]["label"] == "Admin password"
    assert fields["database"]["classes"] == ["org.acme.Db"]


def test_a_class_without_inputs_has_an_empty_form() -> None:
    """Only the application's name is asked for."""
    text = generated_form({}, class_name="a.B")
    made = load_form(text, package_name="a.B", title="B")
    assert made.build(made.fill({}))["?"]["name"] == "B"
