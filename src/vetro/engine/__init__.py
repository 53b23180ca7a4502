"""The engine: takes deployments from the queue and runs each; the system classes behind programs.

``EnginePool`` runs tasks in worker processes; ``EngineSettings`` configures it; ``library_path()`` is
where the packages are that ship with Vetro.

Names are loaded when they are used: a program that runs on a cloud in memory needs no database.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from vetro.lazy_names import import_when_used

if TYPE_CHECKING:
    from vetro.engine.journal import kept_attributes
    from vetro.engine.policy import RulesError, read_rules
    from vetro.engine.pool import EnginePool, owner_of
    from vetro.engine.services import library_path
    from vetro.engine.settings import EngineSection, EngineSettings, HeatSection, NetworkSection
    from vetro.engine.tables import MIGRATIONS

__getattr__ = import_when_used(__name__)
