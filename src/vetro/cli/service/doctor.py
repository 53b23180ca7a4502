"""``vetro doctor``: what is wrong with this machine and the installation on it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from vetro.cli.terminal.installation import installation_options, local_settings
from vetro.cli.terminal.output import PrintingCommand, emit_json, wants_json
from vetro.cli.terminal.typed import covered

if TYPE_CHECKING:
    from vetro.server.doctor import Finding
    from vetro.server.settings import Settings

_COLOURS = {"ok": "green", "warning": "yellow", "error": "red"}


@click.command("doctor", cls=PrintingCommand)
@installation_options
def doctor() -> None:
    """Say what is wrong with this machine and its installation, and what to do about it.

    Nothing is changed. Run it as the user of the service, before the first start or later. The exit
    code is 1 when something does not work; limits (warnings) leave it 0.
    """
    with local_settings() as settings:
        findings = _findings(settings)
    if wants_json():
        emit_json(
            [
                {
                    "level": x.level,
                    "subject": x.subject,
                    "found": covered(x.found),
                    "remedy": covered(x.remedy),
                }
                for x in findings
            ]
        )
    else:
        width = max(len(finding.subject) for finding in findings) + 2
        for finding in findings:
            level = click.style(f"{finding.level:<9}", fg=_COLOURS[finding.level])
            click.echo(covered(f"{level}{finding.subject:<{width}}{finding.found}"))
            if finding.remedy:
                click.echo(covered(f"{'':<{9 + width}}{finding.remedy}"))
    if any(finding.level == "error" for finding in findings):
        raise SystemExit(1)


def _findings(settings: Settings) -> list[Finding]:
    import asyncio

    from vetro.server.doctor import Machine, examine_installation, examine_machine

    async def installation() -> list[Finding]:
        return [finding async for finding in examine_installation(settings)]

    return [*examine_machine(Machine(), settings), *asyncio.run(installation())]
