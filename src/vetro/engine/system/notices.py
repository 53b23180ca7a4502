"""``StatusReporter`` and ``InstanceNotifier`` (core-library.md §4.5, §4.6)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from vetro.engine.services import services_of
from vetro.muranopl import CallContext, MuranoObject, native

if TYPE_CHECKING:
    from vetro.environments import Tracked

APPLICATION, CLOUD_INSTANCE = 100, 200


class StatusReporter:
    """Reports of the running task; their order is kept."""

    def __init__(self, environment: Any) -> None:
        self.environment = environment

    def _send(self, ctx: CallContext, instance: Any, message: Any, level: str) -> None:
        entity = instance.id if isinstance(instance, MuranoObject) else instance
        services = services_of(ctx)
        id_ = str(entity) if entity is not None else services.environment_id
        text = str(message)
        request = {"id": id_, "level": level, "text": text}
        ctx.effect("report", request, lambda: services.reports.report(id_, level, text))

    def report(self, ctx: CallContext, instance: object, msg: object) -> None:
        """Report a message to the user."""
        self._send(ctx, instance, msg, "info")

    @native(name=["report_error", "reportError"])
    def report_error(self, ctx: CallContext, instance: object, msg: object) -> None:
        """Report an error to the user: the deployment counts as failed."""
        self._send(ctx, instance, msg, "error")


class InstanceNotifier:
    """Counts what runs, for the statistics."""

    def __init__(self, environment: Any) -> None:
        self.environment = environment

    def _track(
        self,
        ctx: CallContext,
        instance: MuranoObject,
        kind: int,
        title: str | None,
        unit_count: int | None,
    ) -> None:
        services = services_of(ctx)
        body: Tracked = {
            "instance_id": instance.id,
            "type_name": instance.type.name,
            "instance_type": kind,
            "type_title": title,
            "unit_count": unit_count,
        }
        ctx.effect("track", body, lambda: services.reports.track(body))

    def _untrack(self, ctx: CallContext, instance: MuranoObject) -> None:
        services, id_ = services_of(ctx), instance.id
        ctx.effect("untrack", {"instance_id": id_}, lambda: services.reports.untrack(id_))

    def track_application(
        self,
        ctx: CallContext,
        instance: MuranoObject,
        title: str | None = None,
        unit_count: int | None = None,
    ) -> None:
        """An application runs."""
        self._track(ctx, instance, APPLICATION, title, unit_count)

    def untrack_application(self, ctx: CallContext, instance: MuranoObject) -> None:
        """An application is gone."""
        self._untrack(ctx, instance)

    def track_cloud_instance(self, ctx: CallContext, instance: MuranoObject) -> None:
        """An instance runs."""
        self._track(ctx, instance, CLOUD_INSTANCE, None, 1)

    def untrack_cloud_instance(self, ctx: CallContext, instance: MuranoObject) -> None:
        """An instance is gone."""
        self._untrack(ctx, instance)
