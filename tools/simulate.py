"""`make simulate SEEDS=…`: histories of the compute control plane in virtual time.

`simulate.py [--seeds N] [--first N]`: plays that many seeds from the first on; 1 at the first violation,
which names the seed: `simulate.py --seeds 1 --first SEED` plays it again.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "src"))
sys.path.insert(0, str(Path(__file__).resolve().parent))


async def make_template(path: Path) -> None:
    """A database with the compute room's tables."""
    from vetro import compute
    from vetro.storage import Database, migrate

    database = await Database.open(f"sqlite:///{path}")
    await migrate(database, [compute.MIGRATIONS])
    await database.close()


def main() -> int:
    """Play the seeds."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=200)
    parser.add_argument("--first", type=int, default=1)
    options = parser.parse_args()
    import structlog

    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    from simulation import Violation, simulate
    from simulation.loop import Deadlock
    from simulation.store import Files

    began = time.process_time()
    totals = dict.fromkeys(("commits", "turns", "placed", "refused", "kills", "silences"), 0)
    with tempfile.TemporaryDirectory(prefix="vetro-simulation-") as directory:
        template = Path(directory) / "template.db"
        asyncio.run(make_template(template))
        files = Files(template, Path(directory))
        for seed in range(options.first, options.first + options.seeds):
            try:
                report = simulate(seed, files)
            except (Violation, Deadlock) as error:
                print(f"seed {seed}: {error}")
                print(f"again: python tools/simulate.py --seeds 1 --first {seed}")
                return 1
            for name in totals:
                totals[name] += getattr(report, name)
    spent = time.process_time() - began
    print(f"{options.seeds} seeds, {spent:.1f} s of processor time; " + ", ".join(
        f"{count} {name}" for name, count in totals.items()
    ))  # fmt: skip
    return 0


if __name__ == "__main__":
    sys.exit(main())
