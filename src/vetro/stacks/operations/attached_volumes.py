"""The volumes that a template attaches to each of its servers: a server is placed where they are."""

from __future__ import annotations

from vetro.stacks.errors import StackError
from vetro.stacks.model import Json
from vetro.stacks.state.records import ResourceRow
from vetro.stacks.template.evaluation import Evaluation
from vetro.stacks.template.templates import Template

_ATTACHMENT, _VOLUME = "OS::Cinder::VolumeAttachment", "OS::Cinder::Volume"


class AttachedVolumes:
    """The attachments of a template, by the resources that they need."""

    def __init__(self, template: Template, evaluation: Evaluation) -> None:
        self._template = template
        self._evaluation = evaluation
        self._by_server: dict[str, list[str]] = {}
        for attachment, one in template.resources.items():
            if one.type == _ATTACHMENT:
                for name in one.requires:
                    self._by_server.setdefault(name, []).append(attachment)

    def made_first(self, server: str) -> frozenset[str]:
        """The volumes of the template to make before a server, so that their place is known.

        Only those that require nothing: so no circle comes about.
        """
        resources = self._template.resources
        return frozenset(
            name
            for attachment in self._by_server.get(server, ())
            for name in resources[attachment].requires - {server}
            if resources[name].type == _VOLUME and not resources[name].requires
        )

    def of(self, server: ResourceRow) -> list[str]:
        """The ids of the volumes attached to a server, as far as they are known."""
        found: list[str] = []
        for attachment in self._by_server.get(server.name, ()):
            properties = self._template.resources[attachment].properties
            try:
                # The server's own id is known; a volume that is made later is not.
                known = self._evaluation.known(properties)
            except (StackError, KeyError):
                continue
            if known.get("instance_uuid") == server.physical_id:
                volume: Json = known.get("volume_id")
                found += [volume] if isinstance(volume, str) else []
        return found
