"""A component's form, opened again: what it shows, and what it changes."""

from collections import Counter
from collections.abc import Iterator
from copy import deepcopy
from pathlib import Path
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.packages.forms.test_definitions import DATA, DEFINITIONS, ENVIRONMENT
from tests.packages.forms.test_generated import OFFERS
from tests.packages.forms.test_generated import form as class_form

from vetro.packages.forms import (
    Form,
    FormError,
    Offers,
    PageInvalid,
    State,
    changed,
    load_form,
    reopened,
)
from vetro.packages.forms.cases import offers_of

Json = dict[str, Any]
LIBRARY = Path(__file__).parents[3] / "library"
SAMPLES = sorted(path.parts[-3] for path in LIBRARY.glob("*/UI/ui.yaml"))
FIELDS = """
  - {name: text, type: string, initial: one, required: false}
  - {name: other, type: string, initial: two, required: false}
  - {name: number, type: integer, initial: 3}
  - {name: flag, type: boolean}
  - {name: kind, type: choice, choices: [[a, A], [b, B], [c, C]]}
  - {name: secret, type: password, regexpValidator: '.*', required: false}
  - {name: lines, type: text, initial: "x=1", required: false}
  - {name: network, type: network, required: false}
"""


def form(value: str, templates: str = "", version: str = "2.2") -> Form:
    """A form with a field of each type, whose object has one property ``value`` beside its class."""
    text = (
        f"Version: {version}\nTemplates:\n  none: {{}}\n{templates}"
        f"Application:\n  '?': {{type: org.acme.App}}\n  value: {value}\n"
        f"Forms:\n- p:\n    fields:{FIELDS.replace(chr(10), chr(10) + '    ')}"
    )
    return load_form(text, package_name="org.acme.App", title="App")


def made(of: Form, values: Json, offers: Offers | None = None) -> Json:
    """The object of a form with values by field."""
    offers = offers or Offers()
    return of.build(of.fill(values, offers, name="shop"), offers)


def opened(of: Form, component: Json, offers: Offers | None = None) -> State:
    """The form of a component again."""
    return reopened(of, component, of.begin(), offers or Offers())


NODE = "  node:\n    '?': {type: org.acme.Node}\n    name: generateHostname($.p.text, $index)\n"
INNER = "  inner: {'?': {type: org.acme.Inner}, text: $.p.text}\n"


