"""NIC tags: which of the machine's interfaces carry which networks (compute-node-agent.md §1).

The networking file is ``{admin_tag, nictags: [{name, mac, mtu?, uuid?}]}``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, cast

import structlog

from vetro.node.errors import TaskFailure
from vetro.node.files import read_json, write_json

log = structlog.get_logger(__name__)

_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,30}")
_MAC = re.compile(r"[0-9a-f]{2}(:[0-9a-f]{2}){5}")


class NicTags:
    """The tags of one node, kept in ``file``; read each time, as others may write it."""

    def __init__(self, file: Path, sys_net: Path = Path("/sys/class/net")) -> None:
        self.file = file
        self._sys_net = sys_net

    def read(self) -> dict[str, object]:
        """The whole file, with defaults."""
        kept: object = read_json(self.file)
        found = cast("dict[str, Any]", kept) if isinstance(kept, dict) else {}
        return {"admin_tag": "admin", "nictags": [], **found}

    @property
    def admin_tag(self) -> str:
        """The tag of the interface at which the service reaches this node."""
        return str(self.read()["admin_tag"])

    def names_of(self, mac: str) -> list[str]:
        """The tags an interface carries."""
        return [str(tag["name"]) for tag in self._tags() if str(tag["mac"]).lower() == mac.lower()]

    def interface(self, tag: str) -> str | None:
        """The interface that now carries a tag; ``None`` when tag or interface is missing."""
        mac = next((str(t["mac"]).lower() for t in self._tags() if t["name"] == tag), None)
        if mac is None or not self._sys_net.is_dir():
            return None
        for path in sorted(self._sys_net.iterdir()):
            # Only a machine's own interface: bridges and VLANs above it have the same MAC.
            if (path / "device").exists() and _address(path) == mac:
                return path.name
        return next(
            (p.name for p in sorted(self._sys_net.iterdir())
             if _address(p) == mac and not (p / "bridge").is_dir()), None,
        )  # fmt: skip

    def _tags(self) -> list[dict[str, object]]:
        return cast("list[dict[str, object]]", self.read()["nictags"])

    def update(self, nics: Sequence[Mapping[str, object]]) -> None:
        """Apply ``[{mac, nic_tags_provided}]``: add, move and remove tags of the listed interfaces.

        Interfaces without ``nic_tags_provided`` and tags on interfaces that are not listed stay.
        Errors: ``TaskFailure`` ``nic tag list error: …``; then nothing has changed.
        """
        paths = list(self._sys_net.iterdir()) if self._sys_net.is_dir() else []
        known = {_address(path) for path in paths}
        config = self.read()
        tags = [dict(tag) for tag in cast("list[dict[str, object]]", config["nictags"])]
        for nic in nics:
            if nic.get("nic_tags_provided") is None:
                continue
            mac = str(nic.get("mac") or "").lower()
            if not _MAC.fullmatch(mac):
                raise _failure(f"'{nic.get('mac')}' is not a MAC address")
            provided: object = nic["nic_tags_provided"]
            if not isinstance(provided, list):
                raise _failure(f"nic_tags_provided of {mac} is not an array")
            names = [str(name) for name in cast("list[object]", provided)]
            for name in names:
                if not _NAME.fullmatch(name):
                    raise _failure(f"'{name}' is not the name of a tag")
            if mac not in known:
                log.warning("interface_unknown", mac=mac, tags=names)
            tags = [tag for tag in tags if str(tag["mac"]).lower() != mac or tag["name"] in names]
            for name in names:
                present = next((tag for tag in tags if tag["name"] == name), None)
                if present is None:
                    tags.append({"name": name, "mac": mac})
                else:
                    present["mac"] = mac
        write_json(self.file, {**config, "nictags": tags})


def _address(path: Path) -> str:
    try:
        return (path / "address").read_text(encoding="utf-8").strip().lower()
    except OSError:
        return ""


def _failure(message: str) -> TaskFailure:
    return TaskFailure(f"nic tag list error: {message}", "InvalidPayload")
