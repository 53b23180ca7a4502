"""The import-linter contract of a room: which rooms it may import.

    type = "room"
    room = "vetro.engine"
    may_import = ["catalog", "compute.client", "storage"]

Each entry is a room, or a part of one that is a face of its own (`compute.client`). The contract is
broken when a module of the room imports anything else of Vetro, and when no module uses an entry: so the
contracts say what the code does, no more and no less.
"""

from __future__ import annotations

from typing import Any

from grimp import ImportGraph
from importlinter import Contract, ContractCheck, fields, output

EVERYWHERE = {
    *("digits", "ipv6_door", "json_texts", "json_values"),
    *("lazy_names", "log_context", "random_ids"),
}
"""Modules that every room may import."""


class RoomContract(Contract):
    """Which rooms a room may import, directly. The other rooms' contracts say what follows."""

    room = fields.StringField()
    may_import = fields.ListField(subfield=fields.StringField(), required=False)

    def check(self, graph: ImportGraph, verbose: bool) -> ContractCheck:
        """Compare the imports of the room's modules with the list."""
        room = str(self.room)  # pyright: ignore[reportUnknownArgumentType]
        allowed: list[str] = list(self.may_import or ())  # type: ignore[arg-type]
        unused = set(allowed)
        forbidden: list[str] = []
        for module in sorted({room} | graph.find_descendants(room)):
            for target in sorted(graph.find_modules_directly_imported_by(module)):
                if not target.startswith("vetro.") or f"{target}.".startswith(f"{room}."):
                    continue
                name = target.removeprefix("vetro.")
                matching = {one for one in allowed if f"{name}.".startswith(f"{one}.")}
                unused -= matching
                if not matching and name not in EVERYWHERE:
                    forbidden.append(f"{module} -> {target}")
        return ContractCheck(
            kept=not forbidden and not unused,
            metadata={"forbidden": forbidden, "unused": sorted(unused), "room": room},
        )

    def render_broken_contract(self, check: ContractCheck) -> None:
        """Print the imports that are not allowed and the entries that nothing uses."""
        found: dict[str, Any] = check.metadata
        for link in found["forbidden"]:
            output.print_error(f"{link} is not among what the room may import")
        for name in found["unused"]:
            output.print_error(f"nothing in {found['room']} imports {name}: take it off the list")