@pytest.mark.parametrize(
    ("value", "given", "field", "templates"),
    [
        ("$.p.text", {"text": "a"}, "text", ""),
        ("$forms.p.text", {"text": "a"}, "text", ""),
        ("[$.p.text, 1]", {"text": "a"}, "text", ""),
        ("{inner: {deep: $.p.number}}", {"number": 7}, "number", ""),
        ("str($.p.number)", {"number": 7}, "number", ""),
        ("int($.p.text)", {"text": "12"}, "text", ""),
        ("$.p.number * 1024", {"number": 5}, "number", ""),
        ("$.p.number + 1", {"number": 5}, "number", ""),
        ("not $.p.flag", {"flag": True}, "flag", ""),
        ("not $.p.flag", {"flag": False}, "flag", ""),
        ("!yaql \"'http://' + $.p.text + '/x'\"", {"text": "host"}, "text", ""),
        ("$.p.text.switch($ = '' => null, true => $)", {"text": ""}, "text", ""),
        ("$.p.text.switch($ = '' => null, true => $)", {"text": "b"}, "text", ""),
        ("$.p.kind.switch($ = a => 1, $ = b => 2, true => 3)", {"kind": "b"}, "kind", ""),
        ("$.p.kind = c", {"kind": "c"}, "kind", ""),
        ("!yaql \"$.p.lines.split(',')\"", {"lines": "a,b"}, "lines", ""),
        ("!yaql \"$.p.lines.split('\\n').select(int($))\"", {"lines": "1\n2"}, "lines", ""),
        ('!yaql "$.p.network[0]"', {"network": ["n", None]}, "network", ""),
        ('!yaql "[$.p.network[0], $.p.network[1]]"', {"network": ["n", "s"]}, "network", ""),
        ("repeat($node, $.p.number)", {"number": 4}, "number", NODE),
        ("repeat($node, $.p.number)", {"number": 1, "text": "n-#"}, "text", NODE),
        ("repeat($node, $.p.number)", {"number": 11, "text": "n-#-x"}, "text", NODE),
        ("list($none) + repeat($node, $.p.number)", {"number": 2}, "number", NODE),
        ("$.p.flag.switch($ => $inner, true => null)", {"flag": True}, "flag", INNER),
        ("$.p.flag.switch($ => $inner, true => null)", {"flag": True, "text": "q"}, "text", INNER),
        ("$.p.flag.switch($ => $inner, true => null)", {"flag": False}, "flag", INNER),
        ("ref(inner)", {"text": "q"}, "text", INNER),
        ("generateHostname($.p.text, 1)", {"text": "fixed"}, "text", ""),
        ("$.p.secret", {"secret": "s3cret"}, "secret", ""),
    ],
)
def test_a_field_has_what_the_component_has(
    value: str, given: Json, field: str, templates: str
) -> None:
    """Each kind of expression is read back; saving without an entry changes nothing."""
    of = form(value, templates)
    component = made(of, given)
    state = opened(of, component)
    assert state.pages["p"][field] == given[field]
    assert f"p.{field}" not in state.kept
    assert changed(of, component, state) == component
    # The component is the truth, not what the form was filled with: with this value it is made again.
    again = made(of, {**given, field: state.pages["p"][field]})
    assert _without_ids(again) == _without_ids(component)


@pytest.mark.parametrize(
    ("value", "given", "field", "templates"),
    [
        ("encryptData($.p.secret)", {"secret": "s"}, "secret", ""),
        ("$.p.text.toUpper() + $.p.other", {}, "other", ""),
        ("len($.p.text)", {"text": "abc"}, "text", ""),
        ("[$.p.text, $.p.text]", {}, "text", ""),
    ],
)
def test_what_cannot_be_read_stays_until_it_is_entered(
    value: str, given: Json, field: str, templates: str
) -> None:
    """It is optional, and says so; entered, it is changed."""
    of = form(value, templates)
    component = of.build(of.fill(given, name="shop"), encrypt=lambda text: f"kept {text}")
    if isinstance(component["value"], list):
        component["value"] = ["one", "changed by hand"]
    state = opened(of, component)
    shown = next(one for one in of.describe(state)["pages"][0]["fields"] if one["name"] == field)
    assert (shown["kept"], shown["required"], shown["value"]) == (True, False, None)
    assert shown["placeholder"] == "Stays as it is"
    of.submit("p", {one: None for one in ("text", "other") if f"p.{one}" in state.kept}, state)
    assert changed(of, component, state) == component
    of.submit("p", {"text": "n", "other": "m", "secret": "z", "secret-clone": "z"}, state)
    after = changed(of, component, state, encrypt=lambda text: f"kept {text}")
    expected = of.build(
        of.fill({"text": "n", "other": "m", "secret": "z"}, name="shop"),
        encrypt=lambda text: f"kept {text}",
    )
    assert after["value"] == expected["value"]


def test_a_value_that_needs_an_unknown_one_is_refused() -> None:
    """Nothing is made with half of what it is made of; the message names the other field."""
    of = form("$.p.text.toUpper() + $.p.other")
    component = made(of, {})
    state = opened(of, component)
    of.submit("p", {"other": "new"}, state)
    with pytest.raises(FormError, match=r"p\.text, whose present value cannot be read"):
        changed(of, component, state)


GENERATED = [
    "generateHostname('', 1)",
    "generateHostname($.p.missing, 1)",
    "random()",
    "random(1, 3)",
    "!yaql \"'x' + str(random(1, 2))\"",
    "encryptData('a word')",
    "repeat($random, 2)",
    "ref(random)",
]
RANDOM = "  random:\n    '?': {type: org.acme.Node}\n    name: generateHostname('', $index)\n"


