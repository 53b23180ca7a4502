"""Forms generated from the schema of a class."""

from typing import Any

import pytest

from vetro.packages.forms import (
    Component,
    FormError,
    Offers,
    PageInvalid,
    generated_form,
    load_form,
    owned_classes,
)

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
        ({"database": "none"}, "database"), ({"ports": "80\nx"}, "ports"), ({"labels": "a"}, "labels"),
    ],
)  # fmt: skip
def test_contracts_refuse_values(values: dict[str, Any], field: str) -> None:
    """What the class would refuse, its form refuses first."""
    filled = form()
    given = {"adminPassword": "x", "nodes": 2, **values}
    with pytest.raises(PageInvalid) as caught:
        filled.fill(given, OFFERS)
    assert list(caught.value.errors) == [field]


PARTNERS = {"type": "array", "items": {"type": "muranoObject", "muranoType": "org.acme.Db"}}
THREE = Offers(components=[Component(f"d{one}", f"db {one}", "org.acme.Db") for one in (1, 2, 3)])


def partners(schema: dict[str, Any], raw: Any, offers: Offers = THREE) -> Any:
    """What a form for a list of components makes of a value; the errors where it is refused."""
    text = generated_form({"properties": {"partners": schema}}, class_name="org.acme.App")
    filled = load_form(text, package_name="org.acme.App", title="App")
    try:
        return filled.build(filled.fill({} if raw is ... else {"partners": raw}, offers), offers)[
            "partners"
        ]
    except PageInvalid as error:
        return error.errors["partners"]


@pytest.mark.parametrize(
    ("bounds", "raw", "made"),
    [
        ({}, ["d3", "d1"], ["d3", "d1"]),
        ({}, ["db 2", "d2", "d1"], ["d2", "d1"]),
        ({}, "db 3, d1", ["d3", "d1"]),
        ({}, "d2", ["d2"]),
        ({}, "", []),
        ({}, None, []),
        ({}, [], []),
        ({}, ..., []),
        ({"minItems": 1}, [], ["This field is required"]),
        ({"minItems": 2}, ["d1"], ["Choose at least 2 components"]),
        ({"minItems": 2}, ["d2", "d1"], ["d2", "d1"]),
        ({"maxItems": 1}, ["d2", "d1"], ["Choose at most 1 components"]),
        ({}, ["d1", "db 4"], ["db 4 is not one of the values to choose"]),
        ({}, [{"a": 1}], ["Choose one of the values"]),
        ({}, {"a": 1}, ["Choose one of the values"]),
        ({}, ["d1"] * 1001, ["Choose at most 1000 components"]),
    ],
)  # fmt: skip
def test_a_list_of_a_class_takes_several_components_in_their_order(
    bounds: dict[str, int], raw: Any, made: list[str]
) -> None:
    """As ids or names, as a list or with commas; each once, within the bounds of the contract."""
    found = partners({**PARTNERS, **bounds}, raw)
    assert [one.partition(";")[0] for one in found] == made


def test_a_component_whose_name_has_a_comma_is_one() -> None:
    """A text is divided only where no component is called so."""
    named = Offers(components=[Component("d1", "a, b", "org.acme.Db")])
    assert partners(PARTNERS, "a, b", named) == ["d1"]


@pytest.mark.parametrize(("least", "value"), [(0, []), (1, ["d1"])])
def test_the_only_component_is_proposed_where_one_is_required(least: int, value: list[str]) -> None:
    """A list that may be empty proposes nothing."""
    text = generated_form(
        {"properties": {"partners": {**PARTNERS, "minItems": least}}}, class_name="org.acme.App"
    )
    only = Offers(components=[Component("d1", "db", "org.acme.Db")])
    described = load_form(text, package_name="a.B", title="B").describe(None, only)
    shown = described["pages"][0]["fields"][0]
    assert (shown["control"], shown["type"], shown["value"]) == ("objects", "object", value)


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


