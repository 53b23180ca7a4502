"""The operations of a package patch."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vetro.catalog.patching import parse_operations
from vetro.http import BadRequest, Fault, Forbidden, NotFound

VIEW = {
    "tags": ["a", "b"], "categories": [], "name": "App", "description": "",
    "is_public": False, "enabled": True,
}  # fmt: skip


def patched(*operations: dict[str, Any]) -> dict[str, Any]:
    """A package's view after these operations."""
    view = dict(VIEW)
    for change in parse_operations(list(operations)):
        change.apply(view)
    return view


@pytest.mark.parametrize(
    ("op", "value", "tags"),
    [
        ("add", ["b", "c"], ["a", "b", "c"]),
        ("replace", ["c"], ["c"]),
        ("replace", [], []),
        ("remove", ["a"], ["b"]),
        ("remove", [], []),
    ],
)
def test_lists_are_added_to_replaced_and_emptied(op: str, value: list[str], tags: Any) -> None:
    """Values are added once, replaced or removed; removing no value removes all of them."""
    assert patched({"op": op, "path": "/tags", "value": value})["tags"] == tags


def test_removing_what_is_absent_is_an_error() -> None:
    """The error names the value and the attribute."""
    with pytest.raises(NotFound, match="Value 'z' of tags does not exist"):
        patched({"op": "remove", "path": "/tags", "value": ["z"]})


@pytest.mark.parametrize(
    ("operation", "error", "words"),
    [
        ("no object", BadRequest, "must be an object"),
        ({"op": "add"}, BadRequest, "needs 'op' and 'path'"),
        ({"op": "add", "path": "tags", "value": []}, BadRequest, "like /tags"),
        ({"op": "add", "path": "/tags/0", "value": []}, BadRequest, "like /tags"),
        ({"op": "replace", "path": "/owner_id", "value": "q"}, Forbidden, "'owner_id' may not"),
        ({"op": "remove", "path": "/name"}, Forbidden, "'remove' is not permitted on /name"),
        ({"op": "replace", "path": "/name"}, BadRequest, "needs a 'value'"),
        ({"op": "replace", "path": "/name", "value": " "}, BadRequest, "1 to 80 characters"),
        ({"op": "replace", "path": "/name", "value": 5}, BadRequest, "must be text"),
        ({"op": "replace", "path": "/enabled", "value": 1}, BadRequest, "true or false"),
        ({"op": "add", "path": "/tags", "value": "web"}, BadRequest, "a list of texts"),
        ({"op": "add", "path": "/tags", "value": ["x" * 81]}, BadRequest, "a list of texts"),
        ({"op": "add", "path": "/tags", "value": ["x", "x"]}, BadRequest, "twice"),
        (
            {"op": "add", "path": "/tags", "value": [str(n) for n in range(9999)]},
            BadRequest,
            "most",
        ),
    ],
)
def test_bad_operations_are_refused(operation: Any, error: type[Fault], words: str) -> None:
    """Each mistake has an error that says what is expected."""
    with pytest.raises(error, match=words):
        parse_operations([operation])


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=5,
)
OPERATIONS = st.fixed_dictionaries(
    {
        "op": st.sampled_from(["add", "replace", "remove", "move"]) | JSON,
        "path": st.sampled_from(["/tags", "/name", "/enabled", "/id"]) | JSON,
        "value": JSON,
    }
)


@given(JSON | st.lists(OPERATIONS))
def test_any_document_is_a_patch_or_refused(document: Any) -> None:
    """No document makes the reader fail with anything but a refusal."""
    try:
        changes = parse_operations(document)
    except Fault as error:
        assert error.status in (400, 403)
    else:
        assert len(changes) == len(document)