@pytest.mark.parametrize("value", GENERATED)
def test_what_was_generated_stays_for_the_life_of_a_component(value: str) -> None:
    """Whatever else is changed, and however often: names, numbers, references of secrets, ids."""
    of = form(f"{value}\n  text: $.p.text\n  number: $.p.number", RANDOM)
    references = iter(range(100))
    component = of.build(
        of.fill({}, name="shop"), encrypt=lambda _: f"reference {next(references)}"
    )
    for round_ in range(20):
        state = opened(of, component)
        of.submit("p", {"number": round_}, state)
        after = changed(of, component, state, encrypt=lambda _: f"reference {next(references)}")
        assert after == {**component, "number": round_}
        component = after


def test_more_machines_get_names_that_are_free() -> None:
    """Numbers go on behind those that are taken; the machines that are there keep name and id."""
    of = form("repeat($node, $.p.number)", NODE)
    first = of.fill({"text": "web-#", "number": 2}, name="shop")
    component = of.build(first, taken={"web-1"})
    assert [one["name"] for one in component["value"]] == ["web-2", "web-3"]
    state = opened(of, component)
    of.submit("p", {"number": 4}, state)
    after = changed(of, component, state, taken={"web-1", "web-2", "web-3", "web-4"})
    assert after["value"][:2] == component["value"]
    assert [one["name"] for one in after["value"][2:]] == ["web-5", "web-6"]
    state = opened(of, after)
    of.submit("p", {"number": 1}, state)
    assert changed(of, after, state)["value"] == component["value"][:1]


@pytest.mark.parametrize(
    ("pattern", "taken", "name"),
    [
        ("web-#", {"other"}, "web-1"),
        ("web-#", {"web-1"}, "web-2"),
        ("Web-#", {"web-1", "web-2", "web-10"}, "Web-3"),
        ("web", {"web"}, "web"),  # no number: the service refuses it
    ],
)
def test_a_pattern_counts_on(pattern: str, taken: set[str], name: str) -> None:
    """The same pattern and number are the same name everywhere in one object."""
    of = form('!yaql "[generateHostname($.p.text, 1), generateHostname($.p.text, 1)]"')
    value = of.build(of.fill({"text": pattern}, name="shop"), taken=taken)["value"]
    assert value == [name, name]


@pytest.mark.parametrize("pattern", ["w-#", "W-#"])
def test_a_pattern_that_is_typed_again_keeps_the_name_that_is_there(pattern: str) -> None:
    """A field shows the name of its one machine; who types the pattern over it renames nothing, also where
    the name is used twice. Another pattern is another name."""
    of = form(
        '!yaql "[generateHostname($.p.text, 1), generateHostname($.p.text, 1)]"'
        "\n  number: $.p.number"
    )
    component = of.build(of.fill({"text": "w-#"}, name="shop"), taken=set())
    assert component["value"] == ["w-1", "w-1"]
    taken = {"w-1", "w-2", "x-1"}
    state = opened(of, component)
    of.submit("p", {"text": pattern, "number": 7}, state)
    assert changed(of, component, state, taken=taken) == {**component, "number": 7}
    state = opened(of, component)
    of.submit("p", {"text": "x-#"}, state)
    assert changed(of, component, state, taken=taken)["value"] == ["x-2", "x-2"]


def test_more_machines_of_a_pattern_that_is_typed_again_count_on() -> None:
    """The one that is there stays."""
    of = form("repeat($node, $.p.number)", NODE)
    component = of.build(of.fill({"text": "w-#", "number": 1}, name="shop"), taken=set())
    state = opened(of, component)
    of.submit("p", {"text": "w-#", "number": 2}, state)
    after = changed(of, component, state, taken={"w-1", "w-2"})
    assert after["value"][:1] == component["value"]
    assert [one["name"] for one in after["value"]] == ["w-1", "w-3"]


