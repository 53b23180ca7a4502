"""The topology of an environment, as the earlier dashboard's page read it (dashboard-and-cli.md A5)."""

from __future__ import annotations

import html
import re
from collections.abc import Iterator
from typing import cast

from vetro.json_values import JsonObject

_SECRET = re.compile(r"password|secret|token|private.?key", re.IGNORECASE)
_SERVER = re.compile(r"Instance|Server|Machine")
_PACKAGE_LOGO = "/dashboard/api/v1/catalog/packages/{}/logo"
#: Where a form keeps the package that it is of (packages-and-forms.md B8).
_STORED = "_26411a1861294160833743e45d0eaad9"
_STATUS = {
    "pending": "Waiting for deployment",
    "ready": "Deployed",
    "deploying": "Deployment is in progress",
    "deploy failure": "Deployment failed",
}
_MARK = "/dashboard/mark.svg"
EXTERNAL = "External_Network"
#: Objects in objects; a model that is deeper is not drawn further.
DEPTH = 32


def topology_of(environment: JsonObject) -> JsonObject | None:
    """``{environment, nodes}`` of an environment as the API shows it; ``None`` without components."""
    services = cast("list[JsonObject]", environment.get("services") or [])
    if not services:
        return None
    status = str(environment.get("status", ""))
    root = _node(str(environment["id"]), str(environment.get("name", "")), status)
    graph = _Graph(str(environment["id"]), status)
    for one in services:
        graph.visit(one, graph.root, "", 0)
    graph.refer()
    return {"environment": {**root, "link_type": "", "required_by": []}, "nodes": graph.nodes()}


def _node(id_: str, name: str, status: str) -> JsonObject:
    return {
        "id": id_,
        "name": name,
        "status": _STATUS.get(status, status),
        "image": _MARK,
        "image_size": 60,
        "image_x": -30,
        "image_y": -30,
        "text_x": 40,
        "text_y": ".35em",
        "required_by": [],
        "link_type": "relation",
        "in_progress": status in ("deploying", "deleting"),
        "info_box": "",
    }


class _Graph:
    """The nodes of a model, in its order."""

    def __init__(self, root: str, status: str) -> None:
        self.root = root
        self.status = status
        self._nodes: dict[str, JsonObject] = {}
        self._references: list[tuple[str, str]] = []

    def nodes(self) -> list[JsonObject]:
        return list(self._nodes.values())

    def visit(self, given: JsonObject, owner: str, path: str, depth: int) -> None:
        """Add an object, and the objects in it."""
        header: object = given.get("?")
        known = cast("JsonObject", header) if isinstance(header, dict) else {}
        id_ = str(known.get("id") or given.get("id") or "")
        if not id_ or id_ in self._nodes or depth > DEPTH:
            return
        class_name = str(known.get("type") or given.get("type") or "").partition("/")[0]
        name = given.get("name") or known.get("name") or path or class_name
        status = str(known.get("status") or self.status)
        node = _node(id_, str(name), status)
        node["required_by"].append(owner)
        stored: object = known.get(_STORED)
        if depth == 0:
            package = cast("JsonObject", stored).get("id") if isinstance(stored, dict) else None
            if package:
                node["image"] = _PACKAGE_LOGO.format(package)
        else:
            node["link_type"] = "unit" if path.startswith("units[") else "aggregation"
        addresses = given.get("ipAddresses")
        if _SERVER.search(class_name):
            node["in_progress"] = not addresses
            node["status"] = "Deployed" if addresses else _STATUS.get(status, status)
        self._nodes[id_] = node
        node["info_box"] = _info_box(node["name"], class_name, node["status"], given)
        for at, value in _values(given):
            if isinstance(value, dict):
                self.visit(cast("JsonObject", value), id_, at, depth + 1)
            elif isinstance(value, str):
                self._references.append((id_, value))
        instance: object = given.get("instance")
        if isinstance(instance, dict) and cast("JsonObject", instance).get("assignFloatingIp"):
            outside = self._nodes.setdefault(EXTERNAL, _node(EXTERNAL, EXTERNAL, "ready"))
            outside["required_by"].append(id_)

    def refer(self) -> None:
        """Say in each node which others name it."""
        for by, id_ in self._references:
            node = self._nodes.get(id_)
            if node is None or by == id_ or by in node["required_by"]:
                continue
            node["required_by"].append(by)
            if node["link_type"] == "aggregation":
                node["link_type"] = "reference"


def _values(given: JsonObject) -> Iterator[tuple[str, object]]:
    """The values of an object's properties with their paths, those of lists one by one."""
    for name, value in given.items():
        if name in ("?", "id"):
            continue
        if isinstance(value, list):
            for index, one in enumerate(cast("list[object]", value)):
                yield f"{name}[{index}]", one
        else:
            yield name, value


def _info_box(name: str, class_name: str, status: str, given: JsonObject) -> str:
    """Scalar properties and lists of them, as rows of HTML; every text of tenants is escaped."""
    rows = [("Type", class_name), ("Status", status)]
    for key, value in given.items():
        if key in ("?", "id", "name") or _SECRET.search(key) or value is None:
            continue
        if isinstance(value, list):
            items = cast("list[object]", value)
            if items and not any(isinstance(one, (dict, list)) for one in items):
                rows.append((key, ", ".join(str(one) for one in items)))
        elif not isinstance(value, dict):
            rows.append((key, str(value)))
    lines = "".join(
        f"<tr><th>{html.escape(key)}</th><td>{html.escape(text)}</td></tr>" for key, text in rows
    )
    return f"<h4>{html.escape(name)}</h4><table>{lines}</table>"
