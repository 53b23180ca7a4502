"""The language of forms as tables of cases, by section of packages-and-forms.md part B."""

from typing import Any

import pytest

from vetro.packages.forms import STORAGE_KEY, run_case

Json = dict[str, Any]


def run(ui: str, data: Json | None = None, **extra: Any) -> Json:
    """The outcome of a case; the object without what every object has."""
    outcome = run_case({"ui": ui, "fqn": "org.acme.App", "data": data or {}, **extra})
    if "model" in outcome and isinstance(outcome["model"].get("?"), dict):
        header = outcome["model"]["?"]
        for key in ("id", STORAGE_KEY, "resourceUsages"):
            header.pop(key, None)
    return outcome


def valued(expression: str, data: Json | None = None, **extra: Any) -> Any:
    """The value of an expression (or text) in Application, with text fields ``a`` and ``b``."""
    ui = (
        "Application:\n  '?': {type: T}\n  value: " + expression + "\n"
        "Templates:\n  node: {'?': {type: N}, host: !yaql \"'h' + str($index)\"}\n  plain: [1]\n"
        "Forms:\n- p:\n    fields:\n"
        "    - {name: a, type: string, required: false}\n    - {name: n, type: integer, required: false}\n"
    )
    outcome = run(ui, {"p": data or {}}, **extra)
    return outcome["model"]["value"] if "model" in outcome else outcome


@pytest.mark.parametrize(
    ("written", "value"),
    [
        ("$.p.a", "x"),
        ("'$.p.a'", "$.p.a"),
        ("!yaql $.p.a", "x"),
        ("!yaql 'p'", "p"),
        ("m1.small", "m1.small"),
        ("Step 1", "Step 1"),
        ("50%", "50%"),
        ("C#", "C#"),
        ("12", 12),
        ("1.5", 1.5),
        ("true", True),
        ("null", None),
        ("2026-01-31", "2026-01-31"),
        ("a:b", "a:b"),
        ("$.p.missing", None),
        ("$.p.a = x", True),
        ("$x = null", True),
        ("'2.0-rc1'", "2.0-rc1"),
        ("len($.p.a)", 1),
        ("$.p.a.bool()", True),
        ("$.p.n.bool()", False),
        ("switch($.p.a, $ = null => 1, $ != null => 2)", 2),
        ("$.p.a.switch($ = x => 1, $ = y => 2)", 1),
        ("!yaql '0.range(3)'", [0, 1, 2]),
        ("!yaql 'range(0, 3).select($ * 2)'", [0, 2, 4]),
        ("!yaql '3.range().limit(2)'", [3, 4]),
        ("!yaql dict()", {}),
        ("!yaql 'dict(a => 1)'", {"a": 1}),
        ("{$.p.a: 1}", {"x": 1}),
        ("[$.p.a, [$.p.a]]", ["x", ["x"]]),
        ("!yaql '[1, 2].where($ > 1)'", [2]),
        ("$forms.p.a", "x"),
    ],
)
def test_expressions(written: str, value: Any) -> None:
    """B1: which scalars are expressions, and what they give."""
    assert valued(written, {"a": "x"}) == value


@pytest.mark.parametrize(
    ("written", "text"),
    [
        ("!yaql '1 +'", "not an expression"),
        ("my-app", "No operator"),
        ("!yaql 'range(0).select($)'", "10000"),
        ("!yaql '0.range().select($)'", "10000"),
        ("$.q.a", "no page q with values"),
        ("$.p.a.none()", "none"),
        ("!yaql 'range(0, 20000)'", "10000"),
        ("!yaql 'encryptData(x)'", "key manager"),
        ("!yaql 'repeat($node, 20000)'", "20000"),
    ],
)
def test_expressions_that_fail_say_where(written: str, text: str) -> None:
    """B1: an expression of the application that has no value is an error with its line."""
    outcome = valued(written, {"a": "x"})
    assert text in outcome["error"]
    assert outcome["line"] == 3


