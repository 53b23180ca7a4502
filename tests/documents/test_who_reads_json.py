"""Where JSON is decoded: text from outside goes through the functions that hostile documents are fed to."""

import ast
from pathlib import Path

import vetro

ROOT = Path(vetro.__file__).parent
READERS = {
    "documents/jsonvalues.py",
    "engine/plans.py",
    "guest/agent/documents.py",
    "json_texts.py",
}
"""The functions for text from outside. Each turns whatever a decoder raises into its one error."""
WRITTEN_BY_VETRO = {
    "compute/allocation/filters.py",
    "compute/client/calls.py",
    "compute/client/http_client.py",
    "compute/servers/heartbeats.py",
    "cli/client/connection.py",
    "cli/terminal/streams.py",
    "engine/pool.py",
    "engine/services.py",
    "engine/system/memory.py",
    "engine/worker/messages.py",
    "http/dashboard/sessions.py",
    "identity/unstored.py",
    "node/files.py",
    "node/images/bootstrap.py",
    "node/migration/control.py",
    "stacks/memory/guests.py",
    "stacks/resources/deployments.py",
    "storage/jsontext.py",
    "storage/notify.py",
}
"""Rows, messages and answers that Vetro itself encoded."""
WRITTEN_BY_OPERATORS = {"server/backup.py", "server/settings.py"}
"""Files and variables of the person who runs the program."""
WRITTEN_BY_PROGRAMS = {
    "engine/system/openstack.py",
    "node/drivers/qemu/disks.py",
    "node/drivers/qemu/exec.py",
    "node/drivers/qemu/inside.py",
    "node/drivers/qemu/libvirt.py",
    "node/drivers/qemu/migration.py",
    "node/images/vm_images.py",
    "node/network/apply.py",
    "node/storage/volumes.py",
    "server/doctor/machine.py",
}
"""Output of the machine's programs (`ip`, `qemu-img`, libvirt, a cloud's Mistral), which encode it."""
DECODERS = {"json.load", "json.loads", "msgspec.json.decode", "msgspec.json.Decoder"}


def test_json_from_outside_is_read_by_the_readers_alone() -> None:
    """Every module that calls a JSON decoder itself stands in the table of those that may."""
    found = {
        str(file.relative_to(ROOT))
        for file in ROOT.rglob("*.py")
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call) and ast.unparse(node.func) in DECODERS
    }
    known = READERS | WRITTEN_BY_VETRO | WRITTEN_BY_OPERATORS | WRITTEN_BY_PROGRAMS
    assert found == known, "use read_json of vetro.documents or decode_json of vetro.json_texts"
