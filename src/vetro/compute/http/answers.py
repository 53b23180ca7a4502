"""The compute calls' answers in the OpenAPI document (compute-node-api.md; networks: ours)."""

from __future__ import annotations

from collections.abc import Mapping

from vetro.compute.wire import Image, Incarnation
from vetro.http import COMPUTE_FAULTS, Named, Reply, listed, maybe, shape, shape_of

_TEXT = {"type": "string"}
_NUMBER = {"type": "number"}
_WHOLE = {"type": "integer"}
_FLAG = {"type": "boolean"}
AN_OBJECT = {"type": "object"}
ANY_JSON: dict[str, object] = {}
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
        "history": listed(AN_OBJECT),
        "result": ANY_JSON,
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
        "nics": listed(AN_OBJECT),
        "last_modified": maybe(_TEXT),
        "incarnation": _TEXT,
    },
)
INCARNATION = shape_of(Incarnation)
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
        "agents": listed(AN_OBJECT),
        "sysinfo": AN_OBJECT,
        "vms": {"type": "object", "additionalProperties": VM},
        "traits": AN_OBJECT,
        "comments": maybe(_TEXT),
        "unreserved_cpu": _NUMBER,
        "unreserved_ram": _NUMBER,
        "unreserved_disk": _NUMBER,
        "overprovision_ratios": AN_OBJECT,
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
        "extra": maybe(AN_OBJECT),
        "reqid": maybe(_TEXT),
        "created_at": _TEXT,
        "updated_at": maybe(_TEXT),
        "expires_at": _TEXT,
        "waiting_on": ANY_JSON,
        "queue": ANY_JSON,
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
        "params": AN_OBJECT,
        "chain_results": listed(AN_OBJECT),
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
        "kernel_args": AN_OBJECT,
        "kernel_flags": AN_OBJECT,
        "boot_modules": listed(ANY_JSON),
        "default_console": maybe(_TEXT),
        "serial": maybe(_TEXT),
    },
)
IMAGE = shape_of(Image)
SERVICE = shape("ComputeService", {"uuid": _TEXT, "name": _TEXT, "metadata": AN_OBJECT})
PING = shape("Ping", {"ready": _FLAG, "services": AN_OBJECT, "instance": _TEXT})
INFO = shape("Info", {"version": _TEXT})
LOG_LEVEL = shape("LogLevel", {"level": _TEXT})
NODE_KEY = shape("NodeKey", {"server_uuid": _TEXT, "key": _TEXT})
PLATFORMS = {"type": "object", "additionalProperties": ANY_JSON}
SCREEN = shape("Vnc", {"host": maybe(_TEXT), "port": maybe(_WHOLE)})
SCREENSHOT = Reply(_BYTES, media=("image/png",))
#: A file, of which a part may be asked for.
FILE = Reply(_BYTES, media=("application/octet-stream",), others={206: _BYTES, 304: None})
_EXECUTED = _open("Execution", {"stdout": _TEXT, "stderr": _TEXT, "exitCode": maybe(_WHOLE)})
EXECUTION = Reply({"anyOf": [_TEXT, _EXECUTED]}, media=("application/json", "text/plain"))
#: In the document's words, which are a text of their own; a malformed uuid is a fault as ever.
RESET = Reply(JOB_STARTED, others={409: {"anyOf": [_TEXT, _FAULT]}})
STEPS = shape(
    "Allocation",
    {"server": SERVER, "steps": listed(ANY_JSON), "imgapiPeers": listed(ANY_JSON), "vm_uuid": maybe(_TEXT)},
)  # fmt: skip
CAPACITY = shape(
    "Capacities",
    {"capacities": AN_OBJECT, "errors": AN_OBJECT, "warnings": ANY_JSON},
    ["warnings"],
)