@pytest.mark.parametrize(
    ("written", "value"),
    [
        ("generateHostname('web#-#', 3)", "web3-3"),
        ("generateHostname($.p.a, $.p.n)", "x"),
        ("!yaql 'repeat($node, 2).select($.host)'", ["h1", "h2"]),
        ("repeat($node, 0)", []),
        ("!yaql 'repeat(5, 2)'", [5, 5]),
        ("name()", "App"),
        ("ref(none)", None),
        ("ref(plain)", None),
    ],
)
def test_functions(written: str, value: Any) -> None:
    """B6: the functions of forms."""
    assert valued(written, {"a": "x", "n": "7"}) == value


@pytest.mark.parametrize("pattern", ["''", "null"])
def test_random_hostnames(pattern: str) -> None:
    """B6: without a pattern a name of 14 or 15 characters that differs each time."""
    made = valued(f'!yaql "[generateHostname({pattern}, 1), generateHostname({pattern}, 1)]"')
    assert made[0] != made[1]
    assert all(14 <= len(one) <= 15 and one.isalnum() and one == one.lower() for one in made)


@pytest.mark.parametrize(
    ("first", "second", "kinds"),
    [
        ("ref(node)", "ref(node)", ("object", "id")),
        ("ref(node)", "ref(node, other)", ("object", "object")),
        ("ref(node, x)", "ref(node, x)", ("object", "id")),
        ("ref(node, x, true)", "ref(node, x, false)", ("id", "object")),
        ("ref(node, idOnly => false)", "ref(node, idOnly => false)", ("object", "object")),
    ],
)
def test_references(first: str, second: str, kinds: tuple[str, str]) -> None:
    """B6: one object by its name: whole the first time, then its id."""
    made = valued(f"[!yaql '{first}', !yaql '{second}']")
    ids = [one if isinstance(one, str) else one["?"]["id"] for one in made]
    assert tuple("id" if isinstance(one, str) else "object" for one in made) == kinds
    assert (ids[0] == ids[1]) == ("other" not in second)


@pytest.mark.parametrize(
    ("ui", "outcome"),
    [
        ("Version: 2\nApplication: {a: 1}\n", {"model": {"a": 1}}),
        ("Version: 2.6\nApplication: {a: 1}\n", {"model": {"a": 1}}),
        ("Format: 2.1\nApplication: {a: 1}\n", {"model": {"a": 1}}),
        ("Version: null\nApplication: {a: 1}\n", {"model": {"a": 1}}),
        ("Version:\nFormat: 3\nApplication: {a: 1}\n", "3 are not supported"),
        ("Version: '2.4.1'\nApplication: {a: 1}\n", {"model": {"a": 1}}),
        ("Version: 2.10\nApplication: {a: 1}\n", "2.10 are not supported"),
        ("Version: 3\nApplication: {a: 1}\n", "3 are not supported"),
        ("Version: new\nApplication: {a: 1}\n", "is no version"),
        ("Version: 2\n", "Application section is required"),
        ("Application: [1]\n", "Application section is required"),
        ("Application: {}\nForms: [{a: }, {a: }]\n", "two pages a"),
        ("Application: {}\nForms: [{a: {fields: [{name: x, type: text}, {name: x, type: text}]}}]\n",
         "two fields x"),
        ("Application: {}\nForms: [{a: {fields: [{type: string}]}}]\n", "has no name"),
        ("Application: {}\nForms: [{a: {fields: {}}}]\nOther: 1\n", {"model": {}}),
        ("Application: {}\nTemplates: 1\n", "Templates is a map"),
        ("Application: {}\nParametersSource: 'a b'\n", "ParametersSource"),
        ("Application: {a: $one, b: $two, c: $_x}\nParameters: {one: 1, two: !yaql '$one + 1', _x: 3}\n",
         {"model": {"a": 1, "b": 2, "c": None}}),
        ("Application: {}\nForms: [{a: {validators: [{message: x}]}}]\n", "a validator is a map with expr"),
    ],
)  # fmt: skip
def test_sections(ui: str, outcome: Any) -> None:
    """B2, B8: versions, sections and parameters."""
    found = run(ui)
    if isinstance(outcome, str):
        assert outcome in found["error"], found
    else:
        assert found == outcome


