"""How much a VM payload requests, under any of the fields' names."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from vetro.digits import is_number


@dataclass(frozen=True)
class Demand:
    """Memory and disk in MiB, CPU in percent of a core (0: no cap)."""

    memory: int
    disk: int
    cpu: int = 0
    owner_uuid: str = ""


def request_of(
    vm: Mapping[str, object], package: Mapping[str, object] | None
) -> Demand | tuple[str, str]:
    """The demand of a VM and its package; or the invalid field and the reason.

    Memory is ``max_physical_memory`` or ``ram``; a quota is in GiB in a VM and in MiB in a package.
    """
    given = {**(package or {}), **vm}
    numbers: dict[str, int] = {}
    for name, keys in (
        ("memory", ("max_physical_memory", "ram")),
        ("quota", ("quota",)),
        ("cpu", ("cpu_cap",)),
    ):
        value: object = next((given[key] for key in keys if given.get(key) is not None), None)
        if value is None:
            if name == "memory":
                return "vm.ram", '"ram" is undefined'
            value = 0
        if isinstance(value, str) and is_number(value):
            value = int(value)
        if isinstance(value, bool) or not isinstance(value, (int, float)) or value < 0:
            return f"vm.{keys[-1]}", f'"{value}" is not a number of 0 or more'
        numbers[name] = int(value)
    disk = numbers["quota"] * 1024 if "quota" in vm else numbers["quota"]
    return Demand(numbers["memory"], disk, numbers["cpu"], str(given.get("owner_uuid") or ""))
