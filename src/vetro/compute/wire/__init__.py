"""The one description of what the compute service exchanges with nodes, other services and users.

Each room that reads or writes such an object uses these structs: the service for its answers and their
schemas, `vetro.compute.client` for other processes, the node for what it reports and is sent. Unknown
fields are ignored in both directions, so that processes may differ by a version. The node room may
import this package only.
"""

from __future__ import annotations

from vetro.compute.wire.agents import (
    ACTING_HEADER,
    HEARTBEAT_LIFETIME_SECONDS,
    IDEMPOTENCY_HEADER,
    RECONCILE_SECONDS,
    RELAY_HEADER,
    REQUEST_ID_HEADER,
    SERVER_HEADER,
    Fence,
    PulledResult,
    PulledTask,
    genuine_relay,
    node_key,
    relay_stamp,
    server_of_key,
)
from vetro.compute.wire.images import (
    FORM_TAG,
    Image,
    ImageCopies,
    ImageCopy,
    ImageFile,
    ImageManifest,
    ImageNodes,
    NewImage,
    VmImage,
)
from vetro.compute.wire.networks import (
    AddressWish,
    FloatingIp,
    FloatingIpChange,
    Keypair,
    NameChange,
    Network,
    NewFloatingIp,
    NewKeypair,
    NewNetwork,
    NewPort,
    NewRouter,
    NewSecurityGroup,
    NewSubnet,
    Port,
    PortChange,
    Router,
    RouterChange,
    Rule,
    SecurityGroup,
    SecurityGroupChange,
    SecurityRule,
    Subnet,
    SubnetChange,
    Uplink,
)
from vetro.compute.wire.servers import Document, Job, JobStarted, NicTags, Screen, Server, Stream
from vetro.compute.wire.vms import (
    HVM_BRANDS,
    MOST_INTERFACES,
    OTHER_QUEUE,
    Allocated,
    Allocation,
    ChosenServer,
    Incarnation,
    Locality,
    NewInterfaces,
    NewTicket,
    NewVm,
    Nic,
    NoAllocation,
    PlacedImage,
    PlacedVm,
    SupposedVm,
    Task,
    TaskStarted,
    Ticket,
    Vm,
    VmUpdate,
)
from vetro.compute.wire.volumes import (
    Attachment,
    NewVolume,
    NewVolumeCopy,
    Offer,
    Volume,
    VolumeChange,
    VolumeCopy,
    VolumeSource,
)
