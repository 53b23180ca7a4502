"""What the broker makes of a platform's request, without processes (catalog-api.md §13)."""

import base64

import pytest

from vetro.broker.catalog_api import identity_url
from vetro.broker.face import credentials_of
from vetro.broker.offers import application_object, credentials_action, described, offer
from vetro.http import Unauthorized

PACKAGE = {
    "id": "k1",
    "name": "Database",
    "fully_qualified_name": "org.example.Database",
    "version": "1.0.0",
    "description": "",
    "tags": ["sql"],
}


def basic(text: str) -> str:
    """A login header."""
    return "Basic " + base64.b64encode(text.encode()).decode()


def test_the_first_colon_ends_the_name() -> None:
    """Passwords may have colons, and anything else but NUL."""
    assert credentials_of(basic("ann:a:b:")) == ("ann", "a:b:")
    assert credentials_of(basic("ann:")) == ("ann", "")
    assert credentials_of(basic("änn:ß")) == ("änn", "ß")


@pytest.mark.parametrize(
    "header", ["", "Basic", "Basic ", "Basic !", basic("ann"), "Bearer x", basic("a\0b:c")]
)
def test_no_login_is_401_with_a_challenge(header: str) -> None:
    """The platform is told how to log in."""
    with pytest.raises(Unauthorized, match="Authorization required") as refused:
        credentials_of(header)
    assert refused.value.headers["WWW-Authenticate"].startswith("Basic ")


@pytest.mark.parametrize("given", ["http://k/v3", "http://k/v3/", "http://k", "http://k/v2.0/"])
def test_the_identity_is_asked_at_version_3(given: str) -> None:
    """Whatever version the setting names."""
    assert identity_url(given) == "http://k/v3"


def test_an_instance_is_an_application_named_after_its_space() -> None:
    """Parameters are its properties; headers of objects in them get ids of their own, the root's goes."""
    inner = {"?": {"type": "org.Instance", "id": "fixed"}, "flavor": "small"}
    parameters = {"?": {"id": "mine"}, "size": 3, "instance": inner, "more": [inner, 5]}
    made = application_object(PACKAGE, "a1", "space-1", parameters)
    assert made["?"] == {
        "type": "org.example.Database",
        "id": "a1",
        "classVersion": "1.0.0",
        "k1-1": {"name": "Database"},
    }
    assert (made["name"], made["size"], made["more"][1]) == ("space-1", 3, 5)
    found = [made["instance"], made["more"][0]]
    ids = {one["?"]["id"] for one in found}
    assert len(ids) == 2
    assert "fixed" not in ids
    assert [one["flavor"] for one in found] == ["small", "small"]
    assert inner["?"] == {"type": "org.Instance", "id": "fixed"}
    # A platform may name the application itself.
    assert application_object(PACKAGE, "a1", "space-1", {"name": "x"})["name"] == "x"
    assert set(application_object(PACKAGE, "a1", "space-1", {})) == {"?", "name"}


def test_a_service_has_one_plan() -> None:
    """Its id is the package's with ``-1``; a package without a description is described by its name."""
    (service,) = offer([PACKAGE])["services"]
    assert service == {
        "id": "k1",
        "name": "Database",
        "description": "Database",
        "bindable": True,
        "plan_updateable": False,
        "tags": ["sql"],
        "plans": [
            {
                "id": "k1-1",
                "name": "default",
                "description": "Default plan for the service Database",
            }
        ],
    }


@pytest.mark.parametrize(("length", "kept"), [(256, 256), (257, 253)])
def test_descriptions_end_in_time(length: int, kept: int) -> None:
    """One of more than 256 characters is cut after the 253rd."""
    text = "x" * length
    assert described(text) == (text if kept == length else "x" * kept + " ...")


def test_credentials_come_from_the_action_whose_id_says_so() -> None:
    """Its id contains ``getCredentials``; an application without one has none."""
    actions = {"a1_restart": {}, "a1_getCredentials": {}}
    assert credentials_action({"id": "a1", "_actions": actions}) == "a1_getCredentials"
    assert credentials_action({"id": "a1", "_actions": {"a1_restart": {}}}) is None
    assert credentials_action({"id": "a1"}) is None
    assert credentials_action(None) is None