def test_only_what_was_entered_is_changed() -> None:
    """What others have set, in the component and in its objects, stays as it is to the byte."""
    of = form("$.p.flag.switch($ => $inner, true => null)\n  number: $.p.number", INNER)
    component = made(of, {"flag": True, "text": "a"})
    component |= {"url": "http://x", "number": 8}
    component["?"]["metadata"] = {"note": 1}
    component["value"]["port"] = [80]
    state = opened(of, component)
    of.submit("p", {"text": "b"}, state)
    expected = deepcopy(component)
    expected["value"]["text"] = "b"
    assert changed(of, component, state) == expected
    # A change that came meanwhile is not lost.
    component["number"] = 9
    assert changed(of, component, state)["number"] == 9


@pytest.mark.parametrize(
    ("value", "given", "there", "field", "shown"),
    [
        ("str($.p.number)", {"number": 7}, 7, "number", 7),
        ("int($.p.text)", {"text": "7"}, "7", "text", "7"),
        ("$.p.number * 2", {"number": 7}, "14", "number", 7),
        ("$.p.flag", {"flag": False}, None, "flag", None),
    ],
)
def test_what_a_contract_has_made_of_a_value_is_read(
    value: str, given: Json, there: object, field: str, shown: object
) -> None:
    """A class may have made a number of a text: the field is known, and saving changes nothing."""
    of = form(value)
    component = {**made(of, given), "value": there}
    state = opened(of, component)
    assert (state.pages["p"][field], state.kept) == (shown, [])
    page = of.describe(state)["pages"][0]
    of.submit(
        "p", {one["name"]: one["value"] for one in page["fields"] if not one["secret"]}, state
    )
    assert changed(of, component, state) == component


def test_a_class_that_a_field_chooses_is_read() -> None:
    """The type of an object may be a field, in a template as well."""
    inner = "  inner: {'?': {type: $.p.kind}, text: $.p.text}\n"
    of = form("$.p.flag.switch($ => $inner, true => null)", inner)
    component = made(of, {"flag": True, "kind": "c", "text": "q"})
    state = opened(of, component)
    assert [state.pages["p"][one] for one in ("flag", "kind", "text")] == [True, "c", "q"]
    of.submit("p", {"kind": "b"}, state)
    after = changed(of, component, state)
    # It is another object: it does not take the id of the one that was there.
    assert after["value"]["?"]["type"] == "b"
    assert after["value"]["?"]["id"] != component["value"]["?"]["id"]


def test_a_row_that_goes_takes_no_other_with_it() -> None:
    """Of a table of objects the others keep their ids, also those behind it."""
    text = (
        "Application:\n  '?': {type: T}\n"
        "  rows: !yaql \"$.p.rows.select(dict('?' => dict(type => R), name => $.name))\"\n"
        "Forms: [{p: {fields: [{name: rows, type: table, columns: [{columnName: name}]}]}}]\n"
    )
    of = load_form(text, package_name="T", title="T")
    component = made(of, {"rows": [{"name": one} for one in "abc"]})
    for one, port in zip(component["rows"], (1, 2, 3), strict=True):
        one["port"] = port
    state = opened(of, component)
    assert state.pages["p"]["rows"] == [{"name": one} for one in "abc"]
    of.submit("p", {"rows": [{"name": "b"}, {"name": "c"}, {"name": "d"}]}, state)
    rows = changed(of, component, state)["rows"]
    assert rows[:2] == component["rows"][1:]
    assert rows[2]["name"] == "d"
    assert rows[2]["?"]["id"] not in {one["?"]["id"] for one in component["rows"]}


