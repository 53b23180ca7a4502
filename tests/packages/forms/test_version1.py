"""Definitions of version 1 as tables of cases (packages-and-forms.md B9)."""

from typing import Any

import pytest

from vetro.packages.forms import load_form, run_case

Json = dict[str, Any]
REQUIRED = ["This field is required"]


def run(ui: str, data: Json, **extra: Any) -> Json:
    """The outcome of a case."""
    return run_case({"ui": ui, "fqn": "org.acme.App", "data": data, **extra})


OLD = """
Version: 1
unitTemplates:
- {name: first-#, isMaster: true}
- {name: {YAQL: $.p.name}, isMaster: false}
Forms:
- p:
    fields:
    - {name: name, type: string}
    - {name: units, type: instance, minValue: 1, maxValue: 3}
    - {name: hide, type: string, attributeNames: false, required: false}
    - {name: both, type: string, attributeNames: [one, two], required: false}
    - {name: image, type: image, attributeNames: osImage, required: false}
"""


def test_version_1() -> None:
    """B9: the flat document of a service with its units."""
    data = {"name": "dc#", "units": "3", "hide": "h", "both": "v", "image": "i1"}
    images = [["i1", "Debian", {"name": "deb", "title": "Debian", "type": "linux"}]]
    assert run(OLD, {"p": data}, environment={"images": images})["model"] == {
        "type": "org.acme.App",
        "name": "dc#",
        "units": [
            {"name": "first-1", "isMaster": True},
            {"name": "dc2", "isMaster": False},
            {"name": "dc3", "isMaster": False},
        ],
        "one": "v",
        "two": "v",
        "osImage": {"name": "deb", "title": "Debian", "type": "linux"},
    }


IMAGE = {"name": "deb", "title": "Debian", "type": "linux"}


@pytest.mark.parametrize(
    ("image", "images", "exported"),
    [
        ("i1", [["i1", "Debian"]], {"name": "i1", "title": "Debian", "type": None}),
        (IMAGE, None, IMAGE),
        (IMAGE, [[IMAGE, "Debian"]], IMAGE),
        ('{"name": "deb", "title": "Debian", "type": "linux"}', None, IMAGE),
        ('{"name": ', None, {"name": '{"name": ', "title": '{"name": ', "type": None}),
    ],
)
def test_images_of_version_1_are_maps(image: Any, images: Any, exported: Json) -> None:
    """B9: an image's value is what the platform has, or the map itself, also as text."""
    environment = {} if images is None else {"images": images}
    data = {"p": {"name": "a", "units": "1", "image": image}}
    assert run(OLD, data, environment=environment)["model"]["osImage"] == exported


def test_fields_of_version_1_in_its_own_words() -> None:
    """B9: expressions as maps, services by kind, passwords that keep their ``#``."""
    ui = (
        "unitTemplates:\n- {name: n#, password: {YAQL: $.p.pw}, deep: [{YAQL: $.p.name}]}\nforms:\n- p:\n"
        "    fields:\n    - {name: name, type: string, attributeNames: unitNamingPattern}\n"
        "    - {name: pw, type: password, confirmInput: false, attributeNames: false}\n"
        "    - {name: count, type: instance, attributeNames: units}\n"
        "    - {name: domain, type: domain, required: {YAQL: 1 = 1}}\n"
        "    - {name: db, type: psqlDatabase, required: false}\n"
        "    validators:\n    - {expr: {YAQL: $.p.count > 0}, message: none}\n"
    )
    components = [
        {"id": "ad", "name": "corp", "type": "activeDirectory"},
        {"id": "pg", "name": "pg", "type": "postgreSql"},
    ]
    data = {"name": "dc#", "pw": "P#ssw0rd", "count": "2", "domain": "ad", "db": "pg"}
    environment = {"components": components}
    assert run(ui, {"p": data}, environment=environment)["model"] == {
        "type": "org.acme.App",
        "unitNamingPattern": "dc#",
        "units": [
            {"name": "n1", "password": "P#ssw0rd", "deep": ["dc1"]},
            {"name": "n2", "password": "P#ssw0rd", "deep": ["dc2"]},
        ],
        "domain": "ad",
        "db": "pg",
    }
    for change, errors in (
        ({"count": "0"}, {"page": ["none"]}),
        ({"domain": ""}, {"domain": REQUIRED}),
        ({"domain": "pg"}, {"domain": ["pg is not one of the values to choose; there are: corp"]}),
    ):
        found = run(ui, {"p": {**data, **change}}, environment=environment)
        assert found == {"invalid": "p", "errors": errors}


TABLE = """
unitTemplates: [{kind: node, name: n#}]
forms:
- p:
    fields:
    - name: nodes
      type: table
      minValue: 2
      maxValue: 3
      maxSync: 1
      columns:
      - {columnName: name, columnType: label, title: Name}
      - {columnName: isSync, columnType: checkbox, title: Sync}
      - {columnName: isMaster, columnType: radio, title: Primary}
"""


@pytest.mark.parametrize(
    ("raw", "outcome"),
    [
        ([{"name": "a", "isMaster": True}, {"name": "b", "isSync": True}],
         [{"kind": "node", "name": "a", "isSync": False, "isMaster": True},
          {"kind": "node", "name": "b", "isSync": True, "isMaster": False}]),
        ([{"name": "a", "isMaster": True}], ["Enter at least 2 rows"]),
        ([{"isMaster": True, "isSync": True}, {"isMaster": True, "isSync": True}],
         ["Choose at most 1 rows as isSync", "Choose one row as isMaster"]),
        ([{"other": 1}], ["The table has no column other"]),
        ("[", ["Enter the rows of the table as JSON"]),
        ([1, 2], ["Each row of the table is a map of its columns"]),
    ],
)  # fmt: skip
def test_tables(raw: Any, outcome: Any) -> None:
    """B9: rows of units."""
    found = run(TABLE, {"p": {"nodes": raw}})
    assert (found["model"]["nodes"] if "model" in found else found["errors"]["nodes"]) == outcome


def test_columns_of_a_table_are_described() -> None:
    """A front end gets name, type and title of each column, and the rows to begin with."""
    form = load_form(
        TABLE.replace("type: table", "type: table\n      initial: 2"), package_name="a", title=""
    )
    shown = form.describe()["pages"][0]["fields"][0]
    assert shown["columns"] == [
        {"name": "name", "type": "label", "title": "Name"},
        {"name": "isSync", "type": "checkbox", "title": "Sync"},
        {"name": "isMaster", "type": "radio", "title": "Primary"},
    ]
    assert [(one["name"], one["isMaster"]) for one in shown["value"]] == [("", True), ("", False)]
