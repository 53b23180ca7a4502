"""The ``vetro`` command.

Sub-commands are loaded when they are used: ``vetro --help`` and shell completion stay fast, and a
machine that only runs the client never imports the services. Exit codes: 0 done; 1 the command
failed (one line says why, a hint what to do); 2 wrong usage; 130 interrupted. docs/cli.md has it all.
"""

from __future__ import annotations

import contextlib
import errno
import importlib
import sys
from collections.abc import Generator
from types import TracebackType
from typing import Any

import click

from vetro import __version__
from vetro.cli.terminal.output import CommandError, UsageMistake, remark
from vetro.cli.terminal.typed import begin

# name -> (module below vetro.cli, one-line help); the command is the module's attribute of that name.
COMMANDS = {
    "up": ("service.up", "Start everything in one process."),
    "api": ("service.up", "Serve all HTTP faces, without engines and a node."),
    "engine": ("service.up", "Run deployments: an engine pool."),
    "compute": ("service.up", "Serve the compute node API alone."),
    "key": ("service.key", "Keys that seal secrets in the database."),
    "blobs": ("service.blobs", "Copy and sweep the files of a service."),
    "database": ("service.database", "Copy the database of a service."),
    "backup": ("service.backup", "Back up an installation to a file."),
    "restore": ("service.backup", "Restore an installation from a file."),
    "openstack": ("service.openstack", "Vetro in an OpenStack."),
    "install": ("service.install", "Write systemd units, directories and settings."),
    "doctor": ("service.doctor", "Say what is wrong with this machine."),
    "node": ("service.up", "Run this machine's node agent."),
    "broker": ("service.up", "Run the service broker for Cloud Foundry."),
    "token": ("service.token", "Print a token for the HTTP faces."),
    "dashboard": ("service.token", "Print a link that signs you in to the dashboard."),
    "package": ("catalog.package", "Application packages of the catalog."),
    "bundle": ("catalog.bundle", "Bundles and repositories of packages."),
    "category": ("catalog.category", "Categories that packages stand in."),
    "env": ("environments.env", "Environments: compose, deploy, follow, destroy."),
    "template": ("environments.template", "Templates that environments are made of."),
    "deployment": ("environments.deployment", "Deployments and their reports."),
    "action": ("environments.action", "Actions of deployed applications."),
    "repository": ("repository.repository", "Service definitions of the v0.3 world."),
    "project": ("service.project", "Projects, and what they have."),
    "quota": ("service.quota", "How much projects have and may have."),
    "server": ("compute.servers", "Compute nodes."),
    "vm": ("compute.vms", "Containers and virtual machines."),
    "network": ("compute.networks", "Networks that VMs are connected by."),
    "subnet": ("compute.networks", "Address ranges of networks."),
    "router": ("compute.networks", "Routers: they lead networks outside."),
    "port": ("compute.ports", "Ports: interfaces of VMs in networks."),
    "address": ("compute.ports", "Floating addresses: they lead from outside to VMs."),
    "group": ("compute.security_groups", "Security groups and their rules."),
    "keypair": ("compute.keypairs", "Public keys that new VMs let in."),
    "volume": ("compute.volumes", "Volumes: storage that outlives VMs."),
    "ticket": ("compute.tickets", "Turns on the waitlists of compute nodes."),
    "cnapi": ("compute.cnapi", "Send one request to the compute node API."),
    "image": ("compute.images", "Images that instances start from."),
    "allocate": ("compute.allocate", "Run the allocator on a case from a file."),
    "run": ("offline.language", "Run one method of a class, without services."),
    "eval": ("offline.language", "Evaluate a YAQL expression."),
    "test": ("offline.testing", "Run the test classes of packages."),
    "repl": ("offline.repl", "A prompt for expressions, statements and objects."),
    "doc": ("offline.doc", "Write the reference of a package."),
    "check": ("offline.checking", "Validate a package."),
    "form-case": ("offline.forms", "Fill in a form as a case says."),
    "workflow": ("workflows.group", "Test and explain XML workflows."),
    "workflow-case": ("workflows.case", "Run a case of XML workflows."),
    "completion": ("service.completion", "Print the shell completion script."),
}


INTERRUPTED = 130


PROCESSES = {"up", "api", "engine", "compute", "node", "broker", "repository"}
"""Commands that run until they are stopped."""