def test_a_part_that_begins_needs_its_fields() -> None:
    """Fields of a part that the component has not are checked when it gets the part."""
    fields = "[{name: has, type: boolean}, {name: word, type: string, enabled: $.p.has}]"
    text = (
        "Templates:\n  part: {'?': {type: P}, word: $.p.word}\n"
        "Application:\n  '?': {type: T}\n  part: $.p.has.switch($ => $part, true => null)\n"
        f"Forms: [{{p: {{fields: {fields}}}}}]\n"
    )
    of = load_form(text, package_name="T", title="T")
    component = made(of, {"has": False})
    state = opened(of, component)
    of.submit("p", {}, state)
    assert changed(of, component, state) == component
    with pytest.raises(PageInvalid) as refused:
        of.submit("p", {"has": True}, state)
    assert list(refused.value.errors) == ["word"]
    of.submit("p", {"has": True, "word": "w"}, state)
    assert changed(of, component, state)["part"]["word"] == "w"


@pytest.mark.parametrize(("own", "has"), [("mine", True), ("", False)])
def test_a_switch_that_is_not_in_the_component_is_read_by_what_it_shows(
    own: str, has: bool
) -> None:
    """What the component has can be seen in its form."""
    fields = (
        "[{name: has, type: boolean}, {name: kind, type: choice, choices: [[a, A], [b, B]]},"
        " {name: own, type: string, required: false, visible: $.p.has},"
        " {name: other, type: string, required: false, enabled: $.p.kind = b}]"
    )
    text = (
        "Application: {'?': {type: T}, own: $.p.own, other: $.p.other}\n"
        f"Forms: [{{p: {{fields: {fields}}}}}]\n"
    )
    of = load_form(text, package_name="T", title="T")
    component = {"?": {"type": "T", "id": "t"}, "own": own, "other": own}
    state = opened(of, component)
    assert [state.pages["p"][one] for one in ("has", "kind")] == [has, "b" if has else "a"]
    assert changed(of, component, state) == component


def test_a_component_that_no_form_has_made_opens() -> None:
    """What it lacks is shown as at first, what it has is read, and nothing of it is lost or added."""
    of = class_form()
    component: Json = {
        "?": {"type": "org.acme.App", "id": "a1"}, "port": 4, "labels": {"k": "v"}, "tags": ["t"],
        "extra": {"x": 1},
    }  # fmt: skip
    state = opened(of, component, OFFERS)
    main = state.pages["main"]
    assert (main["port"], main["labels"], main["tags"]) == (4, "k=v", "t")
    assert changed(of, component, state, OFFERS) == component
    of.submit("main", {**_plain(main), "port": 5}, state, OFFERS)
    assert changed(of, component, state, OFFERS) == {**component, "port": 5}


def test_what_is_offered_no_more_can_stay() -> None:
    """An image or a component that is gone is a choice as long as the component has it."""
    of = class_form()
    component = made(of, {"adminPassword": "x", "database": "d1", "nodes": 2}, OFFERS)
    none = Offers({"flavors": [], "images": [], "keypairs": []}, [])
    state = opened(of, component, none)
    page = of.describe(state, none)["pages"][0]
    image = next(one for one in page["fields"] if one["name"] == "server_image")
    assert image["choices"] == [{"value": "i1", "label": "i1"}]
    shown = {one["name"]: one["value"] for one in page["fields"] if not one["secret"]}
    of.submit("main", {**shown, "port": 3}, state, none)
    assert changed(of, component, state, none) == {**component, "port": 3}


@pytest.mark.parametrize("name", DATA)
def test_published_definitions_open_again(name: str) -> None:
    """With the values that an operator's browser sends, nothing is changed; objects keep their ids."""
    offers = offers_of(ENVIRONMENT)
    text = (DEFINITIONS / f"{name}.yaml").read_text(encoding="utf-8")
    of = load_form(text, package_name="org.acme.App", title="App")
    state = of.begin()
    for page in of.pages:
        of.submit(page.name, DATA[name].get(page.name, {"application_name": "x"}), state, offers)
    component = of.build(state, offers)
    again = opened(of, component, offers)
    assert again.kept == []
    for page in of.describe(again, offers)["pages"]:
        shown = {one["name"]: one["value"] for one in page["fields"] if not one["secret"]}
        of.submit(page["name"], shown, again, offers)
    assert changed(of, component, again, offers) == component


