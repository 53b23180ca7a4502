"""``vetro node``: this machine as a compute node."""

from __future__ import annotations

import click

from vetro.cli.terminal.installation import installation_options, run_process


@click.command("node")
@click.option("--compute-url", help="The compute service [http://127.0.0.1:8082/compute].")
@click.option("--key", help="The node key; better in VETRO_NODE_KEY or the settings file.")
@click.option("--listen-host", help="Address the task API listens on [127.0.0.1].")
@click.option("--port", type=int, help="Port the task API listens on [a free one].")
@click.option("--admin-ip", help="Where the service reaches this node [its own address].")
@click.option("--mailbox-url", help="Where guests reach their mailboxes (shown in sysinfo).")
@click.option("--prefix", help="First letters of every interface this agent makes [vt].")
@click.option(
    "--driver",
    type=click.Choice(["lxc", "qemu", "lxc+qemu", "process", "simulated"]),
    help="How instances are run.",
)
@click.option("--server-uuid", help="This node's uuid [the machine's own].")
@click.option("--pull", is_flag=True, default=None, help="Ask for tasks: for nodes behind NAT.")
@click.option(
    "--allow-privileged",
    is_flag=True,
    default=None,
    help="Let operators make containers with the machine's own root.",
)
@installation_options
def node(**options: object) -> None:
    """Run this machine's node agent: it takes instances from a compute service elsewhere."""
    from vetro.server.node import run_node

    run_process(run_node, "node", **options)
