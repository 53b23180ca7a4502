"""Quotas: how much of each resource a project may have.

A room that keeps what projects have declares a table of limits (`quota_table`) and a function that
counts what a project has, and makes its `Quotas` of them. What is used is counted from the room's own
rows whenever it matters (decision 0425): what is removed is free again at once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from vetro.lazy_names import import_when_used

if TYPE_CHECKING:
    from vetro.quotas.limits import (
        UNITS,
        UNLIMITED,
        Gate,
        QuotaExceeded,
        Quotas,
        Usage,
        quota_table,
    )
    from vetro.quotas.projects import ProjectQuotas
    from vetro.quotas.settings import QuotasSection

__getattr__ = import_when_used(__name__)
