"""A Heat on paper: it keeps templates, previews updates as a real one does, and makes resources that are ids.

What is modelled is from Heat 19.0 (heat/engine/update.py, resource.py): a preview has no values for what uses
another resource, so it takes its name for its id and nothing for its attributes; an update has them.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

from tests.openstack.stub import Answer, Stub

from vetro.documents import read_yaml
from vetro.stacks.heat.written_out import Wanted, written_out

ROOT = "/orchestration/stacks"
IN_PLACE: dict[str, dict[str, list[str]]] = json.loads(
    (Path(__file__).parent / "heat_in_place.json").read_text(encoding="utf-8")
)
"""The properties of resource types that Heat 19.0 changes in place, and those that make a resource anew."""
GROUPS = ("OS::Heat::ResourceGroup", "OS::Heat::AutoScalingGroup")


@dataclass
class Made:
    """A resource that there is."""

    type: str
    id: str
    stack: str
    status: str = "CREATE_COMPLETE"
    nested: str = ""
    state: str = "ACTIVE"
    attributes: dict[str, Any] = field(default_factory=dict[str, Any])


@dataclass
class Kept:
    """A stack."""

    id: str
    body: dict[str, Any]
    status: str = "CREATE_COMPLETE"
    made: dict[str, Made] = field(default_factory=dict[str, Made])
    """By path: ``group.0.server``."""


class PaperHeat:
    """Heat and Nova at a stub."""

    def __init__(self, stub: Stub) -> None:
        self.stub = stub
        self.stacks: dict[str, Kept] = {}
        self.changes: list[str] = []
        """What has been asked for that changes anything."""
        self.previews = 0
        self.network: Callable[[str, Any], Answer] = lambda _call, _given: None
        """How requests to the network service are answered."""
        self._ids = itertools.count(1)
        stub.keystone("orchestration", "compute")
        stub.answers = _Answers(stub.answers, self._answer)

    def says(self, call: str, answer: Answer) -> None:
        """Answer a call so from now on."""

        def say(_headers: dict[str, str], _given: Any) -> Answer:
            return answer

        self.stub.answers[call] = say

    def _answer(self, call: str, given: Any) -> Answer:
        method, _, path = call.partition(" ")
        if path.startswith("/orchestration/resource_types/"):
            return self._schema(path.rpartition("/")[2].replace("%3A", ":"))
        if path.startswith("/compute/servers/"):
            return self._server(path.rpartition("/")[2])
        if path.startswith("/network/"):
            return self.network(call, given)
        if not path.startswith(ROOT):
            return None
        parts = path.removeprefix(ROOT).strip("/").split("/")
        if method == "POST":
            return self._create(given)
        if method == "PATCH":
            return self._mark(parts, given)
        stack = self.stacks.get(parts[0])
        if stack is None:
            nested = self._nested(parts)
            return nested if nested is not None else NOT_FOUND
        rest = parts[2:]
        if method == "DELETE":
            self.changes.append(call)
            del self.stacks[parts[0]]
            return 204, None
        if method == "PUT":
            if rest == ["preview"]:
                self.previews += 1
                return 200, {"resource_changes": self.preview(stack, given)}
            self.changes.append(call)
            self.apply(stack, given)
            return 202, None
        return self._read(parts[0], stack, rest)

    def _read(self, name: str, stack: Kept, rest: list[str]) -> Answer:
        body = stack.body
        if not rest:
            times = {"creation_time": "2026-01-01T00:00:00Z", "updated_time": None}
            if stack.status == "UPDATE_COMPLETE":
                times["updated_time"] = f"2026-01-01T00:00:{next(self._ids) % 60:02}Z"
            tags = body["tags"].split(",") if body.get("tags") else None
            shown = {"id": stack.id, "stack_name": name, "stack_status": stack.status, "tags": tags}
            return 200, {"stack": {**shown, **times}}
        match rest:
            case ["template"]:
                return 200, body["template"]
            case ["files"]:
                return 200, body.get("files", {})
            case ["environment"]:
                found = cast("dict[str, Any]", read_yaml(body.get("environment") or "{}"))
                given = {**found.get("parameters", {}), **body.get("parameters", {})}
                return 200, {**found, "parameters": given}
            case ["events"]:
                # Each operation is over at once.
                event = {"id": f"{stack.id}-{len(self.changes)}", "physical_resource_id": stack.id}
                time = {"event_time": "2026-01-01T00:00:00Z", "resource_name": name}
                return 200, {"events": [{**event, **time, "resource_status": stack.status}]}
            case ["resources"]:
                deep = "nested_depth" in self.stub.query
                rows = [self._row(path, one) for path, one in stack.made.items()]
                return 200, {"resources": [r for r in rows if deep or r["_top"]]}
            case ["resources", resource]:
                return 200, {"resource": {"attributes": stack.made[resource].attributes}}
            case _:
                return NOT_FOUND

    def _row(self, path: str, one: Made) -> dict[str, Any]:
        at = f"{self.stub.url}{ROOT}/{one.stack}"
        links = [{"rel": "stack", "href": at}]
        if one.nested:
            links.append({"rel": "nested", "href": f"{self.stub.url}{ROOT}/{one.nested}"})
        parent, _, name = path.rpartition(".")
        return {
            "_top": not parent,
            "parent_resource": parent.rpartition(".")[2],
            "resource_name": name,
            "resource_type": one.type,
            "resource_status": one.status,
            "physical_resource_id": one.id,
            "links": links,
        }

    def _nested(self, parts: list[str]) -> Answer:
        """A resource of a nested stack."""
        if len(parts) == 4 and parts[2] == "resources":
            for stack in self.stacks.values():
                for path, one in stack.made.items():
                    if one.stack == "/".join(parts[:2]) and path.endswith(f".{parts[3]}"):
                        return 200, {"resource": {"attributes": one.attributes}}
        return None

    def _mark(self, parts: list[str], given: dict[str, Any]) -> Answer:
        """Somebody says that a resource is not healthy."""
        for stack in self.stacks.values():
            for path, one in stack.made.items():
                if one.stack == "/".join(parts[:2]) and path.rpartition(".")[2] == parts[3]:
                    assert given["mark_unhealthy"] is True
                    self.changes.append(f"mark {path}")
                    one.status = "CHECK_FAILED"
                    return 200, None
        return NOT_FOUND

    def _schema(self, type_: str) -> Answer:
        if type_ not in IN_PLACE:
            return NOT_FOUND
        known = IN_PLACE[type_]
        properties = {
            one: {"type": "string", "update_allowed": kind == "in_place"}
            for kind, names in known.items()
            for one in names
        }
        return 200, {"resource_type": type_, "properties": properties}

    def _server(self, id_: str) -> Answer:
        for stack in self.stacks.values():
            for one in stack.made.values():
                if one.id == id_ and one.state:
                    return 200, {"server": {"id": id_, "status": one.state}}
        return NOT_FOUND

    # --- what happens to stacks --------------------------------------------------------

    def _create(self, given: dict[str, Any]) -> Answer:
        if given["stack_name"] in self.stacks:
            return 409, {"error": {"message": "The Stack already exists."}}
        self.changes.append("POST")
        stack = Kept(f"id-{next(self._ids)}", given)
        self.stacks[given["stack_name"]] = stack
        for path, definition in self.definitions(given).items():
            self._make(given["stack_name"], stack, path, definition)
        return 201, {"stack": {"id": stack.id}}

    def definitions(self, body: Mapping[str, Any]) -> dict[str, tuple[str, dict[str, Any]]]:
        """Types and properties by path; also groups and nested templates."""
        more = (body.get("parameters", {}), body.get("files", {}), body.get("environment"))
        written = written_out(Wanted(body["template"], *more))
        return {path: (one.type, dict(one.properties)) for path, one in written.resources.items()}

    def _make(
        self, name: str, stack: Kept, path: str, definition: tuple[str, dict[str, Any]]
    ) -> None:
        at = f"{name}/{stack.id}"
        parts = path.split(".")
        for count in range(1, len(parts)):
            above = ".".join(parts[:count])
            if above not in stack.made:
                nested = f"{name}-{above.replace('.', '-')}/id-{next(self._ids)}"
                stack.made[above] = Made(GROUPS[0], nested, at, nested=nested)
            at = stack.made[above].nested
        type_, properties = definition
        number = next(self._ids)
        id_ = f"{path}-{number}"
        if type_ == "OS::Nova::KeyPair":
            id_ = properties["name"]
        made = Made(type_, id_, at)
        made.attributes = _attributes(type_, path, properties, number)
        stack.made[path] = made

    def preview(self, stack: Kept, given: dict[str, Any]) -> dict[str, list[dict[str, Any]]]:
        """The resources of the stack itself, as Heat previews them."""
        old, new = self.definitions(stack.body), self.definitions(given)
        found: dict[str, list[dict[str, Any]]] = {
            kind: [] for kind in ("unchanged", "updated", "replaced", "added", "deleted")
        }
        for name in (one for one in {**old, **new} if "." not in one):
            row = {"resource_name": name, "resource_type": (new.get(name) or old[name])[0]}
            if name not in new:
                found["deleted"].append(row)
            elif name not in old:
                found["added"].append(row)
            else:
                before = with_ids(old[name][1], stack.made)
                after = with_ids(new[name][1], None)
                kind = _kind(old[name][0], before, new[name][0], after)
                found[kind].append(row)
        return found

    def apply(self, stack: Kept, given: dict[str, Any]) -> None:
        """An update: what is made anew has another id."""
        old, new = self.definitions(stack.body), self.definitions(given)
        (name,) = (one for one, kept in self.stacks.items() if kept is stack)
        former = {path: with_ids(one[1], stack.made) for path, one in old.items()}
        for path in old.keys() - new.keys():
            del stack.made[path]
        for path, (type_, properties) in new.items():
            if path in old and stack.made[path].status != "CHECK_FAILED":
                after = with_ids(properties, stack.made)
                if _kind(old[path][0], former[path], type_, after) != "replaced":
                    continue
            self._make(name, stack, path, (type_, properties))
        stack.body = given
        stack.status = "UPDATE_COMPLETE"


NOT_FOUND: Answer = (404, {"error": {"message": "no"}})


class _Answers(dict[str, Any]):
    """The answers of a stub, and those of a function for every other call."""

    def __init__(self, known: Mapping[str, Any], other: Any) -> None:
        super().__init__(known)
        self._other = other

    def get(self, call: str, default: Any = None) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
        if call in self:
            return self[call]

        def answer(_headers: dict[str, str], given: Any) -> Answer:
            return self._other(call, given) or NOT_FOUND

        return answer


def _attributes(
    type_: str, path: str, properties: Mapping[str, Any], number: int
) -> dict[str, Any]:
    if type_ == "OS::Neutron::Port":
        wanted: list[dict[str, str]] = properties.get("fixed_ips") or [{}]
        has = [one.get("ip_address", f"10.0.0.{number}") for one in wanted]
        return {"fixed_ips": [{"ip_address": one} for one in has]}
    if type_ == "OS::Neutron::FloatingIP":
        return {"floating_ip_address": f"203.0.113.{number}"}
    if type_ == "OS::Neutron::Subnet":
        return {"cidr": properties.get("cidr")}
    return {"name": properties.get("name") or f"s-{path}-{number}"}


def _kind(old_type: str, before: dict[str, Any], type_: str, after: dict[str, Any]) -> str:
    """What Heat does with a resource."""
    if old_type != type_:
        return "replaced"
    keys = {*before, *after}
    changed = {one for one in keys if before.get(one) != after.get(one)}
    if not changed:
        return "unchanged"
    in_place = IN_PLACE.get(type_, {}).get("in_place", [])
    if type_ == "OS::Nova::Server":
        policies = (
            ("flavor", "flavor_update_policy", "RESIZE"),
            ("image", "image_update_policy", "REBUILD"),
            ("user_data", "user_data_update_policy", "REPLACE"),
        )
        for one, policy, default in policies:
            if one in changed and after.get(policy, default) == "REPLACE":
                return "replaced"
    return "updated" if changed <= set(in_place) else "replaced"


def with_ids(value: Any, made: Mapping[str, Made] | None) -> Any:
    """A value with the ids and attributes of resources; in a preview there are only names."""
    if isinstance(value, list):
        return [with_ids(one, made) for one in cast("list[Any]", value)]
    if not isinstance(value, dict):
        return value
    entries = cast("dict[str, Any]", value)
    if len(entries) == 1:
        ((key, argument),) = entries.items()
        if key == "get_resource":
            return argument if made is None else made[argument].id
        if key == "get_attr":
            if made is None:
                return None
            one = made[argument[0]]
            return one.attributes.get(argument[1], [one.id, argument[1:]])
    return {key: with_ids(one, made) for key, one in entries.items()}


def servers(stack: Kept) -> Iterator[tuple[str, str]]:
    """Names and ids of a stack's servers."""
    yield from ((n, one.id) for n, one in stack.made.items() if one.type == "OS::Nova::Server")
