"""Servers bound to owners, and to VMs whose volumes are requested (allocation.md §5)."""

from __future__ import annotations

from typing import Any, cast

from vetro.compute.allocation.errors import ExpressionError
from vetro.compute.allocation.expression import compile_expression
from vetro.compute.allocation.run import Plugin, Run
from vetro.compute.allocation.steps import VOLUMES_PLUGIN, Reasons, Texts, for_all, skip
from vetro.compute.allocation.wording import truthy


def owners_servers(run: Run) -> Reasons | None:
    """An owner with an expression uses only its servers; other owners may not use them."""
    filters = run.defaults.filter_owner_server
    if not filters:
        return skip("No filter_owner_server default to run")
    records = run.fleet.records
    left = run.positions()
    mine = filters.get(run.owner)
    if mine is not None:
        predicate = compile_expression(mine)
        answers = [records[at].claimed(mine, predicate) for at in left]
        if any(isinstance(answer, ExpressionError) for answer in answers):
            run.drop_all()
            return for_all(f"Error running filter for owner {run.owner}: {mine}")
        run.keep_only([at for at, good in zip(left, answers, strict=True) if good])
        return for_all(f"Servers pass filter for owner {run.owner}: {mine}")
    claimed: dict[int, str] = {}
    for owner, text in filters.items():
        predicate = compile_expression(text)
        for at in left:
            answer = records[at].claimed(text, predicate)
            if isinstance(answer, ExpressionError):
                run.drop_all()
                return for_all(f"Error running filter for owner {owner}: {text}")
            if answer:
                claimed.setdefault(at, owner)
    return run.keep(
        ~run.positions_mask(list(claimed)), lambda at: f"Removed by filter for owner {claimed[at]}"
    )


def volumes_from(run: Run) -> Reasons | None:
    """A container that mounts other VMs' volumes goes to the server that has them."""
    if not truthy(run.vm.get("docker")) or run.vm.get("internal_metadata") is None:
        return skip("Requested VM is not a Docker container and/or has no internal_metadata")
    given: object = run.metadata.get("docker:volumesfrom")
    wanted = cast("list[Any]", given) if isinstance(given, list) else []
    if not wanted:
        return skip("Requested VM has no VMs listed in internal_data docker:volumesfrom")
    find = run.ports.find_vm
    reasons: dict[str, str] = {}
    uuids = run.fleet.uuids
    for uuid in (str(one) for one in wanted):
        if find is None:
            hosts = list(run.fleet.hosts_of(uuid))
        else:
            try:
                home = run.fleet.position.get(str(find(uuid).get("server_uuid")))
            except (OSError, LookupError, ValueError) as error:
                run.drop_all()
                reasons["*"] = f"Error loading VM {uuid}: {error}"
                return Texts(reasons)
            hosts = [] if home is None else [home]
        mask = run.positions_mask(hosts)
        for at in run.positions():
            if not mask[at]:
                reasons[str(uuids[at])] = (
                    f"VM needs volumes from {uuid}, which was not found on server"
                )
        run.keep(mask)
    if find is not None and run.count > 1:
        run.keep_only(run.positions()[:1])
    return Texts(reasons) if reasons else None


PLUGINS: dict[str, Plugin] = {
    "hard-filter-owners-servers": Plugin("Filter CNs based on owner filters", owners_servers),
    VOLUMES_PLUGIN: Plugin("Servers containing VMs required for volumesfrom", volumes_from),
}