def test_parameters_of_a_static_action_replace_those_of_the_form() -> None:
    """B8: what ParametersSource returns is merged over Parameters; anything but a map is ignored."""
    ui = "Application: {a: $one, b: $two}\nParameters: {one: 1}\nParametersSource: read\n"
    assert run(ui, parameters={"one": 5, "two": 6})["model"] == {"a": 5, "b": 6}
    assert run(ui, parameters=[1])["model"] == {"a": 1, "b": None}


def field(attributes: str, raw: Any = ..., **extra: Any) -> Any:
    """The value of a field, or its errors. The page has a field ``first`` (integer) before it."""
    ui = (
        "Application: {v: $.p.x}\nForms:\n- p:\n    fields:\n"
        "    - {name: first, type: integer, required: false}\n"
        f"    - {{name: x, {attributes}}}\n- later:\n"
    )
    data = {"first": extra.pop("first", None), **extra.pop("more", {})}
    if raw is not ...:
        data["x"] = raw
    outcome = run(ui, {"p": data}, **extra)
    if "model" in outcome:
        return outcome["model"]["v"]
    return outcome.get("errors", {}).get("x", outcome)


REQUIRED = ["This field is required"]


@pytest.mark.parametrize(
    ("attributes", "raw", "value"),
    [
        ("type: string", "a", "a"),
        ("type: string", "", REQUIRED),
        ("type: string", ..., REQUIRED),
        ("type: string, required: false", "", ""),
        ("type: string, required: false", None, ""),
        ("type: string, errorMessages: {required: please}", "", ["please"]),
        ("type: string", ["a"], ["Enter text"]),
        ("type: string, minLength: 2, max_length: 3", "a", ["Enter at least 2 characters"]),
        ("type: string, minLength: 2, max_length: 3", "abcd", ["Enter at most 3 characters"]),
        ("type: string, maxLength: 1, errorMessages: {max_length: long}", "ab", ["long"]),
        ("type: string, maxLength: 1, errorMessages: {maxLength: long}", "ab", ["long"]),
        ("type: string, regexpValidator: 'b'", "abc", "abc"),
        ("type: string, regexpValidator: '^b'", "abc", ["Enter a value that matches ^b"]),
        ("type: string, regexpValidator: '/^B/i'", "bc", "bc"),
        ("type: string, regexpValidator: '^b', errorMessages: {invalid: bad}", "a", ["bad"]),
        ("type: string, validators: [{expr: !yaql 'len($) > 1', message: short}]", "a", ["short"]),
        ("type: string, required: false, validators: [{expr: !yaql 'len($) > 1'}]", "", ""),
        ("type: string, validators: [{expr: {regexpValidator: '^b'}, message: m}, {expr: $ = b, message: n}]",
         "a", ["m", "n"]),
        ("type: string, validators: [{expr: {regexp_validator: '^a'}}]", "a", "a"),
        ("type: string, validators: [{expr: $.none.none}]", "a", ["The value does not satisfy $.none.none"]),
        ("type: string, enabled: false", "", ""),
        ("type: string, enabled: $.p.first > 1, regexpValidator: '^b'", "a", "a"),
        ("type: string, enabledIf: false, regexpValidator: '^b'", "a", "a"),
        ("type: string, visible: false", "", ""),
        ("type: string, hidden: true, initial: h", ..., "h"),
        ("type: string, initial: h", ..., REQUIRED),
        ("type: string, labl: x", "a", "a"),
        ("type: text", "a\nb", "a\nb"),
        ("type: integer", "5", 5),
        ("type: integer", " 5 ", 5),
        ("type: integer", 5, 5),
        ("type: integer", "-3", -3),
        ("type: integer", "five", ["Enter a whole number"]),
        ("type: integer", "5.5", ["Enter a whole number"]),
        ("type: integer", True, ["Enter a whole number"]),
        ("type: integer", "9" * 30, int("9" * 30)),
        ("type: integer", "9" * 400, ["Enter a whole number"]),
        ("type: integer", "", REQUIRED),
        ("type: integer, required: false", "", None),
        ("type: integer, minValue: 2", "1", ["Enter a number of at least 2"]),
        ("type: integer, maxValue: $.p.first + 1", "3", ["Enter a number of at most 2"]),
        ("type: integer, maxValue: $.later.none", "3", 3),
        ("type: boolean", "true", True),
        ("type: boolean", True, True),
        ("type: boolean", "on", True),
        ("type: boolean", "false", False),
        ("type: boolean", ..., False),
        ("type: boolean, required: true", "", False),
        ("type: boolean", "maybe", ["Choose yes or no"]),
        ("type: floatingip", "1", True),
        ("type: clusterip", "10.0.0.5", "10.0.0.5"),
        ("type: clusterip", "10.0.0.500", ["Enter an IPv4 address, such as 10.0.0.5"]),
        ("type: databaselist", " a, _b$#@1 ,", ["a", "_b$#@1"]),
        ("type: databaselist, required: false", "", []),
        ("type: choice, choices: [[a, A], [b, B]]", "b", "b"),
        ("type: choice, choices: {camelCase: A, 2: B}", "camelCase", "camelCase"),
        ("type: choice, choices: {camelCase: A, 2: B}", "2", 2),
        ("type: choice, choices: [[a, A]]", "c", ["c is not one of the values to choose; there are: a"]),
        ("type: choice, choices: [[a, A]]", "", REQUIRED),
        ("type: choice, choices: $list", "x", ["x is not one of the values to choose; there are none yet"]),
    ],
)  # fmt: skip
def test_fields(attributes: str, raw: Any, value: Any) -> None:
    """B3, B4: what a field makes of what was entered, and what it refuses."""
    assert field(attributes, raw, first=1) == value


