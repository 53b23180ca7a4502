"""A collector of OpenTelemetry: keeps the spans that it is sent (OTLP over HTTP)."""

from __future__ import annotations

import threading
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)


@dataclass
class Kept:
    """A span as it was sent."""

    name: str
    trace: str
    id: str
    parent: str
    part: str
    failed: bool
    attributes: dict[str, str]
    began: float
    """In seconds."""
    seconds: float


@dataclass
class Collector:
    """What was sent; ``url``: where to."""

    url: str = ""
    spans: list[Kept] = field(default_factory=list["Kept"])

    def take(self, body: bytes) -> None:
        """Keep the spans of one request."""
        sent = ExportTraceServiceRequest.FromString(body)
        for resource in sent.resource_spans:
            about = {one.key: one.value.string_value for one in resource.resource.attributes}
            for scope in resource.scope_spans:
                for one in scope.spans:
                    attributes = {
                        given.key: given.value.string_value or str(given.value.int_value)
                        for given in one.attributes
                    }
                    self.spans.append(
                        Kept(
                            one.name,
                            one.trace_id.hex(),
                            one.span_id.hex(),
                            one.parent_span_id.hex(),
                            about["vetro.part"],
                            one.status.code == 2,
                            attributes,
                            one.start_time_unix_nano / 1e9,
                            (one.end_time_unix_nano - one.start_time_unix_nano) / 1e9,
                        )
                    )

    def above(self, span: Kept) -> list[str]:
        """The names of the spans above one, the nearest first."""
        known = {one.id: one for one in self.spans}
        names: list[str] = []
        while span.parent in known:
            span = known[span.parent]
            names.append(span.name)
        return names


@contextmanager
def collecting() -> Generator[Collector]:
    """A collector on a free port of loopback."""
    collector = Collector()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            collector.take(self.rfile.read(int(self.headers["Content-Length"])))
            answer = ExportTraceServiceResponse().SerializeToString()
            self.send_response(200)
            self.send_header("Content-Type", "application/x-protobuf")
            self.send_header("Content-Length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        def log_message(self, *args: object) -> None:
            """Nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        collector.url = f"http://127.0.0.1:{server.server_address[1]}/v1/traces"
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield collector
        finally:
            server.shutdown()
            thread.join()