PART = {
    "properties": {
        "size": {"type": "integer"},
        "colour": {"type": ["string", "null"], "default": "red"},
        "owner": {"muranoType": "org.acme.Part", "owned": True, "type": ["muranoObject", "null"]},
    }
}
OWNED = {"muranoType": "org.acme.Part", "owned": True}
WHOLE: dict[str, Any] = {
    "properties": {
        "address": {"type": "object", "additionalProperties": False, "default": {"port": 80}, "properties": {
            "host": {"type": "string"}, "port": {"type": "integer"}}},
        "rules": {"type": "array", "maxItems": 2, "items": {"type": "object", "properties": {
            "port": {"type": "integer"}, "on": {"type": "boolean"},
            "proto": {"enum": ["tcp", "it's"], "type": ["string", "null"]}}}},
        "groups": {"type": "object", "properties": {}, "additionalProperties": {
            "type": "array", "items": {"type": "string"}}, "default": {"x": ["a", "b"]}},
        "counts": {"type": "object", "additionalProperties": {"type": "integer"}},
        "flags": {"type": "array", "items": {"type": "boolean"}, "default": [True]},
        "kinds": {"type": "array", "items": {"enum": ["a", "b"]}, "minItems": 1, "maxItems": 2},
        "part": {**OWNED, "type": "muranoObject"},
        "spare": {**OWNED, "type": ["muranoObject", "null"], "excludedProperties": ["colour"]},
        "note": {"type": "string", "default": "one\ntwo"},
        "größe": {"type": ["string", "null"]},
        "grüße": {"type": ["string", "null"]},
    },
}  # fmt: skip
GIVEN: dict[str, Any] = {"address_host": "h", "kinds": "a", "part_size": 3}


def whole() -> Any:
    text = generated_form(WHOLE, class_name="org.acme.App", nested={"org.acme.Part": PART})
    return load_form(text, package_name="org.acme.App", title="App")


def made(**values: Any) -> Any:
    form = whole()
    return form.build(form.fill({**GIVEN, **values}, OFFERS), OFFERS)


def test_maps_lists_and_owned_objects_are_entered_in_the_form() -> None:
    """Known keys one by one, maps in rows, lines of names and lists, objects of the object itself."""
    rows = [{"port": "80", "on": True, "proto": ""}, {"port": "81", "proto": "it's"}]
    model = made(rules=rows, counts="a=1\n b = 2 \n", größe="L")
    assert model["address"] == {"host": "h", "port": 80}
    assert model["rules"] == [
        {"port": 80, "on": True, "proto": None},
        {"port": 81, "on": False, "proto": "it's"},
    ]
    assert (model["groups"], model["counts"]) == ({"x": ["a", "b"]}, {"a": 1, "b": 2})
    assert (model["flags"], model["kinds"]) == ([True], ["a"])
    assert (model["note"], model["größe"], model["grüße"]) == ("one\ntwo", "L", None)
    part = model["part"]
    assert (part["?"]["type"], part["size"], part["colour"]) == ("org.acme.Part", 3, "red")
    assert ("owner" in part, model["spare"]) == (False, None)
    spare = made(with_spare=True, spare_size=5)["spare"]
    assert (spare["?"]["type"], spare["size"], "colour" in spare) == ("org.acme.Part", 5, False)


@pytest.mark.parametrize(
    ("values", "field", "text"),
    [
        ({"rules": [{"port": "x"}]}, "rules", "Port: enter a whole number"),
        ({"rules": [{"port": ""}]}, "rules", "Port: enter something in each row"),
        ({"rules": [{"port": "1", "proto": "udp"}]}, "rules", "Proto: enter one of: tcp, it's"),
        ({"rules": [{"port": "1"}] * 3}, "rules", "Enter at most 2 rows"),
        ({"groups": "a"}, "groups", "Write each line as name=value"),
        ({"counts": "a=b"}, "counts", "Write each line as name=number"),
        ({"flags": "maybe"}, "flags", "Enter true or false in each line"),
        ({"kinds": "c"}, "kinds", "Each line is one of: a, b"),
        ({"kinds": "a\na\nb"}, "kinds", "Enter at most 2 lines"),
        ({"kinds": ""}, "kinds", "This field is required"),
        ({"address_host": ""}, "address_host", "This field is required"),
        ({"part_size": ""}, "part_size", "This field is required"),
        ({"with_spare": True}, "spare_size", "This field is required"),
    ],
)
def test_what_is_wrong_with_parts_is_said(values: dict[str, Any], field: str, text: str) -> None:
    """Lines, rows and parts are checked as the contracts say."""
    with pytest.raises(PageInvalid) as caught:
        made(**values)
    assert caught.value.errors == {field: [text]}


def test_parts_say_what_they_are_part_of() -> None:
    """Labels name the whole; fields of an object that is not made are not there."""
    fields = {one["name"]: one for one in whole().describe(None, OFFERS)["pages"][0]["fields"]}
    assert fields["address_host"]["label"] == "Address: host"
    assert fields["part_size"]["label"] == "Part: size"
    assert [fields[name]["visible"] for name in ("part_size", "spare_size")] == [True, False]
    assert fields["note"]["control"] == "text"
    assert fields["rules"]["columns"][0] == {"name": "port", "type": "label", "title": "Port"}


