"""A node's storage pools and datasets (compute-node-api.md §8.1). Deprecated: every use is logged."""

from __future__ import annotations

import functools

import structlog

from vetro.compute.http.answers import ANY_JSON
from vetro.compute.http.endpoint import Call, Endpoint
from vetro.compute.values.faults import internal_error
from vetro.compute.values.records import Json, Record, mapping
from vetro.compute.work.node_tasks import NodeTaskError
from vetro.http.parameters import OBJECT, STRING, Param

log = structlog.get_logger(__name__)

SECONDS = 60.0


async def _do(call: Call, task: str, said: str, params: Record) -> object:
    log.info("deprecated_storage_call", task=task, server=call.server_uuid,
             caller=call.principal.user_id)  # fmt: skip
    try:
        return await call.service.work.run(
            call.agent, task, {**params, "server_uuid": call.server_uuid},
            request_id=call.request_id, timeout_seconds=SECONDS,
        )  # fmt: skip
    except NodeTaskError as error:
        raise internal_error(f"{said}: {error}", error.details) from error


def _plain(result: Json, *names: str) -> Json:
    """The list an agent wrapped in an object."""
    given = mapping(result)
    for name in (*names, "result"):
        if name in given:
            return given[name]
    return [] if not given else result


async def list_datasets(call: Call) -> Json:
    """The pool's datasets."""
    return _plain(await _do(call, "zfs_list_datasets", "cannot list datasets", {}), "datasets")


async def create_dataset(call: Call) -> Json:
    """Make a dataset."""
    params = {"dataset": call.get("dataset")}
    await _do(call, "zfs_create_dataset", "cannot create dataset", params)


def _dataset(call: Call) -> str:
    """The dataset of the path: its slashes come encoded."""
    return str(call.request.path_params["dataset"]).replace("%2F", "/")


async def destroy_dataset(call: Call) -> Json:
    """Destroy a dataset or a snapshot."""
    params = {"dataset": _dataset(call)}
    await _do(call, "zfs_destroy_dataset", "cannot destroy dataset", params)


async def create_snapshot(call: Call) -> Json:
    """Make a snapshot of a dataset."""
    params = {"dataset": f"{_dataset(call)}@{call.get('name')}"}
    await _do(call, "zfs_snapshot_dataset", "cannot create snapshot", params)


async def rollback(call: Call) -> Json:
    """Take a dataset back to a snapshot."""
    params = {"dataset": f"{_dataset(call)}@{call.get('name')}"}
    await _do(call, "zfs_rollback_dataset", "cannot roll back", params)


async def list_snapshots(call: Call) -> Json:
    """A dataset's snapshots."""
    params = {"dataset": _dataset(call)}
    result = await _do(call, "zfs_list_snapshots", "cannot list snapshots", params)
    return _plain(result, "snapshots", "datasets")


def _wanted(call: Call) -> Record:
    names = sorted(name for name in call.params if name.startswith("prop"))
    values = [str(call.params[name]) for name in names if name != "properties"]
    return {"properties": values} if values else {}


async def all_properties(call: Call) -> Json:
    """Properties of all datasets."""
    return await _do(call, "zfs_get_properties", "cannot get properties", _wanted(call))


async def properties(call: Call) -> Json:
    """Properties of one dataset."""
    params = {"dataset": _dataset(call), **_wanted(call)}
    return await _do(call, "zfs_get_properties", "cannot get properties", params)


async def set_properties(call: Call) -> Json:
    """Set properties of a dataset."""
    params = {"dataset": _dataset(call), "properties": call.get("properties")}
    await _do(call, "zfs_set_properties", "cannot set properties", params)


async def list_pools(call: Call) -> Json:
    """The node's pools."""
    return _plain(await _do(call, "zfs_list_pools", "cannot list pools", {}), "pools")


_SERVER = "/servers/{server_uuid}"
_SET = f"{_SERVER}/datasets/{{dataset}}"
_NAME = (Param("name", STRING, required=True),)
_PROPS = (Param("prop1", STRING, where="query"), Param("prop2", STRING, where="query"))
_old = functools.partial(Endpoint, deprecated=True)

ENDPOINTS = [
    _old("DatasetsList", "GET", f"{_SERVER}/datasets", list_datasets, reply=ANY_JSON),
    _old("DatasetCreate", "POST", f"{_SERVER}/datasets", create_dataset,
         (Param("dataset", STRING, required=True),), status=204),
    _old("DatasetDestroy", "DELETE", _SET, destroy_dataset, status=204),
    _old("SnapshotCreate", "POST", f"{_SET}/snapshot", create_snapshot, _NAME, status=204),
    _old("SnapshotRollback", "POST", f"{_SET}/rollback", rollback, _NAME, status=204),
    _old("SnapshotList", "GET", f"{_SET}/snapshots", list_snapshots, reply=ANY_JSON),
    _old("DatasetPropertiesGetAll", "GET", f"{_SERVER}/dataset-properties", all_properties, _PROPS,
         reply=ANY_JSON),
    _old("DatasetPropertiesGet", "GET", f"{_SET}/properties", properties, _PROPS, reply=ANY_JSON),
    _old("DatasetPropertiesSet", "POST", f"{_SET}/properties", set_properties,
         (Param("properties", OBJECT, required=True),), status=204),
    _old("ZpoolList", "GET", f"{_SERVER}/zpools", list_pools, reply=ANY_JSON),
]  # fmt: skip