@contextlib.contextmanager
def plain_errors() -> Generator[None]:
    """Wrong usage, files that cannot be used and Ctrl-C end in a line and a hint, as all else does."""
    try:
        yield
    except (CommandError, click.exceptions.NoArgsIsHelpError):
        raise
    except click.UsageError as error:
        where = error.ctx.command_path if error.ctx is not None else "vetro"
        message = " ".join(error.format_message().split())
        raise UsageMistake(message, f"'{where} --help' shows what it takes.") from error
    except OSError as error:
        if error.errno == errno.EPIPE or error.filename is None:
            raise
        from vetro.cli.terminal.paths import explained

        raise explained(error) from error
    except ValueError as error:
        from vetro.json_texts import NotJson

        if not isinstance(error, NotJson):
            raise
        # What people give is read elsewhere (vetro.cli.terminal.documents).
        raise CommandError(
            f"The service's answer has an unexpected form: {error}",
            "Is it a Vetro, and of this command's version? '--debug' shows what was asked.",
        ) from error
    except (KeyboardInterrupt, EOFError) as error:
        remark("")
        raise click.exceptions.Exit(INTERRUPTED) from error


class LazyGroup(click.Group):
    """A group that imports a sub-command's module only when it is called."""

    def make_context(self, *args: Any, **extra: Any) -> click.Context:
        """Read the options before the sub-command."""
        begin(args[1] if len(args) > 1 else extra["args"])
        with plain_errors():
            return super().make_context(*args, **extra)

    def invoke(self, ctx: click.Context) -> Any:
        """Read the rest and run it."""
        with plain_errors():
            return super().invoke(ctx)

    def list_commands(self, ctx: click.Context) -> list[str]:
        """All sub-commands, in the order a newcomer meets them."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import and return one sub-command."""
        if cmd_name not in COMMANDS:
            return None
        module, _ = COMMANDS[cmd_name]
        attribute = "eval_" if cmd_name == "eval" else cmd_name.replace("-", "_")
        if cmd_name in PROCESSES:
            from vetro.cli.service.lean import import_without

            # It would take it for tracebacks in colours, which our logs do not have: 9 MiB of each process.
            import_without("structlog", "rich")
        command: click.Command = getattr(importlib.import_module(f"vetro.cli.{module}"), attribute)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the sub-commands without importing any of them."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, text) for name, (_, text) in COMMANDS.items()])

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command; a misspelt one gets a suggestion."""
        if args and args[0] not in COMMANDS and not args[0].startswith("-"):
            import difflib

            near = difflib.get_close_matches(args[0], COMMANDS, 1)
            hint = f" Did you mean '{near[0]}'?" if near else ""
            raise click.UsageError(f"There is no command '{args[0]}'.{hint}", ctx)
        return super().resolve_command(ctx, args)


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="vetro")
@click.option("--json", is_flag=True, help="Print JSON instead of tables.")
@click.option("--url", envvar="VETRO_URL", help="Where Vetro answers [http://127.0.0.1:8082].")
@click.option("--data-dir", envvar="VETRO_DATA_DIR", help="The data directory of a local Vetro.")
@click.option("--cacert", metavar="FILE", help="Authorities to trust, in PEM; also OS_CACERT.")
@click.option("--insecure", is_flag=True, help="Believe any certificate.")
@click.option(
    "--api-timeout",
    type=click.FloatRange(min=0, min_open=True),
    metavar="SECONDS",
    help="How long the service may be silent [60].",
)
@click.option(
    "--debug", is_flag=True, envvar="VETRO_DEBUG", help="Say each request on standard error."
)
@click.pass_context
def cli(ctx: click.Context, **options: object) -> None:
    """Vetro: an application catalog for your own machines."""
    for name, value in options.items():
        ctx.meta[f"vetro.{name}"] = value


def _explain_defect(
    kind: type[BaseException], error: BaseException, place: TracebackType | None
) -> None:
    """Print a traceback without the secrets that were typed."""
    import traceback

    lines = traceback.format_exception(kind, error, place)
    remark("".join(lines).removesuffix("\n"), guesses=True)


def main() -> None:
    """Entry point of the ``vetro`` command."""
    sys.excepthook = _explain_defect
    cli(prog_name="vetro", auto_envvar_prefix=None)