GOOD = "Abcdef1!"


@pytest.mark.parametrize(
    ("attributes", "raw", "clone", "value"),
    [
        ("type: password", GOOD, GOOD, GOOD),
        ("type: password", GOOD, "Abcdef1?", ["Xs don't match"]),
        ("type: password, label: Secret", GOOD, None, ["Secrets don't match"]),
        ("type: password, confirmInput: false", GOOD, None, GOOD),
        ("type: password, required: false", GOOD, None, GOOD),
        ("type: password, required: false", "", None, ""),
        ("type: password, enabled: false", "a", "b", "a"),
        ("type: password, confirmInput: false", "abcdef!", None,
         ["Use at least one digit", "Use at least one upper-case letter"]),
        ("type: password, confirmInput: false, regexpValidator: '^a'", "abc", None, "abc"),
        ("type: password, confirmInput: false, validators: [{expr: $ = abc}]", "abc", None, "abc"),
    ],
)  # fmt: skip
def test_passwords(attributes: str, raw: str, clone: str | None, value: Any) -> None:
    """B4: rules that any validator replaces, and the second input."""
    more = {"x-clone": clone} if clone is not None else {}
    assert field(attributes, raw, more=more) == value


COMPONENTS = [
    {"id": "d1", "name": "db", "type": "org.acme.Db/1.0.0@org.acme"},
    {"id": "w1", "name": "web", "type": "org.acme.Web"},
]
FLAVORS = [
    ["m1.large", "m1.large", {"vcpus": 4, "memory": 4096, "disk": 40}],
    ["m1.medium", "m1.medium", {"vcpus": 2, "memory": 2048, "disk": 20}],
    ["m1.tiny", "m1.tiny", {"vcpus": 1, "memory": 512, "disk": 5}],
]
IMAGES = [
    ["i1", "Debian", {"type": "linux"}],
    ["i2", "Alpine", {"type": "linux.alpine"}],
    ["i3", "Windows", {"type": "windows.2012"}],
    ["i4", "Odd", {"title": "Odd"}],
]


