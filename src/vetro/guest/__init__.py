"""The guest agent and how it is packed (guest-agent.md §7).

`vetro.guest.agent` is the agent itself: standard library only, Python 3.6 or newer, imports
nothing else of Vetro. `build_archive` packs it into
`vetro-guest.pyz`, whose content `archive_bytes` returns.
"""

from typing import TYPE_CHECKING

from vetro.lazy_names import import_when_used

if TYPE_CHECKING:
    from vetro.guest.build import archive_bytes, build_archive

__getattr__ = import_when_used(__name__)
