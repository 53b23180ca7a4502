"""The settings of the metadata repository."""

from __future__ import annotations

from dataclasses import dataclass, field

MEBIBYTE = 2**20


@dataclass(frozen=True)
class RepositorySection:
    """The metadata repository: service definitions of the v0.3 world (docs/v03.md)."""

    host: str = "127.0.0.1"
    """Address of a repository of its own (`vetro repository serve`)."""
    port: int = 8084
    """Port of a repository of its own; 0: a free one."""
    manifests: str = ""
    """Directory with the definitions that every project begins with; empty: those that ship with
    Vetro.
    """
    change_role: str = ""
    """Role that a user needs to change definitions, beside administrators; empty: every member of
    the project may.
    """
    body_limit: int = 5 * MEBIBYTE
    """Bytes of one uploaded file or service archive."""
    import_limit: int = 64 * MEBIBYTE
    """Bytes of an archive with the whole definitions of a project (`vetro repository import`)."""
    archive_members: int = 2000
    """Members that an uploaded archive may have."""
    archive_bytes: int = 64 * MEBIBYTE
    """Bytes that an uploaded archive may unpack to."""
    directories: dict[str, object] = field(default_factory=dict[str, object])
    """Directories of an on-disk repository by type, where they differ from `ui_forms`,
    `workflows`, `heat_templates`, `agent_templates` and `scripts`.
    """
    output: dict[str, object] = field(default_factory=dict[str, object])
    """Directories of the archive for engines by type, where they differ from `workflows`,
    `templates/cf` (heat), `templates/agent` (agent) and `templates/agent/scripts` (scripts);
    empty text: the archive's root.
    """
