"""The agent's configuration: INI files as in guest-agent.md §7.1, plus `[mailbox]`."""

import configparser
import os

from . import log
from .errors import ConfigurationError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_TRUE = ("1", "yes", "true", "on")
_FALSE = ("0", "no", "false", "off", "")


class Settings:
    """The configuration with defaults filled in. Unknown options are accepted."""

    def __init__(self, parser: configparser.ConfigParser, root: str = "") -> None:
        self._parser = parser
        self._root = root
        self.shared = bool(root)
        """Whether the guest shares another machine without isolation (`--root`)."""
        self.storage = root + self._text("DEFAULT", "storage", "/var/murano/plans")
        self.engine_key = self._text("DEFAULT", "engine_key", "")
        self.dynamic_result_queue = self._flag("DEFAULT", "enable_dynamic_result_queue", False)
        self.log_file = self._text("DEFAULT", "log_file", "")
        self.plan_timeout = self._number("DEFAULT", "plan_timeout", 0.0)
        """Seconds a plan without its own `Timeout` may run; 0: no limit."""
        self.result_limit = int(self._number("DEFAULT", "result_limit", 0))
        """The limit of a result in bytes; 0: the limit sent with the plan, else 1 MiB."""
        self.log_limit = int(self._number("DEFAULT", "log_limit", log.LIMIT))
        """The bytes at which the log file is rotated; 0: never."""

        self.mailbox_url = self._text("mailbox", "url", "").rstrip("/")
        self.mailbox_token = self._text("mailbox", "token", "")
        self.mailbox_ca_certs = self._text("mailbox", "ca_certs", "")
        self.mailbox_insecure = self._flag("mailbox", "insecure", False)
        self.mailbox_wait = self._number("mailbox", "wait", 30.0)

        self.host = self._text("rabbitmq", "host", "localhost")
        self.port = int(self._number("rabbitmq", "port", 5672))
        self.login = self._text("rabbitmq", "login", "guest")
        self.password = self._text("rabbitmq", "password", "guest")
        self.virtual_host = self._text("rabbitmq", "virtual_host", "/")
        self.ssl = self._flag("rabbitmq", "ssl", False)
        self.ssl_version = self._text("rabbitmq", "ssl_version", "")
        self.ca_certs = self._text("rabbitmq", "ca_certs", "")
        self.ca_data = self._text("rabbitmq", "ca_data", "")
        """The authorities themselves, as PEM: the engine tells them so."""
        self.insecure = self._flag("rabbitmq", "insecure", False)
        self.result_routing_key = self._text("rabbitmq", "result_routing_key", "")
        self.result_exchange = self._text("rabbitmq", "result_exchange", "")

        self.input_queue = self._text("mailbox", "input_queue", "") or self._text(
            "rabbitmq", "input_queue", ""
        )

    def told(self, sections: "dict[str, Any]") -> "Settings":
        """These settings with the options that the engine has told, by section, all as texts.

        Raises `ConfigurationError` for values that cannot be used.
        """
        parser = configparser.ConfigParser(interpolation=None, strict=False)
        parser.read_dict(self._parser)
        for section, options in sections.items():
            if section != "DEFAULT" and not parser.has_section(section):
                parser.add_section(section)
            for option, value in options.items():
                parser.set(section, option, value)
        other = Settings(parser, self._root)
        other.dynamic_result_queue = self.dynamic_result_queue
        return other

    def _text(self, section: str, option: str, default: str) -> str:
        if not self._parser.has_section(section) and section != "DEFAULT":
            return default
        value = self._parser.get(section, option, fallback=default)
        value = value.strip()
        if len(value) >= 2 and value[0] == value[-1] and value[0] in "'\"":
            value = value[1:-1]
        return value

    def _flag(self, section: str, option: str, default: bool) -> bool:
        value = self._text(section, option, "true" if default else "false").lower()
        if value in _TRUE:
            return True
        if value in _FALSE:
            return False
        raise ConfigurationError("[%s] %s is %r; write true or false" % (section, option, value))

    def _number(self, section: str, option: str, default: float) -> float:
        value = self._text(section, option, str(default)) or str(default)
        try:
            number = float(value)
            int(number)
            return number
        except (ValueError, OverflowError) as error:
            raise ConfigurationError(
                "[%s] %s is %r; write a number" % (section, option, value)
            ) from error


def load(files: "list[str]", directories: "list[str]", root: str = "") -> Settings:
    """Read the given files, then every `*.conf` of the given directories (later wins).

    `root` is put before the storage path: it is set only where several guests share one
    file system. Raises `ConfigurationError` when a file is missing or is not INI.
    """
    paths = list(files)
    for directory in directories:
        try:
            names = sorted(os.listdir(directory))
        except OSError as error:
            raise ConfigurationError(
                "The configuration directory %s cannot be read: %s" % (directory, error)
            ) from error
        paths.extend(os.path.join(directory, name) for name in names if name.endswith(".conf"))
    if not paths:
        raise ConfigurationError(
            "No configuration: give --config-file FILE or --config-dir DIRECTORY with *.conf files"
        )
    parser = configparser.ConfigParser(interpolation=None, strict=False)
    for path in paths:
        try:
            with open(path, encoding="utf-8") as stream:
                parser.read_file(stream, source=path)
        except OSError as error:
            raise ConfigurationError(
                "The configuration file %s cannot be read: %s" % (path, error)
            ) from error
        except (configparser.Error, UnicodeDecodeError) as error:
            raise ConfigurationError(
                "The configuration file %s is not valid INI: %s" % (path, error)
            ) from error
    return Settings(parser, root)
