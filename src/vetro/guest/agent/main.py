"""The command line: `vetro-guest.pyz [--bootstrap USER_DATA] --config-file FILE …`."""

import contextlib
import os
import sys

from . import VERSION, log
from .errors import AgentError, ConfigurationError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Generator

#: Seconds; the longest that every `sleep` takes (busybox).
_LONG = "2147483"

_USAGE = """\
usage: vetro-guest.pyz [--config-file FILE] [--config-dir DIRECTORY] [options]

  --config-file FILE        read this INI file (may be repeated)
  --config-dir DIRECTORY    read every *.conf of this directory (may be repeated)
  --bootstrap USER_DATA     first apply this user data, once per instance
  --root DIRECTORY          put this before storage, log and user data paths (guests that
                            share one file system); also VETRO_GUEST_ROOT
  --enable-dynamic-result-queue
                            send results to the queue a plan names
  --version                 print the version and end
"""


class _Options:
    def __init__(self) -> None:
        self.files: "list[str]" = []
        self.directories: "list[str]" = []
        self.bootstrap = ""
        self.root = os.environ.get("VETRO_GUEST_ROOT", "")
        self.dynamic_result_queue = False


def _parse(arguments: "list[str]") -> _Options:
    """Parse without argparse, whose imports would delay the first poll."""
    options = _Options()
    rest = list(arguments)
    while rest:
        name, _, value = rest.pop(0).partition("=")
        if name == "--enable-dynamic-result-queue":
            options.dynamic_result_queue = True
            continue
        if name not in ("--config-file", "--config-dir", "--bootstrap", "--root"):
            raise ConfigurationError("Unknown option %s\n%s" % (name, _USAGE))
        if not value:
            if not rest:
                raise ConfigurationError("%s needs a value\n%s" % (name, _USAGE))
            value = rest.pop(0)
        if name == "--config-file":
            options.files.append(value)
        elif name == "--config-dir":
            options.directories.append(value)
        elif name == "--bootstrap":
            options.bootstrap = value
        else:
            options.root = value
    options.root = options.root.rstrip("/")
    return options


def main(arguments: "list[str] | None" = None) -> int:
    """Run the agent; returns the process's exit code (2: invalid configuration)."""
    given = sys.argv[1:] if arguments is None else arguments
    if "--version" in given:
        sys.stdout.write("vetro-guest %s\n" % VERSION)
        return 0
    if "--help" in given or "-h" in given:
        sys.stdout.write(_USAGE)
        return 0
    os.umask(0o077)
    try:
        options = _parse(given)
        if options.bootstrap:
            log.to_file(options.root + "/var/log/vetro-guest.log")  # on failure it logs as before
            from . import bootstrap

            bootstrap.apply(options.bootstrap, options.root)
            if not any(os.path.exists(path) for path in [*options.files, *options.directories]):
                log.info("There is no agent configuration (%s)" % ", ".join(options.files))
                _stay_ended()
        return _run_agent(options)
    except ConfigurationError as error:
        log.error(str(error))
        if log.is_file():
            sys.stderr.write("%s\n" % error)
        return 2


def _stay_ended() -> None:
    """Become a program that waits: an init starts again what ends, and nothing would have changed.

    A machine that a person made has user data of its own, or a key, and no engine that sends it plans.
    """
    log.info("No plans are taken until the next start")
    os.execvp("sleep", ["sleep", _LONG])  # noqa: S606 nothing of a shell is meant


@contextlib.contextmanager
def _ended_for_good(options: _Options) -> "Generator[None]":
    """Where a configuration is found unusable, another start would find the same."""
    try:
        yield
    except ConfigurationError as error:
        if options.bootstrap:
            log.error(str(error))
            _stay_ended()
        raise


def _run_agent(options: _Options) -> int:
    from . import config
    from .loop import Agent
    from .transports import make

    if not options.files and not options.directories:
        options.directories.append(options.root + "/etc/murano")
    with _ended_for_good(options):
        settings = config.load(options.files, options.directories, options.root)
    if options.dynamic_result_queue:
        settings.dynamic_result_queue = True
    log.keep(settings.log_limit)
    if settings.log_file and not options.bootstrap:
        log.to_file(settings.log_file)
    log.info("vetro-guest %s for the queue %r" % (VERSION, settings.input_queue))
    try:
        with _ended_for_good(options):
            agent = Agent(settings, make)
    except AgentError:
        raise
    except OSError as error:
        raise ConfigurationError(
            "The storage %s cannot be used: %s" % (settings.storage, error)
        ) from error
    agent.run()
    return 0
