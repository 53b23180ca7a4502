"""Counts of a face's requests in this process, for statistics that its room stores."""

from __future__ import annotations

from dataclasses import dataclass, field

MOST_PROJECTS = 10_000
"""Projects that are counted one by one; later ones only count with all."""


@dataclass
class RequestCounts:
    """Requests since the process began: all, those that failed (5xx), their seconds, by project."""

    requests: int = 0
    errors: int = 0
    seconds: float = 0.0
    by_project: dict[str, int] = field(default_factory=dict[str, int])

    def count(self, project_id: str, status: int, seconds: float) -> None:
        """Count one request; ``project_id`` is '' when the caller is unknown."""
        self.requests += 1
        self.errors += status >= 500
        self.seconds += seconds
        if project_id and (project_id in self.by_project or len(self.by_project) < MOST_PROJECTS):
            self.by_project[project_id] = self.by_project.get(project_id, 0) + 1
