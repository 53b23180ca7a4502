"""Samples of one server that wait for the database become one."""

from typing import Any

import pytest

from vetro.compute.servers.samples import joined

WHOLE: dict[str, Any] = {"vms": {"a": 1, "b": 1}, "meminfo": {"x": 1}, "timestamp": "1"}


def vms(time: str = "", *, partial: bool = False, **held: int) -> tuple[dict[str, Any], bool]:
    """A sample of VMs alone."""
    return {"vms": held, "timestamp": time, "partial": partial}, True


@pytest.mark.parametrize(
    ("first", "second", "held", "only_vms"),
    [
        ((WHOLE, False), vms("2", b=2, partial=True), {"a": 1, "b": 2}, False),
        ((WHOLE, False), vms("2", c=2), {"c": 2}, False),
        (vms("0", a=0, partial=True), (WHOLE, False), {"a": 1, "b": 1}, False),
        (vms("2", b=2, partial=True), (WHOLE, False), {"a": 1, "b": 2}, False),
        ((WHOLE, False), ({**WHOLE, "vms": {}, "timestamp": "0"}, False), {"a": 1, "b": 1}, False),
        ((WHOLE, False), ({"vms": {"z": 9}}, False), {"z": 9}, False),
        (vms("2", a=2, partial=True), vms("3", b=3, partial=True), {"a": 2, "b": 3}, True),
        (vms("3", a=3, partial=True), vms("2", a=2, b=2, partial=True), {"a": 3, "b": 2}, True),
        (vms("2", a=2), vms("3", b=3, partial=True), {"a": 2, "b": 3}, True),
        (vms("2", a=2, partial=True), vms("3", b=3), {"b": 3}, True),
    ],
)
def test_waiting_samples_are_joined(
    first: Any, second: Any, held: dict[str, int], only_vms: bool
) -> None:
    """By the node's clock, whichever came first; what is not part of a sample stays as it was."""
    sample, alone = joined(first, second)
    assert (sample["vms"], alone) == (held, only_vms)
    partial = first[0].get("partial") and second[0].get("partial")
    assert bool(sample.get("partial")) == bool(partial)
    if WHOLE in (first[0], second[0]) and held != {"z": 9}:
        assert sample["meminfo"] == {"x": 1}