@pytest.mark.parametrize("name", SAMPLES)
def test_a_sample_that_is_edited_keeps_its_machines(name: str) -> None:
    """For each field of each sample: a change of it changes that value only."""
    text = (LIBRARY / name / "UI" / "ui.yaml").read_text(encoding="utf-8")
    of = load_form(text, package_name=f"org.vetro.samples.{name}", title=name)
    values = {one.path: "Abcdef1!x" for one in of.fields if one.type == "password"}
    values |= {one.path: "i1" for one in of.fields if one.type in ("image", "flavor")}
    values |= {one.path: "c1" for one in of.fields if str(one.type).startswith("org.")}
    component = made(of, values)
    for one in of.definition.pages:
        for field in one.fields:
            state = opened(of, component)
            assert state.kept == []
            was = state.pages[one.name][field.name]
            new = (
                not was if isinstance(was, bool) else was + 1 if isinstance(was, int) else f"{was}x"
            )
            entered: Json = {field.name: new}
            if field.type == "password":
                entered[f"{field.name}-clone"] = new
            of.submit(one.name, entered, state)
            after = changed(of, component, state)
            assert after != component, field.path
            assert _ids(component) <= _ids(after), field.path
            if "attern" not in field.name and "hostname" not in field.name:
                gone = Counter(_names(component)) - Counter(_names(after))
                assert not gone, field.path


@given(
    text=st.text(st.characters(codec="utf-8", exclude_categories=["Cs", "Cc"]), max_size=12),
    number=st.integers(0, 6),
    flag=st.booleans(),
    kind=st.sampled_from("abc"),
    touched=st.sampled_from(["number", "kind", "flag"]),
)
def test_any_object_survives_its_form(
    text: str, number: int, flag: bool, kind: str, touched: str
) -> None:
    """Whatever was filled in: opening and saving is nothing, and one entry is as a new object with it."""
    templates = NODE + INNER
    value = (
        "repeat($node, $.p.number)\n  kind: $.p.kind\n  text: $.p.other\n"
        "  inner: $.p.flag.switch($ => $inner, true => null)"
    )
    of = form(value, templates)
    given_: Json = {"text": text, "other": text, "number": number, "flag": flag, "kind": kind}
    component = made(of, given_)
    state = opened(of, component)
    assert changed(of, component, state) == component
    new = {"number": number + 1, "kind": "a" if kind == "b" else "b", "flag": not flag}[touched]
    known = "p.text" not in state.kept
    of.submit("p", {touched: new}, state)
    if touched == "flag" and new and not known:
        with pytest.raises(FormError):
            changed(of, component, state)
        return
    after = changed(of, component, state)
    same = {key: one for key, one in component.items() if key not in ("value", "kind", "inner")}
    assert {key: after[key] for key in same} == same
    assert after["value"][:number] == component["value"]
    assert (after["kind"], len(after["value"])) == (
        new if touched == "kind" else kind,
        number + (touched == "number"),
    )


def _plain(values: Json) -> Json:
    return {key: one for key, one in values.items() if key != "adminPassword"}


def _without_ids(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_ids(one) for key, one in cast("Json", value).items() if key != "id"}
    return (
        [_without_ids(one) for one in cast("list[Any]", value)]
        if isinstance(value, list)
        else value
    )


def _objects(value: Any) -> Iterator[Json]:
    """All objects of a component, in order."""
    if isinstance(value, dict):
        node = cast("Json", value)
        if "?" in node:
            yield node
        value = list(node.values())
    for one in cast("list[Any]", value) if isinstance(value, list) else []:
        yield from _objects(one)


def _ids(value: Any) -> set[str]:
    return {one["?"]["id"] for one in _objects(value)}


def _names(value: Any) -> list[str]:
    return [one["name"] for one in _objects(value) if "name" in one]
