"""The jobs of servers: setup, reboot, factory reset, NIC updates (compute-node-api.md §12).

The step names are those of the operator contract. On a Linux node of this project one agent task
replaces the three scripts of a setup, so their steps only report where the work was done.
"""

from __future__ import annotations

import asyncio
from typing import Any, cast

from vetro.compute.operations.parts import Run
from vetro.compute.servers.nics import wanted_nics
from vetro.compute.servers.store import CHANNEL, Agent
from vetro.compute.values.records import Json, Record, mapping
from vetro.compute.work.jobs import JobFailure, Step, Workflow
from vetro.compute.work.node_tasks import About, NodeTaskError
from vetro.storage import LookAgain, await_until

#: §12: polls of a draining agent, and how many of them may fail.
DRAIN_POLL_SECONDS = 5.0
DRAIN_ERRORS = 5
LAYOUTS = ("single", "mirror", "raidz1", "raidz2", "raidz3")


async def server_of(run: Run) -> Any:
    """The record of the job's server. Errors: 404."""
    async with run.service.database.read() as tx:
        return await run.service.servers.row(tx, run.server_uuid)


async def agent_of(run: Run) -> Agent:
    """The agent of the job's server."""
    return run.service.servers.agent_of(await server_of(run))


async def node_task(run: Run, task: str, params: Record) -> Record:
    """Run a task to its end as part of a job; its id and outcome are added to the job's info."""
    work = run.service.work
    id_ = await work.start(await agent_of(run), task, params, About(job_uuid=run.uuid))
    ended = await work.wait(id_)
    if ended.status != "complete":
        raise JobFailure(ended.error or "the node gave no reason")
    return mapping(ended.result)


async def validate_params(run: Run) -> Json:
    """Check that the server exists and the job's parameters are valid."""
    await server_of(run)
    layout = run.params.get("disk_layout")
    if layout is not None and layout not in LAYOUTS:
        raise JobFailure(f"disk_layout must be one of: {', '.join(LAYOUTS)}")


async def validate_nic_params(run: Run) -> Json:
    """Check that the request's NICs are objects with a mac and tags."""
    if run.params.get("nics") is not None:
        run.state["nics"] = wanted_nics(run.params["nics"])
        return f"{len(run.state['nics'])} NICs"
    return "no NICs given"


async def current_nics(run: Run) -> Json:
    """Read the server's NICs from the registry."""
    found = await run.service.nics.of(run.server_uuid)
    return f"{len(found)} NICs known"


async def apply_nic_updates(run: Run) -> Json:
    """Merge the request into the registry."""
    wanted = cast("list[Record]", run.state.get("nics") or [])
    if not wanted:
        run.state["send"] = []
        return "nothing to change"
    action = str(run.params.get("nic_action") or "update")
    force = bool(run.params.get("force"))
    run.state["send"] = await run.service.nics.apply(run.server_uuid, action, wanted, force=force)
    return f"{len(run.state['send'])} NICs"


async def registry_updated(_run: Run) -> Json:
    """Nothing to do: the previous step wrote the built-in registry."""
    return "OK"


async def send_nics(run: Run) -> Json:
    """Start the agent's task; without NICs there is nothing to send."""
    if not run.state.get("send"):
        return "nothing to send to the node"
    run.state["task"] = await run.service.work.start(
        await agent_of(run),
        "server_update_nics",
        {"nics": run.state["send"]},
        About(job_uuid=run.uuid),
    )
    return f"task {run.state['task']}"


async def poll_tasks(run: Run) -> Json:
    """Wait for the agent's task."""
    task = run.state.get("task")
    if not task:
        return "no task"
    ended = await run.service.work.wait(str(task))
    if ended.status != "complete":
        raise JobFailure(ended.error or "the node gave no reason")
    run.state["sysinfo"] = mapping(mapping(ended.result).get("sysinfo"))


async def refresh_sysinfo(run: Run) -> Json:
    """Update the server's record; the task's own sysinfo is used if it returned one."""
    info = mapping(run.state.get("sysinfo"))
    if not info:
        info = mapping((await node_task(run, "server_sysinfo", {})).get("sysinfo"))
    if info:
        row = await server_of(run)
        await run.service.servers.register(run.server_uuid, info, shared_key=row.shared_key)


