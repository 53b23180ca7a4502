"""The compute service in a process: its parts, and ``vetro compute``, where it is alone."""

from __future__ import annotations

import socket
from functools import partial
from typing import TYPE_CHECKING, Any

from vetro.server import data_directory
from vetro.server.alone import run_alone, serve_alone
from vetro.server.engine import check_network, refuse_file_database
from vetro.server.errors import StartError
from vetro.server.installation import open_database
from vetro.server.listeners import port_of, url_at
from vetro.server.node import mutual_tls
from vetro.server.policies import policy_of
from vetro.server.settings import Settings

if TYPE_CHECKING:
    from vetro.compute import ComputeService, ComputeSettings
    from vetro.http import Authenticator, ConnectionLimits, Face
    from vetro.storage import Database


def compute_settings(settings: Settings, **known: Any) -> ComputeSettings:
    """The settings of the compute service: its sections, and values ``known`` to its process.

    Errors: ``StartError``: the allocator cannot work with the section ``dapi``.
    """
    from vetro import compute

    network = settings.network
    made = compute.ComputeSettings(
        compute=settings.compute,
        dapi=settings.dapi,
        quotas=settings.quotas,
        blobs=settings.blobs,
        external=compute.ExternalNetwork(network.external_network, network.external_cidr),
        **known,
    )
    wrong = made.placement.problem()
    if wrong:
        raise StartError(f"[dapi]: {wrong}", "docs/compute/allocation.md has the settings.")
    return made


def compute_service(settings: Settings, database: Database) -> ComputeService:
    """The service on an installation's database and images. Errors: ``StartError``."""
    from vetro.compute import ComputeService

    tls = mutual_tls(settings.tls)
    return ComputeService(
        database,
        compute_settings(
            settings,
            image_dir=settings.blob_directory("images"),
            node_key=data_directory.secret(settings.shared_dir / "node-key"),
            agent_tls=tls.client_context() if tls is not None else None,
        ),
    )


def compute_face(
    settings: Settings, service: ComputeService, tokens: Authenticator, prefix: str = "/compute"
) -> Face:
    """The service's face, for users, nodes and engines; ``prefix``: where it is served."""
    from vetro import compute
    from vetro.http import Policy

    shared = settings.shared_dir
    known = compute.NodeAware(
        tokens,
        node_key=data_directory.secret(shared / "node-key"),
        service_key=data_directory.secret(shared / "service-key"),
        shared_key=settings.compute.shared_node_key,
    )
    policy = policy_of(settings, partial(Policy, None))
    return compute.compute_face(service, known, prefix=prefix, policy=policy)


def run_compute(settings: Settings) -> int:
    """``vetro compute``: the service alone, at ``/``, until a signal; the exit code.

    Nodes relay their guests to the service they know, so the mailboxes are served beside it, at
    ``/agents``. Errors: ``StartError``.
    """
    refuse_file_database(settings, "vetro compute")
    check_network(settings)
    return run_alone(settings, "compute", settings.compute.host, settings.compute.port, _serve)


async def _serve(settings: Settings, listener: socket.socket, limits: ConnectionLimits) -> None:
    from vetro import guest, identity, messaging

    async with open_database(settings) as database:
        tokens = identity.Identity(database, settings.identity).authenticator()
        mailboxes = messaging.Mailboxes(
            database, settings=messaging.MailboxSettings(sizes=settings.mailbox)
        )
        service = compute_service(settings, database)
        faces = [
            compute_face(settings, service, tokens, prefix=""),
            mailboxes.face(guest.archive_bytes, machines=service.guests),
        ]
        said = f"The compute service listens on {url_at(settings.compute.host, port_of(listener))}"
        purposes = ("images", "volume-backups")
        await serve_alone(settings, listener, limits, faces, database, said, purposes)
