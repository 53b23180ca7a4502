"""What the library of YAQL gets as its evaluation in code of formats 1.0 and 1.1."""

from __future__ import annotations

import datetime
import random
from collections.abc import Sequence
from typing import TYPE_CHECKING

from vetro.muranopl.threads.effects import EffectsPort
from vetro.yaql.evaluation import Evaluation

from .budgets import CHUNK

if TYPE_CHECKING:
    from .run import Run


class LegacyRun(Evaluation):
    """A view of a run that gives the library the legacy flavour."""

    __slots__ = ("main",)

    def __init__(self, main: Run) -> None:
        super().__init__(main.session.runtime.library("legacy"), main.limits)
        self.final_types = main.final_types
        self.main = main
        self.fuel = 0

    def refuel(self) -> None:
        self.fuel += CHUNK
        self.main.charge(CHUNK)

    def now(self) -> datetime.datetime:
        return self.main.now()

    def random(self) -> random.Random:
        return self.main.random()

    def host_property(self, receiver: object, name: str) -> object:
        return self.main.host_property(receiver, name)

    def host_method(
        self, receiver: object, name: str, args: Sequence[object], kwargs: dict[str, object]
    ) -> object:
        return self.main.host_method(receiver, name, args, kwargs)

    def is_host_method_receiver(self, receiver: object) -> bool:
        return self.main.is_host_method_receiver(receiver)

    def host_text(self, value: object) -> str:
        return self.main.host_text(value)


class PortRandom(random.Random):
    """Takes its random numbers from the effects port."""

    def __init__(self, effects: EffectsPort) -> None:
        super().__init__(0)
        self._effects = effects

    def random(self) -> float:
        return self._effects.random()