@pytest.mark.parametrize(
    ("attributes", "raw", "environment", "value"),
    [
        ("type: flavor", "m1.tiny", {"flavors": FLAVORS}, "m1.tiny"),
        ("type: flavor", "m9", {"flavors": FLAVORS},
         ["There is no flavor m9; there are: m1.large, m1.medium, m1.tiny"]),
        ("type: flavor", "m9", {}, "m9"),
        ("type: flavor, requirements: {min_vcpus: 2}", "m1.tiny", {"flavors": FLAVORS},
         ["There is no flavor m1.tiny; there are: m1.large, m1.medium"]),
        ("type: flavor, requirements: {max_disk: 20, min_memory_mb: 1000}", "m1.medium",
         {"flavors": FLAVORS}, "m1.medium"),
        ("type: image", "i3", {"images": IMAGES}, "i3"),
        ("type: image, imageType: linux", "i2", {"images": IMAGES}, "i2"),
        ("type: image", "Debian", {"images": IMAGES}, "i1"),
        ("type: image", "Debia", {"images": IMAGES}, ["There is no image Debia; did you mean Debian?"]),
        ("type: image, imageType: linux", "i3", {"images": IMAGES},
         ["There is no image i3; there are: Alpine, Debian"]),
        ("type: image, imageType: linux", "i4", {"images": IMAGES},
         ["There is no image i4; there are: Alpine, Debian"]),
        ("type: image", "", {"images": []}, REQUIRED),
        ("type: keypair", "", {"keypairs": []}, ""),
        ("type: keypair", "k", {"keypairs": [["k", "k"]]}, "k"),
        ("type: keypair", "j", {"keypairs": [["k", "k"]]}, ["There is no key pair j; there are: k"]),
        ("type: azone", "nova", {"azones": [["nova", "nova"]]}, "nova"),
        ("type: securitygroup", "murano--x", {"security_groups": [["murano--x", "murano--x"]]},
         ["There is no security group murano--x; there are none yet"]),
        ("type: securitygroup", "", {"security_groups": [["a", "a"]]}, ""),
        ("type: volume", "v", {"volumes": [["v", "v"]]}, "v"),
        ("type: volume, include_snapshots: false", "s",
         {"volumes": [["s", "s", {"kind": "snapshot"}]]}, ["There is no volume s; there are none yet"]),
        ("type: zone", "example.org.", {"dns_zones": [["example.org.", "example.org."]]}, "example.org."),
        ("type: network", "(None, None)", {}, [None, None]),
        ("type: network", "('n', 's')", {}, ["n", "s"]),
        ("type: network", "(n, None)", {}, ["n", None]),
        ("type: network", ["n", "s"], {}, ["n", "s"]),
        ("type: network", "(a, b)", {"networks": [["(None, None)", "Auto"]]},
         ["The network a is not offered here"]),
        ("type: network", "(None, None)", {"networks": [["(None, None)", "Auto"]]}, [None, None]),
        ("type: network", "n", {}, ["Choose a network"]),
        ("type: network", "", {}, REQUIRED),
        ("type: org.acme.Db", "d1", {"components": COMPONENTS}, "d1"),
        ("type: org.acme.Db", "w1", {"components": COMPONENTS},
         ["w1 is not one of the values to choose; there are: db"]),
        ("type: org.acme.Db", "db", {"components": COMPONENTS}, "d1"),
        ("type: [org.acme.Db, org.acme.Web]", "w1", {"components": COMPONENTS}, "w1"),
        ("type: org.acme.Db", "", {"components": COMPONENTS}, REQUIRED),
        ("type: org.acme.Db, required: false", "", {"components": COMPONENTS}, None),
        ("type: org.acme.Db", "any", {"components": [{"id": "any", "name": "n", "type": "*"}]}, "any"),
        ("type: domain", "", {"components": []}, None),
    ],
)  # fmt: skip
def test_choices_of_the_environment(
    attributes: str, raw: Any, environment: Json, value: Any
) -> None:
    """B4: what the platform and the environment offer."""
    assert field(attributes, raw, environment=environment) == value