# Setup


async def mark_setting_up(run: Run) -> Json:
    """Mark the server as being set up."""
    await run.service.servers.change(run.server_uuid, {"setting_up": True})


async def clear_agents(run: Run) -> Json:
    """Clear the agents; the node reports them again."""
    row = await server_of(run)
    if row.sysinfo.get("System Type") != "Linux":
        await run.service.servers.change(run.server_uuid, {"agents": []})
        return None
    return "the agent of a Linux node stays"


async def in_one_task(_run: Run) -> Json:
    """Nothing to do on a Linux node: the agent's setup task does it."""
    return "part of the agent's server_setup task"


async def run_setup(run: Run) -> Json:
    """Let the agent set up storage pool, node configuration and setup state."""
    names = (
        "hostname", "disk_layout", "disk_width", "disk_cache", "disk_spares", "disk_exclude",
        "encryption_enabled", "nics",
    )  # fmt: skip
    params = {name: run.params[name] for name in names if run.params.get(name) is not None}
    result = await node_task(run, "server_setup", params)
    run.state["sysinfo"] = mapping(result.get("sysinfo"))
    return "set up by the agent"


async def touch_setup_complete(run: Run) -> Json:
    """Nothing to do on Linux: the setup task has written the state."""
    row = await server_of(run)
    return "skipped on Linux" if row.sysinfo.get("System Type") == "Linux" else "OK"


async def setup_reboot(run: Run) -> Json:
    """Reboot after a setup, where that is configured."""
    if not run.service.reboots_after_setup:
        return "not configured"
    run.state["rebooted"] = True
    await run.service.servers.change(run.server_uuid, {"transitional_status": "rebooting"})
    await node_task(run, "server_reboot", {})
    return None


async def wait_for_reboot(run: Run) -> Json:
    """Wait until the server runs again and has booted since the job began."""
    if not run.state.get("rebooted"):
        return "no reboot"

    async def look() -> bool | LookAgain:
        row = await server_of(run)
        booted = row.status == "running" and row.last_boot and row.last_boot > run.created_at
        return bool(booted) or LookAgain(5.0)

    await await_until(run.service.database, CHANNEL, look)
    return None


async def run_postsetup(run: Run) -> Json:
    """Run the operator's own script on the node."""
    script = run.params.get("postsetup_script")
    if not script:
        return "no script"
    result = await node_task(run, "command_execute", {"script": script, "args": [], "env": {}})
    if result.get("exitCode"):
        text = str(result.get("stderr") or "")[:500]
        raise JobFailure(f"the script ended with {result['exitCode']}: {text}")
    return None


async def restart_ur(_run: Run) -> Json:
    """Nothing to do: Linux nodes have no message-bus executor."""
    return "skipped on Linux"


async def mark_setup(run: Run) -> Json:
    """Mark the server as set up: it accepts VMs from now on."""
    info = mapping(run.state.get("sysinfo"))
    if info:
        row = await server_of(run)
        await run.service.servers.register(run.server_uuid, info, shared_key=row.shared_key)
    await run.service.servers.change(run.server_uuid, {"setup": True, "setting_up": False})


async def undo_setup(run: Run) -> None:
    """Clear the mark after a failed setup."""
    await run.service.servers.change(run.server_uuid, {"setting_up": False})


# Reboot and reset


async def pause_agent(run: Run) -> Json:
    """Stop the agent from accepting new tasks."""
    if not run.params.get("drain"):
        return "not asked for"
    await _agent_call(run, "POST", "/pause")
    run.state["paused"] = True
    return None


async def _agent_call(run: Run, method: str, path: str) -> object:
    try:
        return await run.service.work.agents.call(await agent_of(run), method, path)
    except NodeTaskError as error:
        raise JobFailure(str(error)) from error


async def wait_drained(run: Run) -> Json:
    """Wait until no task is active at the agent."""
    if not run.params.get("drain"):
        return "not asked for"
    failed = 0
    while True:
        try:
            history = await _agent_call(run, "GET", "/history")
            entries = cast("list[object]", history) if isinstance(history, list) else []
            if not any(mapping(one).get("status") == "active" for one in entries):
                return None
        except JobFailure:
            failed += 1
            if failed > DRAIN_ERRORS:
                raise
        await asyncio.sleep(DRAIN_POLL_SECONDS)


