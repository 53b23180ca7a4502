"""How answers leave a connection."""

import asyncio
from typing import Any, cast

from vetro.http.protocol import GATHERED_BYTES, Gathering

HEAD = b"HTTP/1.1 200 OK\r\n\r\n"


class Written:
    """What is left of a transport: what was written, and how it ended."""

    def __init__(self) -> None:
        self.pieces: list[bytes] = []
        self.ended = ""

    def write(self, data: bytes) -> None:
        self.pieces.append(data)

    def get_write_buffer_size(self) -> int:
        return 0

    def close(self) -> None:
        self.ended = "closed"

    def abort(self) -> None:
        self.ended = "aborted"


def gathering() -> tuple[Written, Gathering]:
    written = Written()
    return written, Gathering(cast("Any", written), asyncio.get_running_loop())


async def test_the_head_of_an_answer_and_its_body_are_one_write() -> None:
    """A client is woken once for a small answer."""
    written, transport = gathering()
    transport.write(HEAD)
    assert transport.get_write_buffer_size() == len(HEAD)
    transport.write(b"body")
    transport.write(b" and more")
    await asyncio.sleep(0)
    assert written.pieces == [HEAD + b"body", b" and more"]
    assert transport.get_write_buffer_size() == 0


async def test_a_head_without_a_body_is_sent_in_the_next_turn_of_the_loop() -> None:
    """An event stream's head does not wait for the first event."""
    written, transport = gathering()
    transport.write(HEAD)
    assert written.pieces == []
    await asyncio.sleep(0)
    assert written.pieces == [HEAD]


async def test_a_large_body_is_not_copied_behind_its_head() -> None:
    """The head is written for itself then, and before it."""
    written, transport = gathering()
    body = bytes(GATHERED_BYTES + 1)
    transport.write(HEAD)
    transport.write(body)
    assert written.pieces[0] == HEAD
    assert written.pieces[1] is body


async def test_a_connection_that_is_closed_sends_its_head_first() -> None:
    """An aborted one does not."""
    written, transport = gathering()
    transport.write(HEAD)
    transport.close()
    assert (written.pieces, written.ended) == ([HEAD], "closed")
    written, transport = gathering()
    transport.write(HEAD)
    transport.abort()
    await asyncio.sleep(0)
    assert (written.pieces, written.ended) == ([], "aborted")
