"""The IPv6 address of the guests' door, and how a guest that has no IPv4 finds it."""

import socket

import pytest

from vetro.guest.agent.transports import mailbox
from vetro.ipv6_door import embedded, over_ipv6, plain_door


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("http://198.18.0.1:8082", "http://[64:ff9b:1::c612:1]:8082"),
        ("http://10.0.0.1/agents?a=b", "http://[64:ff9b:1::a00:1]/agents?a=b"),
        ("http://door.example:8082", None),
        ("http://[fd00::1]:8082", None),
        ("", None),
    ],
)
def test_a_url_over_ipv6(url: str, expected: str | None) -> None:
    """An IPv4 address is embedded in an IPv6 one; names and IPv6 addresses have no other."""
    assert over_ipv6(url) == expected


@pytest.mark.parametrize(
    ("routes", "expected"),
    [
        ({socket.AF_INET, socket.AF_INET6}, "198.18.0.1"),
        ({socket.AF_INET6}, embedded("198.18.0.1")),
        (set[socket.AddressFamily](), "198.18.0.1"),
    ],
)
def test_a_guest_takes_the_family_that_it_has(
    monkeypatch: pytest.MonkeyPatch, routes: set[socket.AddressFamily], expected: str
) -> None:
    """The agent uses the embedded address only where nothing leads to the IPv4 one."""

    def has_route(family: socket.AddressFamily, _address: str) -> bool:
        return family in routes

    monkeypatch.setattr(mailbox, "has_route", has_route)
    assert mailbox.reachable("198.18.0.1") == expected
    assert mailbox.reachable("door.example") == "door.example"


def test_a_route_is_looked_for_without_sending() -> None:
    """Loopback is reached; what is no address of the family is not."""
    assert mailbox.has_route(socket.AF_INET, "127.0.0.1")
    assert not mailbox.has_route(socket.AF_INET6, "127.0.0.1")


@pytest.mark.parametrize(
    ("door", "plain"),
    [
        ("[64:ff9b:1::c612:1]:8082", "198.18.0.1:8082"),
        ("[64:ff9b:1::c612:1]", "198.18.0.1"),
        ("198.18.0.1:8082", "198.18.0.1:8082"),
        ("[2001:db8::1]:8082", "[2001:db8::1]:8082"),
        ("vetro.example", "vetro.example"),
        ("", ""),
        ("[", "["),
    ],
)
def test_a_door_has_one_name_in_both_families(door: str, plain: str) -> None:
    """So that a guest is known to come there, whichever it uses."""
    assert plain_door(door) == plain