NETWORKS: list[Json] = [
    {"id": "n1", "name": "lan", "subnets": [{"id": "s1", "name": "sub", "cidr": "10.0.0.0/24"}]},
    {
        "id": "n2",
        "name": "web-network-1",
        "subnets": [{"id": "s2", "name": "", "cidr": "10.1.0.0/24"}],
    },
    {"id": "n3", "name": "public", "external": True, "subnets": []},
]


@pytest.mark.parametrize(
    ("settings", "labels"),
    [
        ({}, ["Auto", "lan: 10.0.0.0/24 sub", "lan: random subnet", "web-network-1: 10.1.0.0/24",
              "web-network-1: random subnet"]),
        ({"allow_auto": False, "include_subnets": False},
         ["lan: random subnet", "web-network-1: random subnet"]),
        ({"filter": "la", "allow_auto": False}, ["lan: 10.0.0.0/24 sub", "lan: random subnet"]),
        ({"murano_networks": "exclude", "allow_auto": False}, ["lan: 10.0.0.0/24 sub", "lan: random subnet"]),
        ({"murano_networks": "translate", "allow_auto": False},
         ["lan: 10.0.0.0/24 sub", "lan: random subnet", "Network of 'web'"]),
        ({"filter": "none", "allow_auto": False}, ["No network"]),
    ],
)  # fmt: skip
def test_networks(settings: Json, labels: list[str]) -> None:
    """B4: a network field's entries."""
    from vetro.packages.forms.offers import Offers, network_choices

    offers = Offers({"networks": NETWORKS}, environments=["web"])
    assert [one.label for one in network_choices(offers, settings) or []] == labels


FLOW = """
Application: {a: $.one.a, b: $.two.b}
Forms:
- one:
    fields: [{name: a, type: string}, {name: c, type: string}]
    validators:
    - {expr: $.one.a != $.one.c, message: same}
    - {expr: $.two.b = null, message: later}
- two:
    fields: [{name: b, type: string, label: $.one.a, regexpValidator: $.one.a}]
    validators: [{expr: $.one.a != $.two.b}]
"""


@pytest.mark.parametrize(
    ("one", "two", "outcome"),
    [
        ({"a": "x", "c": "y"}, {"b": "xx"}, {"model": {"a": "x", "b": "xx"}}),
        ({"a": "x", "c": "x"}, {"b": "xx"}, {"invalid": "one", "errors": {"page": ["same"]}}),
        ({"a": "", "c": ""}, {}, {"invalid": "one", "errors": {"a": REQUIRED, "c": REQUIRED}}),
        ({"a": "x", "c": "y"}, {"b": "x"},
         {"invalid": "two", "errors": {"page": ["Validation Error occurred"]}}),
        ({"a": "x", "c": "y"}, {"b": "z"},
         {"invalid": "two", "errors": {"b": ["Enter a value that matches x"]}}),
    ],
)  # fmt: skip
def test_flow(one: Json, two: Json, outcome: Json) -> None:
    """B5: pages in order; a page's conditions only when its fields are fine, later pages null."""
    assert run(FLOW, {"one": one, "two": two}) == outcome


@pytest.mark.parametrize(
    ("version", "name", "outcome"),
    [
        ("2.2", "shop", "shop"),
        ("2.2", "a b", ["Use only letters, digits, - and _"]),
        ("2.2", None, "App"),
        ("2.1", "shop", None),
    ],
)
def test_the_management_page(version: str, name: str | None, outcome: Any) -> None:
    """B7: from 2.2 on the application's name is asked for and set."""
    ui = f"Version: {version}\nApplication: {{'?': {{type: T}}, n: name()}}\n"
    extra: Json = {} if name is None else {"application_name": name}
    found = run(ui, **extra)
    if isinstance(outcome, list):
        assert found == {"invalid": "workflowManagement", "errors": {"application_name": outcome}}
    else:
        assert found["model"]["?"] == {"type": "T", **({"name": outcome} if outcome else {})}