def test_objects_of_the_packages_own_classes_are_of_its_version() -> None:
    """Without a version a class would be one of 0.x."""
    nested = {"org.acme.Part": PART}
    for own, version in ((["org.acme.Part"], "1.2.0"), ([], None)):
        text = generated_form(
            WHOLE, class_name="org.acme.App", version="1.2.0", nested=nested, own=own
        )
        form = load_form(text, package_name="org.acme.App", title="App")
        model = form.build(form.fill(GIVEN, OFFERS), OFFERS)
        assert model["part"]["?"].get("classVersion") == version


ROW = {"properties": {"port": {"type": "integer"}, "open": {"type": "boolean"},
                      "proto": {"type": "string", "default": "it's"}, "note": {"type": ["string", "null"]},
                      "inner": {"type": "object", "visible": False}}}  # fmt: skip
ROWS = {"type": "array", "items": {**OWNED, "type": "muranoObject"}}
PARTS = Offers(components=[Component("p1", "a part", "org.acme.Part")])


def test_a_list_of_owned_objects_is_entered_as_a_table() -> None:
    """A row is an object of the class, with an id and the package's version; no component is offered."""
    schema = {"properties": {"parts": {**ROWS, "minItems": 1, "maxItems": 2}}}
    assert owned_classes(schema) == ["org.acme.Part"]
    text = generated_form(
        schema,
        class_name="a.B",
        version="1.2.0",
        nested={"org.acme.Part": ROW},
        own=["org.acme.Part"],
    )
    form = load_form(text, package_name="a.B", title="B")
    field = form.describe(None, PARTS)["pages"][0]["fields"][0]
    assert (field["control"], field["choices"]) == ("table", None)
    assert [one["name"] for one in field["columns"]] == ["port", "open", "proto", "note"]
    rows = [{"port": "80", "open": True}, {"port": "81", "proto": "tcp", "note": "x"}]
    first, second = form.build(form.fill({"parts": rows}, PARTS), PARTS)["parts"]
    for one in (first, second):
        block = one.pop("?")
        assert len(block.pop("id")) == 32
        assert block == {"type": "org.acme.Part", "classVersion": "1.2.0"}
    assert first == {"port": 80, "open": True, "proto": "it's", "note": None}
    assert second == {"port": 81, "open": False, "proto": "tcp", "note": "x"}
    for given, said in ([{"port": ""}], "Port: enter something in each row"), ([], "required"):
        with pytest.raises(PageInvalid) as caught:
            form.fill({"parts": given}, PARTS)
        assert said in caught.value.errors["parts"][0]


DEEP = {"properties": {"whole": {**OWNED, "type": "muranoObject"}}}
NO_LIST = {"type": "array", "items": {**OWNED, "type": "muranoObject"}}


@pytest.mark.parametrize("nested", [{}, {"org.acme.Part": DEEP}])
@pytest.mark.parametrize(
    ("schema", "is_refused"),
    [
        (NO_LIST, False),
        ({**NO_LIST, "minItems": 1}, True),
        ({**NO_LIST, "minItems": 1, "default": [{}]}, False),
        ({**OWNED, "type": "muranoObject"}, True),
        ({**OWNED, "type": "muranoObject", "default": {}}, False),
        ({**OWNED, "type": ["muranoObject", "null"]}, False),
    ],
)
def test_no_component_is_offered_for_what_the_object_owns(
    nested: dict[str, Any], schema: dict[str, Any], is_refused: bool
) -> None:
    """What no field can enter is left to the class; where the class demands it, that is said."""
    whole = {"properties": {"part": schema}}
    is_entered = nested and schema.get("type") != "array"
    if is_refused or is_entered:
        with pytest.raises(
            FormError, match=r"its input (part|whole) must be given, .*org\.acme\.Part"
        ):
            generated_form(whole, class_name="a.B", nested=nested)
        return
    form = load_form(
        generated_form(whole, class_name="a.B", nested=nested), package_name="a.B", title="B"
    )
    fields = [one for page in form.describe(None, PARTS)["pages"] for one in page["fields"]]
    assert [one["name"] for one in fields] == ["application_name", "stay"][: len(fields)]
    assert "part" not in form.build(form.fill({}, PARTS), PARTS)
