"""The compute control plane in virtual time: waitlist, reconciler and allocator against a model.

The real stores run: ``TicketStore``, ``Heartbeats``, ``Placement``, on a real SQLite file. What is
simulated is time (``loop``), the way to the database (``store``: every statement takes a while, and
sometimes nothing goes) and everybody who uses the service (``world``): processes that are killed and
come back, nodes that fall silent, clients that vanish. ``model`` looks at every commit and says what
must never be seen. One seed is one history, the same every time.
"""

from simulation.model import Violation
from simulation.world import Report, simulate

__all__ = ["Report", "Violation", "simulate"]
