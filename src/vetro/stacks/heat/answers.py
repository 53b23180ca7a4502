"""What Heat says, in the words of `vetro.stacks`: snapshots, failures, refusals, progress."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import cast

from vetro.openstack import RequestRefused
from vetro.stacks.errors import (
    AddressRangeTaken,
    DependencyCycle,
    InvalidProperty,
    PlacementFailure,
    ResourceFailure,
    StackBusy,
    StackError,
    TemplateError,
    UnresolvedReference,
    UnsupportedResource,
)
from vetro.stacks.heat.ownership import MARK, tags_of
from vetro.stacks.model import Json, Stack, StackFailure, StackResource, StackStatus

_KIND = re.compile(r"^(?:resources\.[^:]+: )?(?P<kind>[A-Za-z]+): (?P<text>.+)$", re.S)
#: Reasons of resources that stopped because another one had failed.
_CONSEQUENCE = re.compile(
    r"^(CREATE|UPDATE|DELETE) aborted|^Resource (CREATE|UPDATE) (failed|aborted)"
)
#: Heat's refusals of templates, and what each is here.
_REFUSALS: tuple[tuple[str, type[TemplateError]], ...] = (
    (r"resource type .* could not be found|unknown resource type", UnsupportedResource),
    (r"circular dependency", DependencyCycle),
    (r"specified reference|referenced attribute|parameter .*was not provided|unknown parameter",
     UnresolvedReference),
    (r"property|properties", InvalidProperty),
)  # fmt: skip
_SECTIONS = ("resource_registry", "parameter_defaults", "encrypted_param_names", "event_sinks")


def status_of(text: str) -> StackStatus:
    """A status in Heat's spelling; what only Heat has (checks, snapshots) is what it was before."""
    try:
        return StackStatus(text)
    except ValueError:
        state = text.partition("_")[2]
        return StackStatus(f"UPDATE_{state}")


def snapshot(
    shown: Mapping[str, Json],
    project_id: str,
    *,
    content: tuple[dict[str, Json], Mapping[str, Json], dict[str, str]] | None = None,
    resources: Iterable[Mapping[str, Json]] = (),
    failure: StackFailure | None = None,
) -> Stack:
    """A stack as Heat shows it. ``content``: its template, environment and files."""
    template, environment, files = content or ({}, {}, {})
    status = status_of(shown["stack_status"])
    reason = str(shown.get("stack_status_reason") or "") if status.failed else ""
    if failure is not None and failure.resource:
        reason = f"Resource {failure.resource!r} failed: {failure.text}"
    outputs = cast("list[dict[str, Json]]", shown.get("outputs") or [])
    return Stack(
        id=shown["id"],
        project_id=project_id,
        name=shown["stack_name"],
        status=status,
        reason=reason,
        template=template,
        parameters=dict(environment.get("parameters") or {}),
        created=moment(shown["creation_time"]),
        updated=moment(shown["updated_time"]) if shown.get("updated_time") else None,
        outputs={one["output_key"]: one.get("output_value") for one in outputs},
        tags=[one for one in tags_of(shown) if one != MARK],
        files=files,
        environment=environment_text(environment),
        resources={
            one["resource_name"]: StackResource(
                one["resource_name"],
                one["resource_type"],
                status_of(one["resource_status"]),
                str(one.get("resource_status_reason") or ""),
                one.get("physical_resource_id") or None,
            )
            for one in resources
        },
        failure=failure,
    )


def environment_text(environment: Mapping[str, Json]) -> str | None:
    """An environment beside its parameters, as text; Heat keeps no text. ``None``: nothing in it."""
    kept = {name: environment[name] for name in _SECTIONS if environment.get(name)}
    kept.pop("encrypted_param_names", None)
    registry = kept.get("resource_registry")
    if isinstance(registry, dict):
        # Heat adds an empty section of its own.
        own = {k: v for k, v in cast("dict[str, Json]", registry).items() if v}
        kept["resource_registry"] = own
        if not own:
            del kept["resource_registry"]
    return json.dumps(kept, sort_keys=True) if kept else None


def moment(text: str) -> datetime:
    """A time in UTC."""
    return datetime.fromisoformat(text.removesuffix("Z") + "+00:00")


def failure_of(events: Sequence[Mapping[str, Json]], shown: Mapping[str, Json]) -> StackFailure:
    """What made an operation fail, by the events since it began, oldest first."""
    for one in events:
        reason = str(one.get("resource_status_reason") or "")
        if one.get("physical_resource_id") == shown["id"]:
            continue  # the stack itself: a consequence
        if str(one["resource_status"]).endswith("_FAILED") and not _CONSEQUENCE.match(reason):
            return _failure(str(one["resource_name"]), reason)
    return _failure("", str(shown.get("stack_status_reason") or "Heat gives no reason"))


def _failure(resource: str, reason: str) -> StackFailure:
    found = _KIND.match(reason)
    text = found["text"] if found else reason
    kind: type[ResourceFailure] = ResourceFailure
    if "No valid host" in reason:
        kind = PlacementFailure
    elif "overlap" in reason.lower() and "cidr" in reason.lower():
        kind = AddressRangeTaken
    return StackFailure(resource, kind.__name__, text)


def refusal(error: RequestRefused, name: str) -> StackError:
    """Heat's refusal of a request about the stack ``name``."""
    text = str(error)
    if error.status == 409:
        return StackBusy(name, "busy at Heat")
    if error.status == 400:
        for pattern, kind in _REFUSALS:
            if re.search(pattern, text, re.IGNORECASE):
                if kind is DependencyCycle:
                    return DependencyCycle([text.partition(":")[2].strip() or text])
                return kind(f"Heat refuses the template of {name}: {text}")
        return TemplateError(f"Heat refuses the template of {name}: {text}")
    return StackError(f"Heat refuses to work on the stack {name} ({error.status}): {text}")


class Progress:
    """The resources that are being worked on, from events."""

    def __init__(self) -> None:
        self._working: dict[str, str] = {}

    def see(self, events: Iterable[Mapping[str, Json]], stack_id: str) -> None:
        """Take in events, oldest first."""
        for one in events:
            name, status = str(one["resource_name"]), str(one["resource_status"])
            if one.get("physical_resource_id") == stack_id:
                continue
            if status.endswith("_IN_PROGRESS"):
                self._working[name] = status.partition("_")[0].lower()
            else:
                self._working.pop(name, None)

    @property
    def text(self) -> str:
        """What Heat does now, in one line."""
        if not self._working:
            return "Heat"
        shown = sorted(self._working.items())[:5]
        more = f" and {len(self._working) - 5} more" if len(self._working) > 5 else ""
        return "Heat: " + ", ".join(f"{action} {name}" for name, action in shown) + more
