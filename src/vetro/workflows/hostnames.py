"""Names of units (§12): numbers that no process keeps in memory, and clashes found before a machine is."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import cast

from vetro.workflows.running import Frame, RunningTask
from vetro.workflows.values import Json

WINDOWS_LENGTH = 15
"""Characters that a Windows name may have."""
WINDOWS_TYPES = {
    "activeDirectory", "webServer", "aspNetApp", "webServerFarm", "aspNetAppFarm",
    "msSqlServer", "msSqlClusterServer",
}  # fmt: skip
_DIGITS = "0123456789abcdefghijklmnopqrstuvwxyz"


def services_of(model: Json) -> list[dict[str, Json]]:
    """The services of a model: a list, or a map of services or of lists of them."""
    services = cast("dict[str, Json]", model).get("services") if isinstance(model, dict) else None
    found: list[dict[str, Json]] = []

    def take(value: Json) -> None:
        if isinstance(value, list):
            for item in cast("list[Json]", value):
                take(item)
        elif isinstance(value, dict):
            found.append(cast("dict[str, Json]", value))

    if isinstance(services, dict) and "units" not in services:
        for value in cast("dict[str, Json]", services).values():
            take(value)
    else:
        take(services)
    return found


def units_of(service: dict[str, Json]) -> Iterator[dict[str, Json]]:
    """The units of a service that are maps."""
    units = service.get("units")
    if isinstance(units, list):
        for unit in cast("list[Json]", units):
            if isinstance(unit, dict):
                yield cast("dict[str, Json]", unit)


def hostname_of(unit: dict[str, Json]) -> str | None:
    """A unit's persistent host name."""
    state = unit.get("state")
    name = cast("dict[str, Json]", state).get("hostname") if isinstance(state, dict) else None
    return name if isinstance(name, str) else None


def generate_hostname(frame: Frame, pattern: str, service_id: str | None) -> str | None:
    """A new name for the unit at the cursor; ``None`` after a clash, which is reported and stops the
    task.
    """
    task = frame.run.task
    services = services_of(task.model)
    service = next((one for one in services if one.get("id") == service_id), None)
    taken = {
        name.lower() for one in services for unit in units_of(one) if (name := hostname_of(unit))
    }
    if not pattern:
        return _random_name(task)
    if "#" in pattern:
        name = _numbered(task.issued_names, service, service_id, pattern)
        clash = name.lower() in taken
    else:
        name = pattern
        clash = name.lower() in taken | {one.lower() for _, one in task.issued_names} or (
            service is not None and len(list(units_of(service))) > 1
        )
    unit_id = None if frame.object_id is None else frame.object_id.rpartition("/")[2]
    if clash:
        task.report(
            "unit",
            unit_id,
            "error",
            f"The host name {name} of pattern {pattern} is used twice: "
            "a pattern with '#' numbers the units",
        )
        task.request_stop()
        return None
    task.issued_names.add((service_id, name))
    if len(name) > WINDOWS_LENGTH and service is not None and is_windows(service):
        task.report(
            "unit",
            unit_id,
            "warning",
            f"The host name {name} has {len(name)} characters; Windows takes {WINDOWS_LENGTH}",
        )
    return name


def _numbered(
    issued: set[tuple[str | None, str]],
    service: dict[str, Json] | None,
    service_id: str | None,
    pattern: str,
) -> str:
    before, _, after = pattern.partition("#")
    shape = re.compile(re.escape(before) + r"([1-9][0-9]{0,9})" + re.escape(after), re.IGNORECASE)
    names = {name for owner, name in issued if owner == service_id}
    names.update(filter(None, map(hostname_of, units_of(service))) if service is not None else ())
    used = {int(found[1]) for name in names if (found := shape.fullmatch(name))}
    number = 1
    while number in used:
        number += 1
    return f"{before}{number}{after}"


def is_windows(service: dict[str, Json]) -> bool:
    """Whether a service's units run Windows, by its type or the type of its image."""
    image = service.get("osImage")
    kind = str(cast("dict[str, Json]", image).get("type") or "") if isinstance(image, dict) else ""
    return is_windows_type(service.get("type")) or kind.lower().startswith(("windows", "ws-"))


def _random_name(task: RunningTask) -> str:
    """Five letters, eight characters of the time, two that count: 15 in all, a letter first."""
    bits = int(task.port.new_id(), 16)
    letters = ""
    for _ in range(5):
        bits, index = divmod(bits, 26)
        letters += chr(ord("a") + index)
    milliseconds = int(task.round_began.timestamp() * 1000)
    count = task.next_count() % 1296
    return letters + _base36(milliseconds, 8) + _base36(count, 2)


def _base36(number: int, width: int) -> str:
    digits = ""
    for _ in range(width):
        number, index = divmod(number, 36)
        digits = _DIGITS[index] + digits
    return digits


def is_windows_type(kind: Json) -> bool:
    """Whether a service's type, which may be anything, is one whose units run Windows."""
    return isinstance(kind, str) and kind in WINDOWS_TYPES
