"""Custom constraints of parameters: what a value has to be beyond its type.

Some can be checked with the value alone. Others name something that the cloud has to have; a template keeps
those for whoever knows the cloud (`vetro.stacks.operations.constraints`).
"""

from __future__ import annotations

import ipaddress
import re
import zoneinfo
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import cast

from vetro.stacks.errors import TemplateError
from vetro.stacks.model import Json

_LABEL = r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?"
_NAME = re.compile(rf"{_LABEL}(\.{_LABEL})*\.?", re.IGNORECASE)
_MAC = re.compile(r"[0-9a-f]{2}(:[0-9a-f]{2}){5}", re.IGNORECASE)
_CRON = re.compile(r"[\d*,/a-zA-Z-]+( +[\d*,/a-zA-Z-]+){4,5}")
_CRON_WORDS = re.compile(r"@(yearly|annually|monthly|weekly|daily|midnight|hourly)")


@dataclass(frozen=True, slots=True)
class CustomConstraint:
    """A parameter's value, and what the cloud has to have for it: a `neutron.network`, say."""

    parameter: str
    kind: str
    value: str
    said: str | None = None
    """The author's words for who violates it."""

    def refusal(self, reason: str) -> TemplateError:
        """The error for a value that does not hold."""
        return TemplateError(
            f"The parameter {self.parameter!r} is {self.value!r}: {self.said or reason}"
        )


def custom_constraints(
    declared: Mapping[str, Mapping[str, Json]], values: Mapping[str, Json]
) -> Iterator[CustomConstraint]:
    """Those that only the cloud can check. Raises `TemplateError` for a value that violates another.

    An empty text is not a value: templates give it for what may be left out.
    """
    for name, value in values.items():
        listed: Json = declared[name].get("constraints") or []
        for one in cast("list[Json]", listed):
            rules = cast("dict[str, Json]", one) if isinstance(one, dict) else {}
            kind, said = rules.get("custom_constraint"), rules.get("description")
            members = cast("list[Json]", value) if isinstance(value, list) else [value]
            for member in members if kind is not None else ():
                if member in ("", None):
                    continue
                wanted = CustomConstraint(name, str(kind), str(member), said)
                test = _OF_VALUES.get(wanted.kind)
                if test is None:
                    yield wanted
                elif not test(wanted.value):
                    raise wanted.refusal(f"it must be {_WORDS[wanted.kind]}")


def _holds(read: Callable[[str], object]) -> Callable[[str], bool]:
    def test(value: str) -> bool:
        try:
            read(value)
        except (ValueError, OSError):  # a time zone may be the name of a directory
            return False
        return True

    return test


def _is_name(value: str) -> bool:
    return len(value) <= 255 and _NAME.fullmatch(value) is not None


def _is_range(value: str) -> bool:
    return "/" in value and _holds(lambda text: ipaddress.ip_network(text, strict=False))(value)


_is_address = _holds(ipaddress.ip_address)
_OF_VALUES: Mapping[str, Callable[[str], bool]] = {
    "ip_addr": _is_address,
    "net_cidr": _is_range,
    "ip_or_cidr": lambda value: _is_address(value) or _is_range(value),
    "mac_addr": lambda value: _MAC.fullmatch(value) is not None,
    "dns_name": _is_name,
    "rel_dns_name": _is_name,
    "dns_domain": lambda value: value.endswith(".") and _is_name(value),
    "timezone": _holds(zoneinfo.ZoneInfo),
    "expiration": _holds(datetime.fromisoformat),
    "cron_expression": lambda value: (
        _CRON.fullmatch(value.strip()) is not None or _CRON_WORDS.fullmatch(value) is not None
    ),
}
_WORDS = {
    "ip_addr": "an IP address",
    "net_cidr": "a range of addresses such as 10.0.0.0/24",
    "ip_or_cidr": "an IP address or a range of them",
    "mac_addr": "a MAC address such as 52:54:00:12:34:56",
    "dns_name": "a name of DNS",
    "rel_dns_name": "a name of DNS",
    "dns_domain": "a domain that ends in a dot",
    "timezone": "a time zone such as Europe/Vienna",
    "expiration": "a date and time such as 2030-01-31T12:00:00",
    "cron_expression": "a cron expression such as '0 4 * * *'",
}
VALUE_KINDS = frozenset(_OF_VALUES)
