"""``vetro`` whose service stops in the middle of each machine's creation, to be killed there.

``service_that_waits.py DIRECTORY ARGUMENTS…``: each new machine gets the next of `MOMENTS`. Its creation
goes on until that moment, writes a file with the moment's name into the directory, and waits without end.
Without the directory nothing differs from ``vetro``.
"""

import asyncio
import sys
from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from pathlib import Path
from typing import Any

import vetro.node.drivers.process as process_driver
from vetro.cli import main
from vetro.compute.vms.lifecycle import Machines
from vetro.compute.work.node_tasks import NodeTasks
from vetro.node.drivers.process import ProcessHypervisor

MOMENTS = (
    "before the node task is stored",
    "before the node task is sent",
    "before the instance is made",
    "after the process is started",
    "after the instance is made",
    "before the result is stored",
    "after the result is stored",
)
moments = iter(MOMENTS)
moment_of: dict[str, str] = {}
vm_of: dict[str, str] = {}
starting: ContextVar[str] = ContextVar("starting", default="")


async def reach(vm: str, moment: str) -> None:
    """Wait without end if it is the moment of this machine."""
    if moment_of.get(vm) == moment:
        (DIRECTORY / moment).touch()
        await asyncio.Event().wait()


def replace(owner: Any, name: str, new: Callable[..., Awaitable[Any]]) -> None:
    """Replace a coroutine function by one that gets it as its first argument."""
    old = getattr(owner, name)

    async def replaced(*arguments: Any, **options: Any) -> Any:
        return await new(old, *arguments, **options)

    setattr(owner, name, replaced)


async def create(old: Any, self: Any, agent: Any, body: dict[str, Any], *about: Any) -> Any:
    """A machine is wanted."""
    if DIRECTORY.is_dir() and body["uuid"] not in moment_of:
        moment_of[body["uuid"]] = next(moments)
    await reach(body["uuid"], MOMENTS[0])
    return await old(self, agent, body, *about)


async def store(old: Any, self: Any, tx: Any, id_: str, *arguments: Any) -> None:
    """A task is stored."""
    _, task, _, about = arguments
    if task == "machine_create":
        vm_of[id_] = str(about.vm_uuid)
    await old(self, tx, id_, *arguments)


async def launch(old: Any, self: Any, id_: str) -> None:
    """A task is sent."""
    await reach(vm_of.get(id_, ""), MOMENTS[1])
    await old(self, id_)


async def end(old: Any, self: Any, row: Any, *arguments: Any) -> None:
    """A task has ended."""
    await reach(vm_of.get(row.id, ""), MOMENTS[5])
    await old(self, row, *arguments)
    await reach(vm_of.get(row.id, ""), MOMENTS[6])


async def make(old: Any, self: Any, vm: Any) -> None:
    """A node makes an instance."""
    await reach(vm["uuid"], MOMENTS[2])
    await old(self, vm)


async def start(old: Any, self: Any, vm: Any) -> None:
    """A node starts an instance."""
    starting.set(vm["uuid"])
    await old(self, vm)
    await reach(vm["uuid"], MOMENTS[4])


async def run(old: Any, *arguments: Any, **options: Any) -> Any:
    """A node starts the process of an instance, whose number is not kept yet."""
    result = await old(*arguments, **options)
    await reach(starting.get(), MOMENTS[3])
    return result


if __name__ == "__main__":
    DIRECTORY = Path(sys.argv.pop(1))
    replace(Machines, "create", create)
    replace(NodeTasks, "store", store)
    replace(NodeTasks, "launch", launch)
    replace(NodeTasks, "end", end)
    replace(ProcessHypervisor, "make", make)
    replace(ProcessHypervisor, "start", start)
    replace(process_driver, "run", run)
    sys.exit(main())
