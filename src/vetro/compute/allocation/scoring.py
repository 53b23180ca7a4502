"""Scorers: they drop no server and raise scores (allocation.md §7)."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from vetro.compute.allocation.columns import Floats, Indices, sorted_positions
from vetro.compute.allocation.run import Plugin, Run
from vetro.compute.allocation.steps import Increases, Reasons, skip

SPREAD_WEIGHT = 2.0
WEEK_MS = 7 * 24 * 3600 * 1000
FEW = "One or fewer servers"


def spread_of(run: Run) -> str | None:
    """How VMs are to be spread: the package's setting, else the default."""
    given = (run.package or {}).get("alloc_server_spread")
    return given or run.defaults.server_spread or None


def ramp(count: int, weight: float) -> Floats:
    """From ``weight`` for the first to 0 for the last; a single one gets all."""
    if count == 1:
        return np.array([weight], np.float64)
    return (count - 1 - np.arange(count, dtype=np.float64)) / (count - 1) * weight


def _raise(
    run: Run, at: Indices, more: Floats, suffix_of: Callable[[int], str] | None = None
) -> Reasons:
    """Add to the scores; creates a new array, as reasons keep the old ones."""
    totals = run.scores.copy()
    totals[at] += more
    run.scores = totals
    return Increases(at, more, totals, suffix_of)


def _linear(
    run: Run,
    values: NDArray[np.int64],
    weight: float,
    *,
    most_first: bool,
    suffix_of: Callable[[int], str] | None = None,
) -> Reasons:
    """Give the remaining servers less and less, in order of ``values``."""
    left = run.left()
    ranked = left[sorted_positions(values[left], descending=most_first)]
    return _raise(run, ranked, ramp(len(ranked), abs(weight)), suffix_of)


def unreserved_ram(run: Run) -> Reasons | None:
    """By free memory: with a positive weight the freest first (or last, see ``weight_sign``)."""
    spread = spread_of(run)
    if spread in ("min-ram", "max-ram"):
        return _linear(run, run.room().ram, SPREAD_WEIGHT, most_first=spread == "max-ram")
    if spread is not None:
        return skip("pkg or default set to score with other plugin")
    return _by_room(run, run.room().ram, run.defaults.weight_unreserved_ram)


def unreserved_disk(run: Run) -> Reasons | None:
    """By free disk, like free memory."""
    spread = spread_of(run)
    if spread is not None:
        return skip(f"pkg or default set to spread with: {spread}")
    return _by_room(run, run.room().disk, run.defaults.weight_unreserved_disk)


def _by_room(run: Run, room: NDArray[np.int64], weight: float) -> Reasons:
    if not weight:
        return skip("Resolved score weight to 0.00; no changes")
    documented = run.defaults.weight_sign == "documented"
    return _linear(run, room, weight, most_first=(weight > 0) is documented)


def num_owner_zones(run: Run) -> Reasons | None:
    """By the number of the owner's VMs: with a positive weight the fewest first."""
    spread = spread_of(run)
    weight = run.defaults.weight_num_owner_zones
    if spread == "min-owner":
        weight = SPREAD_WEIGHT
    elif spread is not None:
        return skip(f"pkg or default set to spread with: {spread}")
    if not weight:
        return skip("Resolved score weight to 0.00; no changes")
    owned = run.fleet.owned(run.owner)
    counts = np.zeros(len(run.fleet), np.int64)
    if owned:
        counts[list(owned)] = list(owned.values())
    return _linear(
        run,
        counts,
        weight,
        most_first=weight < 0,
        suffix_of=lambda at: f"; {int(counts[at])} owner zones found",
    )


def normalised(values: Floats, weight: float) -> Floats:
    """From 0 for the lowest to ``weight`` for the highest (reversed and |weight| when negative)."""
    least, most = values.min(), values.max()
    if least == most:
        return np.full(len(values), weight, np.float64)
    if weight == 0:
        return np.zeros(len(values), np.float64)
    if weight > 0:
        return (values - least) / (most - least) * weight
    return (most - values) / (most - least) * abs(weight)


def current_platform(run: Run) -> Reasons | None:
    """By the age of the platform: newest first. An invalid stamp counts as the oldest."""
    if run.count <= 1:
        return skip(FEW)
    left = run.left()
    times = run.fleet.platform_times[left]
    unknown = np.isnan(times)
    if unknown.all():
        times = np.zeros(len(times), np.float64)
    elif unknown.any():
        times = np.where(unknown, np.nanmin(times), times)
    return _raise(run, left, normalised(times, run.defaults.weight_current_platform))


def next_reboot(run: Run) -> Reasons | None:
    """By the next planned reboot: none first, then the latest, in steps of a week."""
    if run.count <= 1:
        return skip(FEW)
    left = run.left()
    weight = run.defaults.weight_next_reboot
    reboots, boots = run.fleet.next_reboots[left], run.fleet.last_boots[left]
    planned = ~np.isnan(reboots) & ~(reboots < boots)
    bucket = np.zeros(len(left), np.int64)
    buckets = 1
    if planned.any():
        buckets = 1 if planned.all() else 2
        first = None
        for at in sorted(np.flatnonzero(planned).tolist(), key=lambda one: -reboots[one]):
            if first is None:
                first = reboots[at]
            elif first - reboots[at] >= WEEK_MS:
                first = reboots[at]
                buckets += 1
            bucket[at] = buckets - 1
    steps = ramp(buckets, abs(weight))
    if weight < 0:
        bucket = buckets - 1 - bucket
    return _raise(run, left, steps[bucket])


def uniform_random(run: Run) -> Reasons | None:
    """At random."""
    spread = spread_of(run)
    weight = run.defaults.weight_uniform_random
    if spread == "random":
        weight = SPREAD_WEIGHT
    elif spread is not None:
        return skip(f"pkg or default set to spread with: {spread}")
    if not weight:
        return skip("Resolved score weight to 0; no changes")
    left = run.left()
    return _raise(run, run.random.permutation(left), ramp(len(left), abs(weight)))


PLUGINS: dict[str, Plugin] = {
    "score-unreserved-ram": Plugin("Score servers based on unreserved RAM", unreserved_ram),
    "score-unreserved-disk": Plugin("Score servers based on unreserved disk", unreserved_disk),
    "score-num-owner-zones": Plugin(
        "Score servers based on number of zones belonging to owner", num_owner_zones
    ),
    "score-current-platform": Plugin(
        "Score servers running newer platforms more highly", current_platform
    ),
    "score-next-reboot": Plugin(
        "Score servers that will not be rebooted soon more highly", next_reboot
    ),
    "score-uniform-random": Plugin("Increase server scores randomly", uniform_random),
}
