"""Where the engine is reached: as the configuration says, and as the engine has said since.

User data is read at the first start only. So whatever of it changes later, the address of the mailbox, the
login of the broker, the authority of its certificate or the engine's key, reaches the agent as an order
(`Action: Configure`; docs/guest.md) and is kept in `<storage>/doors.json`, newest first, replaced in one go.
The newest door is tried first. The former ones are kept until it has answered; the one of the configuration
file stays for good, as the last that is tried.
"""

import json
import os

from . import log
from .documents import is_list, is_map, read_json
from .errors import ConfigurationError
from .spool import write_file

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable

    from .config import Settings

_TOLD = {
    "DEFAULT": ("engine_key",),
    "mailbox": ("url", "token"),
    "rabbitmq": (
        "host",
        "port",
        "login",
        "password",
        "virtual_host",
        "ssl",
        "insecure",
        "ca_certs",
        "ca_data",
        "result_exchange",
        "result_routing_key",
    ),
}
"""What an order may change, by section: nothing of the guest's own, such as the storage."""


class Doors:
    """The doors of one agent. `current` is the settings with which it is to connect now."""

    def __init__(self, settings: "Settings") -> None:
        self._given = settings
        self._path = os.path.join(settings.storage, "doors.json")
        self._told: "list[dict[str, Any]]" = []
        self._known: "list[Settings]" = [settings]
        self._at = 0
        self._take(self._read())

    @property
    def current(self) -> "Settings":
        """The settings of the door that is used now."""
        return self._known[self._at]

    @property
    def newest(self) -> "Settings":
        """The newest settings: what is not about a door, such as the engine's key, is theirs."""
        return self._known[0]

    @property
    def several(self) -> bool:
        """True if another door is known."""
        return len(self._known) > 1

    def learn(self, said: "Any", check: "Callable[[Settings], None]") -> None:
        """Keep what the engine has said and go to that door.

        `check` raises `ConfigurationError` for settings that cannot be used: then nothing is kept.
        """
        told = _checked(said)
        check(self._given.told(told))
        used = self._at
        kept = [told]
        if used < len(self._told) and self._told[used] != told:
            kept.append(self._told[used])
        write_file(self._path, json.dumps(kept).encode("utf-8"))
        self._take(kept)

    def answered(self) -> None:
        """The door that is used now has answered: if it is the newest, forget those before it."""
        if self._at == 0 and len(self._told) > 1:
            kept = self._told[:1]
            write_file(self._path, json.dumps(kept).encode("utf-8"))
            self._take(kept)

    def turn(self) -> bool:
        """Go on to the next door; True when all have been tried and it is the newest again."""
        self._at = (self._at + 1) % len(self._known)
        return self._at == 0

    def _take(self, told: "list[dict[str, Any]]") -> None:
        self._told = told
        self._known = [*(self._given.told(one) for one in told), self._given]
        self._at = 0

    def _read(self) -> "list[dict[str, Any]]":
        try:
            with open(self._path, "rb") as stream:
                value = read_json(stream.read())
            if not is_list(value):
                raise ValueError("it is not a list")
            told = [_checked(one) for one in value]
            for one in told:
                self._given.told(one)
            return told
        except FileNotFoundError:
            return []
        except (OSError, ValueError, ConfigurationError) as error:
            log.error("%s is damaged (%s); using the configuration file" % (self._path, error))
            return []


def _checked(said: "Any") -> "dict[str, Any]":
    """The served part of what was said, as texts. Raises `ConfigurationError`."""
    if not is_map(said):
        raise ConfigurationError("The settings are not a map")
    found: "dict[str, Any]" = {}
    for section, options in _TOLD.items():
        given = said.get(section)
        if not is_map(given):
            continue
        texts = {key: given[key] for key in options if isinstance(given.get(key), str)}
        if texts:
            found[section] = texts
    if not found.get("mailbox") and not found.get("rabbitmq"):
        raise ConfigurationError("The settings name no door")
    return found