def test_the_object_has_ids_and_the_storage_key() -> None:
    """B8: new ids, a literal id stays, the storage key, and what flavors use by region."""
    ui = (
        "Application: {'?': {type: T}, in: {'?': {type: U, id: mine}}, list: [{'?': {type: V}}]}\n"
        "Forms: [{p: {region: r2, fields: [{name: f, type: flavor}]}}]\n"
    )
    case = {"ui": ui, "fqn": "org.acme.App", "title": "App!", "data": {"p": {"f": "m1.tiny"}},
            "environment": {"flavors": FLAVORS}}  # fmt: skip
    model = run_case(case)["model"]
    assert model["in"]["?"]["id"] == "mine"
    assert len({model["?"]["id"], model["list"][0]["?"]["id"], "mine"}) == 3
    assert model["?"][STORAGE_KEY] == {"name": "App!"}
    assert model["?"]["resourceUsages"] == {"r2": {"ram": 512, "vcpus": 1, "instances": 1}}
    assert run_case(case)["model"]["?"]["id"] != model["?"]["id"]


@pytest.mark.parametrize(
    "case",
    [None, [], {}, {"ui": 1, "fqn": "a"}, {"ui": "", "fqn": ""}, {"ui": "", "fqn": "a", "data": []},
     {"ui": "Application: {}", "fqn": "a", "environment": {"images": {}}},
     {"ui": "Application: {}", "fqn": "a", "environment": {"components": [1]}}],
)  # fmt: skip
def test_a_document_that_is_no_case_is_refused(case: Any) -> None:
    """Wrong members of a case are said."""
    if case == {"ui": "", "fqn": "a", "data": []}:
        assert "must be a map" in run_case(case)["error"]
    else:
        with pytest.raises(ValueError, match="must be"):
            run_case(case)


def test_hidden_fields_have_their_initial_value() -> None:
    """B3: also one that an expression gives; nothing else is taken for granted."""
    ui = (
        "Parameters: {q: 5}\nApplication: {'?': {type: T}, h: $.p.h}\nForms:\n- p:\n    fields:\n"
        "    - {name: h, type: integer, hidden: %s, initial: $q}\n"
    )
    assert run(ui % "true")["model"]["h"] == 5
    assert run(ui % "$q > 4")["model"]["h"] == 5
    assert run(ui % "true", {"p": {"h": "6"}})["model"]["h"] == 6
    assert run(ui % "false")["errors"] == {"h": ["This field is required"]}


@pytest.mark.parametrize(("given", "asked"), [("''", False), ("0", False), ("yes", True)])
def test_attributes_take_what_expressions_give(given: str, asked: bool) -> None:
    """B3: an attribute that is yes or no takes any value of an expression."""
    ui = (
        "Parameters: {q: %s}\nApplication: {'?': {type: T}}\nForms:\n- p:\n    fields:\n"
        "    - {name: a, type: string, required: $q}\n"
    )
    assert ("errors" in run(ui % given)) == asked


def test_choices_of_booleans_and_empty_names() -> None:
    """B4: a key that is a boolean is chosen by its text. B7: an empty name is not a name."""
    ui = (
        "Application: {'?': {type: T}, c: $.p.c}\nForms:\n- p:\n    fields:\n"
        "    - {name: c, type: choice, choices: {true: On, false: Off}}\n"
    )
    for text in ("True", "true", True):
        assert run(ui, {"p": {"c": text}})["model"]["c"] is True
    refused = run(ui, {"p": {"c": "false"}}, application_name="")
    assert refused["errors"] == {"application_name": ["This field is required"]}
