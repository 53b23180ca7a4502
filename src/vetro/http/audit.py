"""Audit of calls: who asked for which change of what, and how it ended, as CADF events (DMTF DSP0262).

One event for each call that may change something, whether it was done or refused, also before its
caller was known. An event says what the address and the answer say, never what a body had: no secret
gets into it. It goes to the log (logger ``vetro.audit``) and to the sinks that the server adds.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any

import structlog

from vetro.http.logs import utc_text
from vetro.http.principal import Principal
from vetro.random_ids import random_uuid
from vetro.secrecy import Public

log = structlog.get_logger("vetro.audit")

EVENT = "http://schemas.dmtf.org/cloud/audit/1.0/event"
READING = frozenset({"GET", "HEAD", "OPTIONS"})
_ACTIONS = {"POST": "create", "PUT": "update", "PATCH": "update", "DELETE": "delete"}
#: Calls that do not create anything, by the last word of their path.
_NAMED = {"deploy": "deploy", "cancel": "stop", "actions": "start"}

Sink = Callable[[str, Mapping[str, Any]], None]
"""Takes an event's type and its content. It must not wait, and raises nothing."""


class Audit:
    """Writes the events of one face, whose resources are ``service/<kind>/…``."""

    def __init__(self, kind: str, sinks: tuple[Sink, ...] = ()) -> None:
        self.kind = kind
        self.sinks = sinks
        self._log: Any = log.bind()
        self._observer = {"typeURI": f"service/{kind}", "id": "vetro", "name": kind}

    def called(
        self,
        *,
        method: str,
        path: str,
        template: str,
        parameters: Mapping[str, object],
        created: str,
        status: int,
        caller: Principal | None,
        request_id: str,
        address: str,
        agent: str,
    ) -> None:
        """Write the event of a call that ended; reading ones have none.

        ``created``: the id that the answer gave to what was made. It is the target of a call whose
        address names nothing.
        """
        if method in READING:
            return
        action, resource = _meaning(method, template)
        ids = [str(value) for name, value in parameters.items() if name.endswith("_id")]
        event = {
            "typeURI": EVENT,
            "id": random_uuid(),
            "eventType": "activity",
            "eventTime": f"{utc_text()[:23]}+00:00",
            "action": action,
            "outcome": "success" if status < 400 else "failure",
            "reason": {"reasonType": "HTTP", "reasonCode": str(status)},
            "initiator": {
                "typeURI": "service/security/account/user",
                "id": caller.user_id if caller is not None else "unknown",
                "name": caller.user_name if caller is not None else "",
                "project_id": caller.project_id if caller is not None else "",
                "host": {"address": address, "agent": agent[:256]},
            },
            "target": {
                "typeURI": f"service/{self.kind}/{resource}".rstrip("/"),
                "id": ids[-1] if ids else created or "unknown",
            },
            "observer": self._observer,
            "requestPath": path,
            "tags": [f"correlation_id?value={request_id}"],
        }
        self._log.info("audit", cadf=Public(event))
        for sink in self.sinks:
            sink("audit.http.request", event)


@functools.lru_cache(1024)
def _meaning(method: str, template: str) -> tuple[str, str]:
    """What a call does, and the kind of what it does it to."""
    words = [part for part in template.split("/") if part and not part.startswith("{")]
    named = words[-1] if words else ""
    action = (method == "POST" and _NAMED.get(named)) or _ACTIONS.get(method, "unknown")
    return action, "/".join(words[1:] if words[:1] == ["v1"] else words)
