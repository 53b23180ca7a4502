"""The metadata repository: service definitions of the v0.3 world (metadata-repository.md).

``Repository`` is the store: definitions by project, and the archives that forms and engines fetch.
``repository_face`` serves it. Every project begins with the shipped definitions, which it shares
until its first change.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from vetro.lazy_names import import_when_used

if TYPE_CHECKING:
    from vetro.repository.face import repository_face, repository_policy
    from vetro.repository.sets import forget_project
    from vetro.repository.settings import RepositorySection
    from vetro.repository.store import DefinitionsMissing, Repository
    from vetro.repository.tables import MIGRATIONS

__getattr__ = import_when_used(__name__)
