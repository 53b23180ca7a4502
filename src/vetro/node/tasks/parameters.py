"""Reading task parameters: every wrong type gives an error text, never an exception of the code."""

from __future__ import annotations

import contextlib
import re
import signal as signals
from collections.abc import Generator, Mapping
from typing import cast

from vetro.digits import is_number
from vetro.node.errors import DriverError, TaskFailure
from vetro.node.vm_objects import CONTAINER_BRANDS, check_uuid

CONTAINER_STOP_SECONDS, HVM_STOP_SECONDS = 60.0, 180.0


def invalid(message: str) -> TaskFailure:
    """The error for an invalid parameter."""
    return TaskFailure(message, "InvalidPayload")


def vm_uuid(params: Mapping[str, object]) -> str:
    """The uuid of the task's VM."""
    return check_uuid(params.get("uuid") or params.get("vm_uuid"))


def array(params: Mapping[str, object], name: str) -> list[object]:
    """A list; absent is empty."""
    value = params.get(name)
    if value is None:
        return []
    if not isinstance(value, list):
        raise invalid(f"{name} must be an array")
    return cast("list[object]", value)


def objects(params: Mapping[str, object], name: str) -> list[dict[str, object]]:
    """A list of objects; absent is empty."""
    items = array(params, name)
    for item in items:
        if not isinstance(item, dict):
            raise invalid(f"{name} must be an array of objects")
    return cast("list[dict[str, object]]", items)


def text(params: Mapping[str, object], name: str) -> str:
    """A text that is required."""
    value = params.get(name)
    if not isinstance(value, str) or not value:
        raise invalid(f"{name} must be a text")
    return value


def flag(params: Mapping[str, object], name: str) -> bool:
    """``true`` or ``'true'``."""
    return params.get(name) in (True, "true")


def seconds(value: object, default: float, name: str) -> float:
    """A number, or its digits, of at least 0."""
    if value is None:
        return default
    if isinstance(value, str) and re.fullmatch(r"\d+(\.\d+)?", value):
        return float(value)
    if isinstance(value, bool) or not isinstance(value, (int, float)) or value < 0:
        raise invalid(f'Invalid type: "{type(value).__name__}" for {name}')
    return float(value)


def stop_seconds(params: Mapping[str, object], brand: object = "lx") -> float:
    """How long a guest may take to stop by itself; VMs get longer than containers."""
    default = CONTAINER_STOP_SECONDS if brand in CONTAINER_BRANDS else HVM_STOP_SECONDS
    return seconds(params.get("timeout"), default, "timeout")


def signal_number(value: object) -> int:
    """A signal by number or name, with or without ``SIG``. Errors: ``TaskFailure``."""
    word = str(value).upper()
    if is_number(word):
        try:
            return signals.Signals(int(word)).value
        except ValueError:
            word = f"number {word}"
    name = word if word.startswith("SIG") else f"SIG{word}"
    known = {signal.name: signal.value for signal in signals.Signals}
    if name not in known:
        raise invalid(f"There is no signal '{value}'")
    return known[name]


@contextlib.contextmanager
def tolerate(params: Mapping[str, object], *codes: str) -> Generator[None, None, None]:
    """Treat these error codes as success: the requested state exists already."""
    try:
        yield
    except DriverError as error:
        if not (flag(params, "idempotent") and error.code in codes):
            raise