async def send_reboot(run: Run) -> Json:
    """Reboot the node; an agent that cannot reboot gets a script (exit 113 reboots)."""
    agent = await agent_of(run)
    if run.state.get("paused"):
        # A paused agent refuses all tasks: it is drained by now, so resume it; it reboots at once.
        await _agent_call(run, "POST", "/resume")
        run.state["paused"] = False
    if agent.at_least(2, 11):
        await node_task(run, "server_reboot", {})
    else:
        await node_task(run, "command_execute", {"script": "#!/bin/sh\nexit 113\n"})
    return None


async def mark_rebooting(run: Run) -> Json:
    """Mark the server as rebooting until it reports after its boot."""
    await run.service.servers.change(run.server_uuid, {"transitional_status": "rebooting"})


async def resume_agent(run: Run) -> None:
    """Let the agent accept tasks again after a failure."""
    if run.state.get("paused"):
        await _agent_call(run, "POST", "/resume")


async def factory_reset(run: Run) -> Json:
    """Let the agent remove the pool and its state, and reboot."""
    await node_task(run, "server_factory_reset", {"confirm": run.server_uuid})


async def delete_nics(run: Run) -> Json:
    """Remove the server's NICs from the registry."""
    await run.service.nics.remove(run.server_uuid)


SETUP = Workflow(
    "server-setup",
    (
        Step("cnapi.validate_params", 10, validate_params),
        Step("napi.validate_nic_params", 10, validate_nic_params),
        Step("napi.get_current_nics", 120, current_nics),
        Step("napi.apply_nic_updates", 10, apply_nic_updates),
        Step("napi.update_nics", 120, registry_updated),
        Step("cnapi.mark_as_setting_up", 10, mark_setting_up),
        Step("cnapi.clear_server_agents", 10, clear_agents),
        Step("cnapi.fetch_setup_files", 10, in_one_task),
        Step("cnapi.execute_joysetup_script", 3600, run_setup),
        Step("cnapi.execute_agentsetup_script", 3600, in_one_task),
        Step("cnapi.update_nics", 3600, send_nics),
        Step("cnapi.poll_tasks", 3600, poll_tasks),
        Step("cnapi.touch_setup_complete", 1000, touch_setup_complete),
        Step("cnapi.reboot_server", 600, setup_reboot),
        Step("cnapi.wait_for_reboot", 1200, wait_for_reboot),
        Step("cnapi.run_postsetup_script", 1000, run_postsetup),
        Step("cnapi.restart_ur", 1000, restart_ur),
        Step("cnapi.mark_server_as_setup", 1000, mark_setup),
    ),
    undo_setup,
)
REBOOT = Workflow(
    "server-reboot",
    (
        Step("cnapi.validate_params", 10, validate_params),
        Step("cnapi.pause_cn_agent_task_handler", 30, pause_agent),
        Step("cnapi.wait_for_cn_agent_drained", 900, wait_drained),
        Step("cnapi.send_reboot_message", 10, send_reboot),
        Step("cnapi.mark_server_as_rebooting", 10, mark_rebooting),
    ),
    resume_agent,
)
FACTORY_RESET = Workflow(
    "server-factory-reset",
    (
        Step("cnapi.validate_params", 10, validate_params),
        Step("cnapi.execute_factory_reset_script", 10, factory_reset),
        Step("napi.get_current_nics", 120, current_nics),
        Step("napi.delete_server_nics", 120, delete_nics),
    ),
)
UPDATE_NICS = Workflow(
    "server-update-nics",
    (
        Step("validate_params", 10, validate_params),
        Step("napi.validate_nic_params", 10, validate_nic_params),
        Step("napi.get_current_nics", 120, current_nics),
        Step("napi.apply_nic_updates", 10, apply_nic_updates),
        Step("napi.update_nics", 120, registry_updated),
        Step("cnapi.update_nics", 120, send_nics),
        Step("cnapi.poll_tasks", 120, poll_tasks),
        Step("cnapi.refresh_server_sysinfo", 1000, refresh_sysinfo),
    ),
)
