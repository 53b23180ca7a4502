"""The control plane in virtual time: no seed shows what must never be seen, and faults would show.

`make simulate SEEDS=1000` plays more histories than these.
"""

import asyncio
import logging
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import structlog

from vetro.compute.placement.reserving import Reservations
from vetro.compute.servers.heartbeats import Beat, Heartbeats
from vetro.compute.waitlist.tickets import TicketStore

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tools"))

from simulate import make_template
from simulation import Violation, simulate
from simulation.loop import Deadlock
from simulation.store import Files
from tests.effort import examples

CHUNKS = 4
"""Pieces of the run, so that several processes can share it."""
SEEDS = examples(20)
#: Histories within which a fault must show.
TRIES = 60


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A migrated database to begin histories with."""
    path = tmp_path_factory.mktemp("simulation") / "template.db"
    asyncio.run(make_template(path))
    return path


@pytest.fixture
def files(template: Path, tmp_path: Path) -> Iterator[Files]:
    """Where histories keep their database; nothing is logged meanwhile."""
    quiet = structlog.make_filtering_bound_logger(logging.CRITICAL)
    before = structlog.get_config()
    structlog.configure(**{**before, "wrapper_class": quiet})
    yield Files(template, tmp_path)
    structlog.configure(**before)


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_no_history_breaks_a_rule(files: Files, chunk: int) -> None:
    """Turns in order and one at a time, waits that end, room that is there, servers told right."""
    for seed in range(chunk * SEEDS + 1, (chunk + 1) * SEEDS + 1):
        report = simulate(seed, files)
        assert report.turns > 0, f"seed {seed}: nobody had a turn"


def test_a_seed_is_one_history(files: Files) -> None:
    """Played again it is the same, to the last count; another seed is another."""
    assert simulate(7, files) == simulate(7, files)
    assert simulate(7, files) != simulate(8, files)


async def _nothing(*_args: Any, **_kwargs: Any) -> None:
    return None


async def _unchecked(self: Reservations, tx: Any, chosen: Any) -> dict[str, int]:
    servers = {one if isinstance(one, str) else one.server for one in chosen}
    return {server: self.chooser.index.stamps[server] for server in servers}


FAULTS: list[tuple[type[Any], str, Any, str]] = [
    (TicketStore, "_promote", _nothing, "nobody's turn"),
    (TicketStore, "expire", _nothing, "expired"),
    (Reservations, "_stamps", _unchecked, "gave away"),
    (Heartbeats, "ask", _nothing, "not running"),
    (Heartbeats, "_adopt", lambda *_arguments: None, "silent"),
    (Beat, "stale", lambda _self, _now: False, "silent"),
]


@pytest.mark.parametrize(("owner", "name", "fault", "said"), FAULTS)
def test_a_fault_would_show(
    files: Files,
    monkeypatch: pytest.MonkeyPatch,
    owner: type[Any],
    name: str,
    fault: Any,
    said: str,
) -> None:
    """With a part taken out, a few histories are enough to see it."""
    monkeypatch.setattr(owner, name, fault)
    with pytest.raises((Violation, Deadlock)) as caught:
        for seed in range(1, TRIES + 1):
            simulate(seed, files)
    assert said in str(caught.value)


def test_a_lost_wake_up_would_show(files: Files, monkeypatch: pytest.MonkeyPatch) -> None:
    """A change of turn without a notification leaves a client waiting, which the check finds."""
    notify = "simulation.store.TwinTransaction.notify"

    def deaf(self: Any, channel: str, payload: str = "") -> None:
        if payload != "active":
            self.notifications.append((channel, payload))

    monkeypatch.setattr(notify, deaf)
    with pytest.raises((Violation, Deadlock)):
        for seed in range(1, TRIES + 1):
            simulate(seed, files)
