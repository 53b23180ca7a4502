"""The AMQP transport (guest-agent.md §2): one connection, one channel, one message at a time.

Plans are consumed with a prefetch of 1 and acknowledged by hand; results are published with
`mandatory` and confirmed by the broker, so that a result counts as sent only when it is in a queue.
"""

import random
import socket
import time

from .. import VERSION
from ..errors import CommunicationError, ConfigurationError
from ..spool import Message
from . import Transport
from . import amqp_frames as amqp

TYPE_CHECKING = False
if TYPE_CHECKING:
    import ssl
    from typing import Any

    from ..config import Settings

_SECONDS = 30.0
_CHANNEL = 1


class _NothingYet(Exception):
    """Raised when a read would have to wait."""


class AmqpTransport(Transport):
    """Speaks AMQP 0-9-1 to a broker."""

    confirms_acknowledgements = False

    def __init__(self, settings: "Settings") -> None:
        if not settings.input_queue:
            raise ConfigurationError("[rabbitmq] input_queue is missing")
        if not settings.result_routing_key and not settings.dynamic_result_queue:
            raise ConfigurationError("[rabbitmq] result_routing_key is missing")
        self._settings = settings
        self._socket: "socket.socket | None" = None
        self._buffer = bytearray()
        self._frame_max = 131072
        self._heartbeat = 0.0
        self._heard = 0.0
        self._spoke = 0.0
        self._ready: "list[tuple[int, Message]]" = []
        self._arriving: "_Arriving | None" = None
        self._tag = 0
        self._published = 0
        self._confirmed: "dict[int, bool]" = {}
        self._returned = ""

    def prepare(self) -> None:
        if self._socket is None:
            try:
                self._open()
            except (OSError, CommunicationError) as error:
                self.disconnect()
                raise CommunicationError(
                    "%s:%d: %s" % (self._settings.host, self._settings.port, _text(error))
                ) from error
        # Frames that arrived together with an awaited answer are in the buffer (or in a TLS record
        # that was read already): the socket does not become readable for them.
        self._read_some()
        if not self._heartbeat:
            return
        now = time.monotonic()
        if now - self._heard > 2 * self._heartbeat:
            self.disconnect()
            raise CommunicationError("the broker is silent for %d s" % (2 * self._heartbeat))
        if now - self._spoke >= self._heartbeat / 2:
            self._send(amqp.Frame(amqp.HEARTBEAT, 0, b""))

    def waits_on(self) -> "list[Any]":
        return [self._socket] if self._socket is not None else []

    def wakes_at(self) -> "float | None":
        if self._ready:
            return 0.0
        return self._spoke + self._heartbeat / 2 if self._heartbeat else None

    def has_message(self) -> bool:
        return bool(self._ready)

    def receive(self) -> "Message | None":
        if not self._ready:
            self._read_some()
        if not self._ready:
            return None
        self._tag, message = self._ready.pop(0)
        return message

    def acknowledge(self, message: "Message") -> None:
        self._method(amqp.Writer(*amqp.ACK).long_long(self._tag).octet(0))

    def send_result(self, message_id: str, body: bytes, reply_to: "str | None") -> None:
        key = self._settings.result_routing_key
        if self._settings.dynamic_result_queue and reply_to:
            key = reply_to
        if self._socket is None:
            raise CommunicationError("there is no connection to the broker")
        self._published += 1
        number = self._published
        self._returned = ""
        self._confirmed.clear()
        exchange = self._settings.result_exchange
        mandatory = 1
        self._method(
            amqp.Writer(*amqp.PUBLISH)
            .short(0)
            .short_text(exchange)
            .short_text(key)
            .octet(mandatory)
        )
        header = amqp.Writer(60, 0).long_long(len(body))
        header.properties(
            {"content_type": "application/json", "delivery_mode": 2, "message_id": message_id}
        )
        self._send(amqp.Frame(amqp.HEADER, _CHANNEL, bytes(header.data)))
        step = self._frame_max - 8
        for at in range(0, len(body), step):
            self._send(amqp.Frame(amqp.BODY, _CHANNEL, body[at : at + step]))
        self._wait_for(lambda: number in self._confirmed)
        if not self._confirmed.pop(number):
            raise CommunicationError("the broker refused the result")
        if self._returned:
            raise CommunicationError("no queue takes results for %r: %s" % (key, self._returned))

    def disconnect(self) -> None:
        if self._socket is not None:
            self._socket.close()
        self._socket = None
        self._buffer.clear()
        self._ready.clear()
        self._arriving = None
        self._confirmed.clear()
        self._published = 0
        self._heartbeat = 0.0

    # --- the connection ----------------------------------------------------------------

    def _open(self) -> None:
        settings = self._settings
        raw = socket.create_connection((settings.host, settings.port), _SECONDS)
        raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._socket = raw
        if settings.ssl:
            self._socket = _tls_context(settings).wrap_socket(raw, server_hostname=settings.host)
        self._heard = self._spoke = time.monotonic()
        self._socket.sendall(amqp.PROTOCOL_HEADER)
        self._expect(amqp.START)
        login = "\x00%s\x00%s" % (settings.login, settings.password)
        about = {
            "product": "vetro-guest",
            "version": VERSION,
            "capabilities": {"consumer_cancel_notify": True, "publisher_confirms": True},
        }
        start = amqp.Writer(*amqp.START_OK).table(about).short_text("PLAIN")
        start.long_bytes(login.encode("utf-8")).short_text("en_US")
        self._method(start, channel=0)
        tune = self._expect(amqp.TUNE)
        channels, frame_max, heartbeat = tune.number("H"), tune.number("I"), tune.number("H")
        # Spread the heartbeats of a site's guests.
        wanted = random.randint(20, 40)  # noqa: S311 spreads load, guards nothing
        agreed = min(wanted, heartbeat) if heartbeat else wanted
        self._frame_max = min(frame_max or 131072, 131072)
        reply = amqp.Writer(*amqp.TUNE_OK).short(min(channels or 8, 8))
        self._method(reply.long(self._frame_max).short(agreed), channel=0)
        opening = amqp.Writer(*amqp.OPEN).short_text(settings.virtual_host)
        self._method(opening.short_text("").octet(0), channel=0)
        self._expect(amqp.OPEN_OK)
        self._method(amqp.Writer(*amqp.CHANNEL_OPEN).short_text(""))
        self._expect(amqp.CHANNEL_OPEN_OK)
        self._method(amqp.Writer(*amqp.CONFIRM).octet(0))
        self._expect(amqp.CONFIRM_OK)
        self._method(amqp.Writer(*amqp.QOS).long(0).short(1).octet(0))
        self._expect(amqp.QOS_OK)
        consume = amqp.Writer(*amqp.CONSUME).short(0).short_text(settings.input_queue)
        self._method(consume.short_text("").octet(0).table({}))
        self._expect(amqp.CONSUME_OK)
        self._heartbeat = float(agreed)

    def _method(self, writer: amqp.Writer, channel: int = _CHANNEL) -> None:
        self._send(amqp.Frame(amqp.METHOD, channel, bytes(writer.data)))

    def _send(self, frame: amqp.Frame) -> None:
        if self._socket is None:
            raise CommunicationError("there is no connection to the broker")
        try:
            self._socket.sendall(frame.encode())
        except OSError as error:
            raise CommunicationError("the broker is gone: %s" % _text(error)) from error
        self._spoke = time.monotonic()

    def _expect(self, wanted: "tuple[int, int]") -> amqp.Reader:
        """The next method frame, which must be `wanted`."""
        frame = self._next_frame()
        while frame.kind == amqp.HEARTBEAT:
            frame = self._next_frame()
        reader = amqp.Reader(frame.payload)
        method = (reader.number("H"), reader.number("H"))
        if method in (amqp.CONNECTION_CLOSE, amqp.CHANNEL_CLOSE):
            raise _closed(reader)
        if frame.kind != amqp.METHOD or method != wanted:
            raise CommunicationError("the broker sent %r instead of %r" % (method, wanted))
        return reader

    def _next_frame(self) -> amqp.Frame:
        while True:
            frame = amqp.split_frame(self._buffer)
            if frame is not None:
                return frame
            self._fill()

    def _fill(self) -> None:
        connection = self._socket
        if connection is None:
            raise CommunicationError("there is no connection to the broker")
        try:
            data = connection.recv(65536)
        except OSError as error:
            if isinstance(error, BlockingIOError) or type(error).__name__ == "SSLWantReadError":
                raise _NothingYet from error
            raise CommunicationError("the broker is gone: %s" % _text(error)) from error
        if not data:
            raise CommunicationError("the broker closed the connection")
        self._heard = time.monotonic()
        self._buffer += data

    def _read_some(self) -> None:
        """Read the available bytes; called when the socket is readable."""
        connection = self._socket
        if connection is None:
            return
        # A readable socket may have a TLS record without data: then there is nothing to read.
        connection.settimeout(0.0)
        try:
            self._fill()
            pending = getattr(connection, "pending", None)
            while pending is not None and pending():
                self._fill()
        except _NothingYet:
            pass  # wait for more
        finally:
            connection.settimeout(_SECONDS)
        while True:
            frame = amqp.split_frame(self._buffer)
            if frame is None:
                return
            self._handle(frame)

    def _wait_for(self, condition: "Any") -> None:
        deadline = time.monotonic() + _SECONDS
        while not condition():
            if time.monotonic() > deadline:
                raise CommunicationError("the broker does not confirm the result")
            self._handle(self._next_frame())

    def _handle(self, frame: amqp.Frame) -> None:
        if frame.kind == amqp.HEARTBEAT:
            return
        reader = amqp.Reader(frame.payload)
        if frame.kind == amqp.METHOD:
            self._handle_method((reader.number("H"), reader.number("H")), reader)
        elif self._arriving is None:
            raise CommunicationError("the broker sent content without a method")
        else:
            if frame.kind == amqp.HEADER:
                self._arriving.header(reader)
            else:
                self._arriving.body += frame.payload
            if self._arriving.complete():
                arrived, self._arriving = self._arriving, None
                if arrived.tag:
                    self._ready.append((arrived.tag, arrived.message()))

    def _handle_method(self, method: "tuple[int, int]", reader: amqp.Reader) -> None:
        if method == amqp.DELIVER:
            reader.short_bytes()
            self._arriving = _Arriving(reader.number("Q"), bool(reader.number("B")))
        elif method == amqp.RETURN:
            reader.number("H")
            self._returned = reader.short_text() or "returned"
            self._arriving = _Arriving(0)
        elif method in (amqp.ACK, amqp.NACK):
            tag, multiple = reader.number("Q"), reader.number("B") & 1
            # Only one result is unconfirmed at a time, so "all up to this one" means this one.
            for number in range(1 if multiple else tag, tag + 1):
                self._confirmed[number] = method == amqp.ACK
        elif method == amqp.CANCEL:
            raise CommunicationError("the input queue was removed")
        elif method in (amqp.CONNECTION_CLOSE, amqp.CHANNEL_CLOSE):
            raise _closed(reader)


