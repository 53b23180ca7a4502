"""Images, and which nodes have them."""

from __future__ import annotations

from typing import Any, cast

import msgspec
from msgspec import UNSET, UnsetType

from vetro.compute.wire.vms import brand_of
from vetro.json_texts import NotJson, decode_json


class ImageFile(msgspec.Struct, kw_only=True):
    """The file of an image."""

    size: int = 0
    sha256: str | None = None


class ImageNodes(msgspec.Struct, kw_only=True):
    """How many nodes have an image or fetch it, and how far the slowest is."""

    present: int = 0
    coming: int = 0
    percent: int | None = None


#: The tag of an image that says what forms show of it: JSON with ``title`` and ``type``.
FORM_TAG = "murano_image_info"


class Image(msgspec.Struct, kw_only=True):
    """An image. ``state`` is ``active`` when it has its file; ``owner``: a project.

    ``tags`` are whatever the record was made with. ``image_size``: MiB of the disk that a virtual machine's
    image has, if its file says it.
    """

    uuid: str
    name: str
    version: str = "1"
    owner: str = ""
    public: bool = True
    type: str = "lxc-rootfs"
    os: str = "linux"
    state: str = "active"
    size: int = 0
    sha256: str | None = None
    published_at: str | None = None
    files: list[ImageFile] = []
    nodes: ImageNodes | UnsetType = UNSET
    tags: Any = UNSET
    image_size: int | UnsetType = UNSET

    @property
    def form_info(self) -> dict[str, str]:
        """``title`` and ``type`` for forms, as far as its `FORM_TAG` gives them."""
        tags = cast("dict[str, object]", self.tags) if isinstance(self.tags, dict) else {}
        try:
            given = decode_json(str(tags.get(FORM_TAG, "{}")), dict[str, Any])
        except NotJson:
            return {}
        return {key: text for key in ("title", "type") if isinstance(text := given.get(key), str)}

    @property
    def brand(self) -> str:
        """What kind of VM it makes: `lx`, `kvm`."""
        return brand_of(self.type)


class NewImage(msgspec.Struct, kw_only=True, omit_defaults=True):
    """The body that makes the record of an image; its file comes next."""

    uuid: str = ""
    name: str
    version: str = "1"
    type: str = "lxc-rootfs"
    os: str = "linux"
    description: str = ""
    tags: dict[str, str] = {}


class ImageManifest(msgspec.Struct, kw_only=True, omit_defaults=True):
    """What an image that is made of a VM is called, and whose it is. ``public``: for every project."""

    uuid: str
    owner: str
    name: str
    version: str
    public: bool = False


class VmImage(msgspec.Struct, kw_only=True):
    """The body that makes an image of a stopped VM."""

    manifest: ImageManifest


class ImageCopy(msgspec.Struct, kw_only=True):
    """An image on a node: fetching, unpacking, present; interrupted, failed, skipped, removed."""

    server_uuid: str
    hostname: str | None = None
    state: str
    percent: int = 0
    reason: str = ""

    @property
    def is_coming(self) -> bool:
        """Whether the node fetches or unpacks it now."""
        return self.state in ("fetching", "unpacking")


class ImageCopies(msgspec.Struct, kw_only=True):
    """Which nodes have an image. ``version`` changes when anything of it does."""

    policy: str
    version: str
    copies: list[ImageCopy]
