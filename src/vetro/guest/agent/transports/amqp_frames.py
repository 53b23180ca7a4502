"""The AMQP 0-9-1 wire format: frames, methods and tables, as far as a guest needs them."""

import struct

from ..errors import CommunicationError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

PROTOCOL_HEADER = b"AMQP\x00\x00\x09\x01"
METHOD, HEADER, BODY, HEARTBEAT = 1, 2, 3, 8
_END = b"\xce"

START, START_OK = (10, 10), (10, 11)
TUNE, TUNE_OK = (10, 30), (10, 31)
OPEN, OPEN_OK = (10, 40), (10, 41)
CONNECTION_CLOSE, CONNECTION_CLOSE_OK = (10, 50), (10, 51)
CHANNEL_OPEN, CHANNEL_OPEN_OK = (20, 10), (20, 11)
CHANNEL_CLOSE, CHANNEL_CLOSE_OK = (20, 40), (20, 41)
QOS, QOS_OK = (60, 10), (60, 11)
CONSUME, CONSUME_OK = (60, 20), (60, 21)
CANCEL = (60, 30)
PUBLISH = (60, 40)
RETURN = (60, 50)
DELIVER = (60, 60)
ACK, NACK = (60, 80), (60, 120)
CONFIRM, CONFIRM_OK = (85, 10), (85, 11)

# Message properties in the order of their bits, from bit 15 down.
_PROPERTIES = (
    ("content_type", "s"),
    ("content_encoding", "s"),
    ("headers", "F"),
    ("delivery_mode", "B"),
    ("priority", "B"),
    ("correlation_id", "s"),
    ("reply_to", "s"),
    ("expiration", "s"),
    ("message_id", "s"),
    ("timestamp", "T"),
    ("type", "s"),
    ("user_id", "s"),
    ("app_id", "s"),
    ("cluster_id", "s"),
)


class Frame:
    """One frame."""

    def __init__(self, kind: int, channel: int, payload: bytes) -> None:
        self.kind = kind
        self.channel = channel
        self.payload = payload

    def encode(self) -> bytes:
        """The bytes of the frame."""
        head = struct.pack(">BHI", self.kind, self.channel, len(self.payload))
        return head + self.payload + _END


def split_frame(buffer: bytearray) -> "Frame | None":
    """Take one whole frame from the head of `buffer`; None if it is incomplete."""
    if len(buffer) < 7:
        return None
    kind, channel, size = struct.unpack(">BHI", buffer[:7])
    if size > 1 << 27:
        raise CommunicationError("the broker sent a frame of %d bytes" % size)
    if len(buffer) < size + 8:
        return None
    if bytes(buffer[size + 7 : size + 8]) != _END:
        raise CommunicationError("the broker sent a damaged frame")
    payload = bytes(buffer[7 : size + 7])
    del buffer[: size + 8]
    return Frame(kind, channel, payload)


class Writer:
    """Builds the payload of a method or of a content header."""

    def __init__(self, *numbers: int) -> None:
        self.data = bytearray()
        for number in numbers:
            self.short(number)

    def octet(self, value: int) -> "Writer":
        self.data += struct.pack(">B", value)
        return self

    def short(self, value: int) -> "Writer":
        self.data += struct.pack(">H", value)
        return self

    def long(self, value: int) -> "Writer":
        self.data += struct.pack(">I", value)
        return self

    def long_long(self, value: int) -> "Writer":
        self.data += struct.pack(">Q", value)
        return self

    def short_text(self, value: str) -> "Writer":
        data = value.encode("utf-8")
        if len(data) > 255:
            raise CommunicationError("%r is too long for AMQP" % value)
        self.octet(len(data))
        self.data += data
        return self

    def long_bytes(self, value: bytes) -> "Writer":
        self.long(len(value))
        self.data += value
        return self

    def table(self, values: "dict[str, Any]") -> "Writer":
        """Write a table; a client's properties need only texts, booleans and nested tables."""
        inner = Writer()
        for key, value in values.items():
            inner.short_text(key)
            if isinstance(value, bool):
                inner.data += b"t"
                inner.octet(int(value))
            elif isinstance(value, str):
                inner.data += b"S"
                inner.long_bytes(value.encode("utf-8"))
            else:
                inner.data += b"F"
                inner.table(value)
        return self.long_bytes(bytes(inner.data))

    def properties(self, values: "dict[str, Any]") -> "Writer":
        """Content properties; only short texts and octets are written."""
        flags = 0
        inner = Writer()
        for bit, (name, kind) in enumerate(_PROPERTIES):
            if name in values:
                flags |= 1 << (15 - bit)
                if kind == "B":
                    inner.octet(values[name])
                else:
                    inner.short_text(values[name])
        self.short(flags)
        self.data += inner.data
        return self


class Reader:
    """Reads a payload value by value. A short payload is a `CommunicationError`."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def take(self, size: int) -> bytes:
        if self._at + size > len(self._data):
            raise CommunicationError("the broker sent a frame that ends early")
        self._at += size
        return self._data[self._at - size : self._at]

    def number(self, layout: str) -> "Any":
        return struct.unpack(">" + layout, self.take(struct.calcsize(layout)))[0]

    def short_bytes(self) -> bytes:
        return self.take(self.number("B"))

    def short_text(self) -> str:
        return self.short_bytes().decode("utf-8", "replace")

    def long_bytes(self) -> bytes:
        return self.take(self.number("I"))

    def table(self) -> "dict[str, Any]":
        inner = Reader(self.long_bytes())
        values: "dict[str, object]" = {}
        while inner._at < len(inner._data):
            key = inner.short_text()
            values[key] = inner.value()
        return values

    def value(self) -> "Any":
        """One table value; texts stay bytes, because a signature may have either type."""
        kind = self.take(1).decode("latin-1")
        if kind in _NUMBERS:
            return self.number(_NUMBERS[kind])
        if kind in "Sx":
            return self.long_bytes()
        if kind == "t":
            return bool(self.number("B"))
        if kind == "F":
            return self.table()
        if kind == "A":
            inner = Reader(self.long_bytes())
            items: "list[object]" = []
            while inner._at < len(inner._data):
                items.append(inner.value())
            return items
        if kind == "D":
            return (self.number("B"), self.number("i"))
        if kind == "V":
            return None
        raise CommunicationError("the broker sent a table value of unknown type %r" % kind)

    def properties(self) -> "dict[str, Any]":
        """The properties of a content header."""
        flags = self.number("H")
        if flags & 1:
            raise CommunicationError("the broker sent property flags that are not known")
        values: "dict[str, object]" = {}
        for bit, (name, kind) in enumerate(_PROPERTIES):
            if flags & (1 << (15 - bit)):
                if kind == "s":
                    values[name] = self.short_text()
                elif kind == "F":
                    values[name] = self.table()
                else:
                    values[name] = self.number("B" if kind == "B" else "Q")
        return values


_NUMBERS = {
    "b": "b",
    "B": "B",
    "s": "h",
    "u": "H",
    "I": "i",
    "i": "I",
    "l": "q",
    "L": "q",
    "f": "f",
    "d": "d",
    "T": "Q",
}
