"""A load balancer as sites have one: it asks `/readyz`, and sends connections to those that are ready."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Sequence
from itertools import count

ASK_SECONDS = 0.1


class Balancer:
    """Passes connections of a port on to the ready ones of several others, in turn.

    ``asks=False``: nobody is asked, and ``ready`` is what the test says: an address that moves.
    """

    def __init__(self, port: int, targets: Sequence[int], *, asks: bool = True) -> None:
        self.port = port
        self.url = f"http://127.0.0.1:{port}"
        self.ready: list[int] = []
        self._targets = targets
        self._asks = asks
        self._turn = count()
        self._open: set[asyncio.Task[None]] = set()
        self._loop = asyncio.new_event_loop()
        self._end = asyncio.Event()
        self._thread = threading.Thread(target=self._loop.run_until_complete, args=(self._run(),))
        self._thread.start()

    def close(self) -> None:
        """Take no more connections, and end those that there are."""
        self._loop.call_soon_threadsafe(self._end.set)
        self._thread.join()
        self._loop.close()

    async def _run(self) -> None:
        server = await asyncio.start_server(self._pass_on, "127.0.0.1", self.port, backlog=256)
        asking = [asyncio.create_task(self._ask(one)) for one in self._targets if self._asks]
        await self._end.wait()
        server.close()
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in (*asking, *others):
            task.cancel()
        await asyncio.gather(*asking, *others, return_exceptions=True)

    async def _ask(self, target: int) -> None:
        while not self._end.is_set():
            well = await _is_ready(target)
            if well and target not in self.ready:
                self.ready.append(target)
            elif not well and target in self.ready:
                self.ready.remove(target)
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._end.wait(), ASK_SECONDS)

    async def _pass_on(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._open.add(task)  # the loop alone does not keep it
        ends = [writer]
        try:
            for _ in self._targets:
                if not self.ready:
                    break
                target = self.ready[next(self._turn) % len(self.ready)]
                try:
                    there, back = await asyncio.open_connection("127.0.0.1", target)
                except OSError:
                    continue
                ends.append(back)
                await asyncio.gather(_copy(reader, back), _copy(there, writer))
                break
        except (OSError, asyncio.CancelledError):
            pass  # an end is gone, or the balancer ends: so does the connection
        finally:
            self._open.discard(task)
            for one in ends:
                one.close()


async def _is_ready(target: int) -> bool:
    try:
        reader, writer = await asyncio.open_connection("127.0.0.1", target)
    except OSError:
        return False
    try:
        writer.write(b"GET /readyz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        return b" 200 " in await reader.readline()
    except OSError:
        return False
    finally:
        writer.close()


async def _copy(source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
    while data := await source.read(1 << 16):
        target.write(data)
        await target.drain()
    if not target.is_closing():
        target.write_eof()
