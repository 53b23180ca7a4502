"""The compute calls' answers in the OpenAPI document (compute-node-api.md; networks: ours)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from vetro.compute.http.endpoint import Access, Endpoint
from vetro.compute.wire import (
    FloatingIp,
    Image,
    ImageCopies,
    Keypair,
    Network,
    Offer,
    Port,
    Router,
    SecurityGroup,
    Subnet,
    Volume,
    VolumeCopy,
)
from vetro.http import COMPUTE_FAULTS, Named, Reply, listed, maybe, shape, shape_of

_TEXT = {"type": "string"}
_NUMBER = {"type": "number"}
_WHOLE = {"type": "integer"}
_FLAG = {"type": "boolean"}
_OBJECT = {"type": "object"}
_ANYTHING: dict[str, object] = {}
_TEXTS = listed(_TEXT)
_BYTES = {"type": "string", "format": "binary"}
_FAULT = Named("Fault", COMPUTE_FAULTS.schema or {})


def _open(name: str, properties: Mapping[str, object]) -> Named:
    """An object whose properties are optional, and which may have further ones."""
    return shape(name, properties, tuple(properties))


TASK_STARTED = shape("TaskStarted", {"id": _TEXT, "vm_uuid": _TEXT}, ["vm_uuid"])
#: Without a task when only room was held for the VM.
VM_LEAVES = shape("VmLeaves", {"id": maybe(_TEXT), "vm_uuid": _TEXT}, ["vm_uuid"])
JOB_STARTED = shape("JobStarted", {"job_uuid": _TEXT, "vm_uuid": _TEXT}, ["vm_uuid"])
TASK = shape(
    "Task",
    {
        "id": _TEXT,
        "req_id": maybe(_TEXT),
        "server_uuid": _TEXT,
        "task": _TEXT,
        "status": {"type": "string", "enum": ["active", "complete", "failure"]},
        "progress": _NUMBER,
        "timestamp": _TEXT,
        "history": listed(_OBJECT),
        "result": _ANYTHING,
        "waiting_on": maybe(_TEXT),
    },
    ["req_id", "progress", "timestamp", "history", "result", "waiting_on"],
)
VM = _open(
    "Vm",
    {
        "uuid": _TEXT,
        "server_uuid": _TEXT,
        "alias": maybe(_TEXT),
        "brand": maybe(_TEXT),
        "owner_uuid": maybe(_TEXT),
        "state": maybe(_TEXT),
        "zone_state": maybe(_TEXT),
        "max_physical_memory": maybe(_NUMBER),
        "quota": maybe(_NUMBER),
        "cpu_cap": maybe(_NUMBER),
        "nics": listed(_OBJECT),
        "last_modified": maybe(_TEXT),
    },
)
SERVER = _open(
    "Server",
    {
        "uuid": _TEXT,
        "hostname": _TEXT,
        "datacenter": _TEXT,
        "status": _TEXT,
        "setup": _FLAG,
        "reserved": _FLAG,
        "reservoir": _FLAG,
        "headnode": _FLAG,
        "current_platform": _TEXT,
        "system_type": _TEXT,
        "ram": _WHOLE,
        "created": maybe(_TEXT),
        "last_boot": maybe(_TEXT),
        "last_heartbeat": maybe(_TEXT),
        "agents": listed(_OBJECT),
        "sysinfo": _OBJECT,
        "vms": {"type": "object", "additionalProperties": VM},
        "traits": _OBJECT,
        "comments": maybe(_TEXT),
        "unreserved_cpu": _NUMBER,
        "unreserved_ram": _NUMBER,
        "unreserved_disk": _NUMBER,
        "overprovision_ratios": _OBJECT,
        "score": _NUMBER,
    },
)
TICKET = shape(
    "Ticket",
    {
        "uuid": _TEXT,
        "server_uuid": _TEXT,
        "scope": _TEXT,
        "id": _TEXT,
        "action": maybe(_TEXT),
        "status": {"type": "string", "enum": ["queued", "active", "finished", "expired"]},
        "fence": maybe(_WHOLE),
        "extra": maybe(_OBJECT),
        "reqid": maybe(_TEXT),
        "created_at": _TEXT,
        "updated_at": maybe(_TEXT),
        "expires_at": _TEXT,
        "waiting_on": _ANYTHING,
        "queue": _ANYTHING,
    },
    ["waiting_on", "queue"],
)
JOB = _open(
    "Job",
    {
        "uuid": _TEXT,
        "name": _TEXT,
        "execution": {
            "type": "string",
            "enum": ["queued", "running", "succeeded", "failed", "canceled"],
        },
        "params": _OBJECT,
        "chain_results": listed(_OBJECT),
    },
)
NIC = shape(
    "Nic",
    {
        "mac": _TEXT,
        "interface": maybe(_TEXT),
        "ip": maybe(_TEXT),
        "belongs_to_type": _TEXT,
        "belongs_to_uuid": _TEXT,
        "nic_tags_provided": _TEXTS,
    },
)
BOOT = _open(
    "BootParams",
    {
        "platform": maybe(_TEXT),
        "kernel_args": _OBJECT,
        "kernel_flags": _OBJECT,
        "boot_modules": listed(_ANYTHING),
        "default_console": maybe(_TEXT),
        "serial": maybe(_TEXT),
    },
)
IMAGE = shape_of(Image)
NETWORK = shape_of(Network)
SUBNET = shape_of(Subnet)
ROUTER = shape_of(Router)
GROUP = shape_of(SecurityGroup)
PORT = shape_of(Port)
FLOATING = shape_of(FloatingIp, "FloatingAddress")
KEY = shape_of(Keypair)
SERVICE = shape("ComputeService", {"uuid": _TEXT, "name": _TEXT, "metadata": _OBJECT})

_KINDS = {
    "Network": NETWORK,
    "Subnet": SUBNET,
    "Router": ROUTER,
    "SecurityGroup": GROUP,
    "Port": PORT,
    "FloatingAddress": FLOATING,
}
_TASKS = (
    *("ServerEnsureImage", "ServerInstallAgent", "ServerUninstallAgents", "ServerRecoveryConfig"),
    *("DoNop", "VmCreate", "VmNicsUpdate", "VmUpdate", "VmStart", "VmStop", "VmKill", "VmReboot"),
    *("VmReprovision", "VmDestroy", "VmMigrate", "VmSnapshotCreate", "VmSnapshotRollback"),
    *("VmSnapshotDestroy", "VmImagesCreate", "UpdateNicTask"),
)

STEPS = shape(
    "Allocation",
    {"server": SERVER, "steps": listed(_ANYTHING), "imgapiPeers": listed(_ANYTHING), "vm_uuid": maybe(_TEXT)},
)  # fmt: skip
CAPACITY = shape(
    "Capacities",
    {"capacities": _OBJECT, "errors": _OBJECT, "warnings": _ANYTHING},
    ["warnings"],
)

#: By the calls' names; a call that is not listed answers with an empty body.
SHAPES: dict[str, Any] = {
    "Ping": shape("Ping", {"ready": _FLAG, "services": _OBJECT, "instance": _TEXT}),
    "SelectServer": STEPS,
    **dict.fromkeys(("ServerCapacity", "ServerCapacityByGet"), CAPACITY),
    "Info": shape("Info", {"version": _TEXT}),
    "Diagnostics": _OBJECT,
    "GetLoglevel": shape("LogLevel", {"level": _TEXT}),
    "ServiceList": listed(SERVICE),
    "ServiceUpdate": SERVICE,
    "ServerList": listed(SERVER),
    "ServerGet": SERVER,
    "ServerReboot": JOB_STARTED,
    "ServerFactoryReset": JOB_STARTED,
    "ServerSetup": JOB_STARTED,
    "ServerSysinfoRefresh": _OBJECT,
    "CommandExecute": {
        "anyOf": [
            _TEXT,
            _open("Execution", {"stdout": _TEXT, "stderr": _TEXT, "exitCode": maybe(_WHOLE)}),
        ]
    },
    "ServerTaskHistory": _ANYTHING,
    **dict.fromkeys(_TASKS, TASK_STARTED),
    "VmDestroy": VM_LEAVES,
    "NodeKey": shape("NodeKey", {"server_uuid": _TEXT, "key": _TEXT}),
    "AgentNextTask": _OBJECT,
    "BootParamsGetDefault": BOOT,
    "BootParamsGet": BOOT,
    "PlatformList": {"type": "object", "additionalProperties": _ANYTHING},
    "TaskGet": TASK,
    "TaskWait": TASK,
    "VmList": listed(VM),
    "VmLoad": VM,
    "VmProc": _ANYTHING,
    "VmInfo": _OBJECT,
    "VmVnc": shape("Vnc", {"host": maybe(_TEXT), "port": maybe(_WHOLE)}),
    "VmScreenshot": _BYTES,
    **dict.fromkeys(("VmDockerExec", "VmDockerCopy", "VmDockerStats", "VmDockerBuild"), _OBJECT),
    "ImageGet": _OBJECT,
    **dict.fromkeys(
        (
            *("DatasetsList", "SnapshotList", "DatasetPropertiesGetAll"),
            *("DatasetPropertiesGet", "ZpoolList"),
        ),
        _ANYTHING,
    ),
    "NicUpdate": JOB_STARTED,
    "NicList": listed(NIC),
    "NicTagList": listed(_OBJECT),
    "ServerWaitlistTicketCreate": TICKET,
    "ServerWaitlistList": listed(TICKET),
    "WaitlistList": listed(TICKET),
    "ServerWaitlistGetTicket": TICKET,
    "JobList": listed(JOB),
    "JobGet": JOB,
    "JobWait": JOB,
    "JobInfo": listed(_OBJECT),
    "JobInfoAdd": _OBJECT,
    "ImageList": listed(IMAGE),
    "ImageCreate": IMAGE,
    "ImageShow": IMAGE,
    "ImageAddTags": IMAGE,
    "ImageCopies": shape_of(ImageCopies),
    "ImageUpload": IMAGE,
    "ImageDownload": _BYTES,
    **dict.fromkeys(("VmMove", "ServerDrain", "ServerEvacuate"), JOB_STARTED),
    **{f"{name}List": listed(one) for name, one in _KINDS.items()},
    **{
        f"{name}{what}": one
        for name, one in _KINDS.items()
        for what in ("Create", "Show", "Change")
    },
    **{
        name: shape_of(Volume)
        for name in (
            *("VolumeCreate", "VolumeShow", "VolumeChange"),
            *("VolumeAttach", "VolumeDetach", "VolumeBackupRestore"),
        )
    },
    "VolumeList": listed(shape_of(Volume)),
    **{
        f"{name}{what}": shape_of(VolumeCopy)
        for name in ("VolumeSnapshot", "VolumeBackup")
        for what in ("Create", "Show")
    },
    **dict.fromkeys(("VolumeSnapshotList", "VolumeBackupList"), listed(shape_of(VolumeCopy))),
    "VolumeBackupUpload": shape_of(VolumeCopy),
    "VolumeBackupDownload": _BYTES,
    "OfferShow": shape_of(Offer),
    "KeypairList": listed(KEY),
    "KeypairShow": KEY,
    "KeypairSet": KEY,
}
#: Calls that have more than one success status.
_OTHERS: dict[str, dict[int, Any]] = {
    "ServerReboot": {204: None},
    "ServerSetup": {202: JOB_STARTED, 204: None},
    # In the document's words, which are a text of their own; a malformed uuid is a fault as ever.
    "ServerFactoryReset": {409: {"anyOf": [_TEXT, _FAULT]}},
    "AgentNextTask": {204: None},
    "BootParamsSet": {200: _OBJECT},
    "BootParamsUpdate": {204: None},
    "ImageDownload": {206: _BYTES, 304: None},
    "VolumeBackupDownload": {206: _BYTES, 304: None},
}
_MEDIA = {
    "VmScreenshot": ("image/png",),
    "ImageDownload": ("application/octet-stream",),
    "VolumeBackupDownload": ("application/octet-stream",),
    "CommandExecute": ("application/json", "text/plain"),
}
#: Files of which a part may be asked for.
_IN_PARTS = ("ImageDownload", "VolumeBackupDownload")
#: The errors that any call of this face may return.
ERRORS = (400, 404, 409, 413, 415)


def answering(endpoints: Iterable[Endpoint], validation_status: int) -> list[Endpoint]:
    """The endpoints with what they answer; ``validation_status``: of parameters that do not validate."""
    return [
        replace(
            one,
            reply=Reply(
                None if one.status == 204 else SHAPES.get(one.name),
                media=_MEDIA.get(one.name, ("application/json",)),
                others=_OTHERS.get(one.name, {}),
            ),
            errors=(
                *ERRORS,
                validation_status,
                *one.errors,
                *((416,) if one.name in _IN_PARTS else ()),
            ),
        )
        for one in endpoints
    ]


def public_paths(endpoints: Sequence[Endpoint]) -> set[str]:
    """The calls that need no token."""
    return {one.path for one in endpoints if one.access is Access.PUBLIC}
