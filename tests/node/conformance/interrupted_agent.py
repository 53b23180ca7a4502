"""An agent that does one task, and is killed or has an error on the way.

``python interrupted_agent.py RIG DIRECTORY``, with JSON on standard input: ``{"node_names", "payload",
"point", "task", "fails"}``. ``task`` is ``create``, or another one with the VM of the payload; ``fails``: an
error comes at the point, and the agent goes on. Where it may happen is found in the code as it runs, so that
a step that is added later is one more point: whenever a method of the driver, its hypervisor, its stores or
its pool returns, and something on the machine was changed since the last point; and right after each command
was started. The points' names are printed as they are reached. It ends with 0 when the task was done, and
with 3 after an error.
"""

from __future__ import annotations

import asyncio
import functools
import inspect
import json
import os
import signal
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from types import FunctionType
from typing import Any

from vetro.node.errors import DriverError

_CHANGES = frozenset(
    {
        "os.mkdir", "os.rename", "os.remove", "os.rmdir", "os.chown", "os.chmod", "os.link",
        "os.symlink", "os.truncate", "os.utime", "os.setxattr", "shutil.rmtree",
        "subprocess.Popen", "os.fork", "os.kill",
    }
)  # fmt: skip


class Points:
    """Counts the points of what runs and ends this process, without a word, at one of them, or fails."""

    def __init__(self, last: int, *, fails: bool) -> None:
        self._left = last
        self._fails = fails
        self._changed = False
        self._counting = False
        sys.addaudithook(self._audit)

    def begin(self) -> None:
        """Count from here."""
        self._counting = True

    def _audit(self, event: str, arguments: tuple[Any, ...]) -> None:
        if event in _CHANGES or (
            event == "open" and len(arguments) == 3 and _writes(arguments[1], arguments[2])
        ):
            self._changed = True

    def passed(self, name: str) -> None:
        """Here the process may be killed, if anything was changed since it might have been."""
        if not self._counting or not self._changed:
            return
        self._changed = False
        os.write(1, f"{name}\n".encode())
        self._left -= 1
        if self._left == 0 and self._fails:
            raise DriverError(f"an error right after {name}")
        if self._left == 0:
            os.kill(os.getpid(), signal.SIGKILL)

    def watch(self, found: object, seen: set[int]) -> None:
        """Make points of the methods of ``found`` and of all of ours that it holds."""
        if id(found) in seen or not type(found).__module__.startswith("vetro.node"):
            return
        seen.add(id(found))
        for class_ in type(found).__mro__:
            if class_.__module__.startswith("vetro.node"):
                for name, method in list(vars(class_).items()):
                    if isinstance(method, FunctionType) and not name.startswith("__"):
                        self._wrap(class_, name, method)
        for held in vars(found).values() if hasattr(found, "__dict__") else ():
            for one in held if isinstance(held, tuple) else (held,):
                self.watch(one, seen)

    def _wrap(self, class_: type, name: str, method: Any) -> None:
        # Generators and context managers are not steps by themselves; what runs in them is.
        if hasattr(method, "__wrapped__") or inspect.isgeneratorfunction(method):
            return
        label = f"{class_.__name__}.{name}"

        if inspect.iscoroutinefunction(method):

            @functools.wraps(method)
            async def wrapped(*arguments: Any, **named: Any) -> Any:
                result = await method(*arguments, **named)
                self.passed(label)
                return result
        else:

            @functools.wraps(method)
            def wrapped(*arguments: Any, **named: Any) -> Any:
                result = method(*arguments, **named)
                self.passed(label)
                return result

        setattr(class_, name, wrapped)

    def watch_commands(self) -> None:
        """A command that has been started goes on without us."""
        start: Callable[..., Any] = asyncio.create_subprocess_exec

        async def started(*argv: str, **named: Any) -> Any:
            process = await start(*argv, **named)
            self._changed = True
            tool = argv[4] if argv[0] == "setpriv" else argv[0]
            self.passed(f"command {Path(tool).name}")
            # What it does is a change as well: there is a point behind its end.
            self._changed = True
            return process

        asyncio.create_subprocess_exec = started


def _writes(mode: str | None, flags: int) -> bool:
    if mode is not None and set(mode) & set("wxa+"):
        return True
    return bool(flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT))


async def main() -> None:
    """Do the task."""
    name, directory = sys.argv[1:]
    given = json.load(sys.stdin)
    sys.path.insert(0, str(Path(__file__).parents[3]))
    from tests.node import conftest
    from tests.node.conformance.conftest import RIGS

    kit = inspect.unwrap(conftest.kit)()
    kit.node_names = tuple(given["node_names"])
    for nic in given["payload"].get("nics", []):
        kit.network_uuid = nic["network_uuid"]
    points = Points(int(given["point"]), fails=given["fails"])
    async with RIGS[name].open(Path(directory), kit) as rig:
        points.watch(rig.driver, set())
        if not given["fails"]:
            # A command that has been started does not fail by itself.
            points.watch_commands()
        uuid = given["payload"]["uuid"]
        tasks: dict[str, Callable[[], Awaitable[object]]] = {
            "create": lambda: rig.driver.create(given["payload"], lambda _step, _percent: None),
            "reprovision": lambda: rig.driver.reprovision(uuid, rig.other_image),
            "rollback": lambda: rig.driver.rollback_snapshot(uuid, "before"),
        }
        points.begin()
        try:
            await tasks[given["task"]]()
        except DriverError:
            os._exit(3)
        # An agent that is not killed leaves what it made.
        os._exit(0)


if __name__ == "__main__":
    asyncio.run(main())
