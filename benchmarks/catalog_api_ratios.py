"""The rows of `catalog_api.py` as ratios to the first version: `catalog_api_ratios.py COMMAND [ROW…]`.

How many calls a machine serves in a second says little about another machine, nor about the same one an
hour later: a busy host takes two thirds away. Both versions therefore run side by side and are measured in
turn, and what counts is the ratio. The first version was measured on one machine together with the server
that Vetro replaces (`FIRST`): four times that server is so many times the first version, on any machine. The
commit that it was is not known; b1bffc52 gave nearly the same figures on machines of that kind (decision
0775).

``COMMAND`` is `bin/vetro` of an environment with it: a worktree of that commit, and
`pip install --constraint constraints.txt --editable WORKTREE` in a virtual environment of its own.
"""

from __future__ import annotations

import statistics
import sys
from contextlib import ExitStack
from dataclasses import dataclass, field

import catalog_api
from catalog_api import CALLERS, TIMES, VETRO, Caller, Figures, Row, Service

ROUNDS = 5
#: Calls a second of one caller that the first version and the original served on the same machine.
FIRST = {
    "list of 100 environments": (272, 11),
    "one environment": (560, 93),
    "services": (583, 144),
    "configure + add + delete session": (152, 45),
    "create + abandon": (325, 79),
    "create + delete": (208, 31),
    "packages page": (310, 195),
    "search": (151, 160),
    "download": (528, 409),
    "upload + delete": (137, 55),
}


@dataclass
class Side:
    """A version that runs, its rows by name, and what they gave: with one caller, with 16."""

    service: Service
    rows: dict[str, Row]
    single: list[Figures] = field(default_factory=list[Figures])
    many: list[Figures] = field(default_factory=list[Figures])

    def measure(self, name: str) -> None:
        """Once more, with one caller and with 16."""
        step = self.rows[name].step
        self.single.append(catalog_api.measure(self.service, step, 1))
        self.many.append(catalog_api.measure(self.service, step, CALLERS))


def start(command: str, stack: ExitStack) -> Side:
    """A service of this version, with 40 packages, 100 environments and 16 open sessions."""
    catalog_api.VETRO = command
    service = stack.enter_context(catalog_api.running())
    caller = service.caller()
    packages = [catalog_api.upload(caller, f"P{number}") for number in range(40)]
    one = ""
    for number in range(100):
        services = [catalog_api.service_object(place) for place in range(3)]
        body = {"name": f"e-{number}", "services": services}
        one = caller.ok("POST", "/v1/environments", body)["id"]
    for _ in range(CALLERS):
        caller.ok("POST", f"/v1/environments/{one}/configure")

    def listed(caller: Caller, _number: int) -> None:
        caller.read("/v1/environments")

    rows = [Row("list of 100 environments", 11, listed, True), *catalog_api.rows(one, packages[0])]
    return Side(service, {row.name: row for row in rows})


def rate(figures: list[Figures]) -> float:
    """The calls a second in the middle one of several measurements."""
    return statistics.median(one.rate for one in figures)


def report(name: str, first: Side, now: Side) -> bool:
    """Measure a row of both in turn and print it; whether it is as fast as it is to be."""
    for side in (first, now):
        side.single, side.many = [], []
    for number in range(ROUNDS):
        for side in (first, now) if number % 2 else (now, first):
            side.measure(name)
    ours, original = FIRST[name]
    aim, ratio = original * TIMES / ours, rate(now.single) / rate(first.single)
    against_one = rate(now.many) / rate(now.single)
    rounds = " ".join(
        f"{b.rate / a.rate:.2f}" for a, b in zip(first.single, now.single, strict=True)
    )
    print(
        f"{name:34} {rate(first.single):7.0f} {rate(now.single):7.0f} {ratio:6.2f} {aim:6.2f}"
        f" {rate(now.many):7.0f} {against_one:6.2f}   {rounds}{'' if ratio >= aim else '  TOO SLOW'}",
        flush=True,
    )
    return ratio >= aim


def main() -> int:
    """Run the rows; 1 when one does not reach its ratio."""
    command, *names = sys.argv[1:]
    with ExitStack() as stack:
        first, now = start(command, stack), start(VETRO, stack)
        print(
            f"{'':34} {'first':>7} {'now':>7} {'ratio':>6} {'aim':>6} {'16: /s':>7} {'16/1':>6}   rounds"
        )
        reached = [report(name, first, now) for name in names or FIRST]
    return int(not all(reached))


if __name__ == "__main__":
    sys.exit(main())