class _Arriving:
    """A message of which some frames are missing. `tag` 0: a returned message of the agent's own."""

    def __init__(self, tag: int, redelivered: bool = False) -> None:
        self.tag = tag
        self._redelivered = redelivered
        self.body = bytearray()
        self._size: "int | None" = None
        self._properties: "dict[str, Any]" = {}

    def header(self, reader: amqp.Reader) -> None:
        reader.number("I")
        self._size = reader.number("Q")
        self._properties = reader.properties()

    def complete(self) -> bool:
        return self._size is not None and len(self.body) >= self._size

    def message(self) -> Message:
        headers: "dict[str, object]" = self._properties.get("headers") or {}
        signature = headers.get("signature")
        limit = headers.get("result-limit")
        return Message(
            bytes(self.body),
            signature if isinstance(signature, bytes) else None,
            self._properties.get("message_id"),
            self._properties.get("reply_to"),
            self._redelivered,
            limit if isinstance(limit, int) else None,
        )


def _closed(reader: amqp.Reader) -> CommunicationError:
    code = reader.number("H")
    return CommunicationError("the broker refuses: %d %s" % (code, reader.short_text()))


def _tls_context(settings: "Settings") -> "ssl.SSLContext":
    import ssl  # not needed for plain connections

    context = ssl.create_default_context(
        cafile=settings.ca_certs or None, cadata=settings.ca_data or None
    )
    if settings.insecure:
        known = settings.ca_certs or settings.ca_data
        context.check_hostname = False
        context.verify_mode = ssl.CERT_OPTIONAL if known else ssl.CERT_NONE
    return context


def _text(error: Exception) -> str:
    if isinstance(error, socket.timeout):
        return "no answer in time"
    return str(error) or type(error).__name__
