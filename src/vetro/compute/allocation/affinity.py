"""Affinity rules turned into locality hints (allocation.md §6.1).

A rule selects VMs of the owner by alias, uuid, docker id, tag or label; the matches become a
``near`` (``==``) or ``far`` (``!=``) hint. Hard and soft rules in one request are both obeyed: the
hard ones by the hard locality step, the soft ones after it (or, with ``affinity_mix: hard``, the
soft ones are dropped, as in earlier versions).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from vetro.compute.allocation.errors import PatternError
from vetro.compute.allocation.patterns import compile_pattern, glob_matches
from vetro.compute.allocation.record import Vm, mapping
from vetro.compute.allocation.run import Plugin, Run
from vetro.compute.allocation.steps import Reasons, for_all, skip
from vetro.compute.allocation.wording import is_uuid, truthy, value_text

Rule = Mapping[str, Any]
DOCKER_ID = re.compile(r"[0-9a-f]{64}\Z")
HEX = re.compile(r"[0-9a-f]+\Z")
GONE = ("destroyed", "failed")
INSTANCE_KEYS = ("instance", "container")


class _NoMatch(Exception):
    """A hard rule matched nothing, or too much; the message is for the user."""


def affinity(run: Run) -> Reasons | None:
    """Replace the VM's locality by the hints from its affinity rules."""
    rules: Any = run.vm.get("affinity")
    if rules is None:
        return skip("No affinity found")
    if not rules:
        return None
    hard = [rule for rule in rules if not rule["isSoft"]]
    soft = [rule for rule in rules if rule["isSoft"]]
    try:
        found = _localities(run, hard or soft, strict=bool(hard))
        other = None
        if hard and soft and run.defaults.affinity_mix == "both":
            other = _localities(run, soft, strict=False)
    except (_NoMatch, PatternError) as error:
        run.drop_all()
        return for_all(str(error))
    run.vm["locality"] = found
    if other is not None and (other["near"] or other["far"]):
        if found["near"] or found["far"]:
            run.soft_locality = other
        else:
            run.vm["locality"] = other
    return None


def _localities(run: Run, rules: Iterable[Rule], *, strict: bool) -> dict[str, object]:
    near: list[str] = []
    far: list[str] = []
    for rule in rules:
        if rule["key"] == "image":
            continue
        into = near if rule["operator"] == "==" else far
        for uuid in _matches(run, rule):
            if uuid not in into:
                into.append(uuid)
    return {"strict": strict, "near": near, "far": far}


def _matches(run: Run, rule: Rule) -> list[str]:
    instances = rule["key"] in INSTANCE_KEYS
    found = _instances(run, rule) if instances else _tagged(run, rule)
    if not found and not rule["isSoft"] and rule["operator"] == "==":
        key, value = rule["key"], rule["value"]
        what = f'"{value}"' if instances else f'tag "{key}={value}"'
        raise _NoMatch(f'no active containers found matching {what} for affinity "{key}=={value}"')
    return found


def _active(run: Run) -> list[tuple[str, Vm]]:
    return [(uuid, vm) for uuid, vm in run.fleet.vms_of(run.owner) if vm.get("state") not in GONE]


def _instances(run: Run, rule: Rule) -> list[str]:
    value, kind = rule["value"], rule["valueType"]
    if is_uuid(value):
        return [value]
    if DOCKER_ID.match(value):
        uuid = "-".join((value[:8], value[8:12], value[12:16], value[16:20], value[20:32]))
        return [uuid] if _is_docker(run, uuid, value) else []
    vms = _active(run)
    if kind == "re":
        matches = compile_pattern(value[1:-1])
        return [uuid for uuid, vm in vms if matches(str(vm.get("alias") or ""))]
    if kind == "glob":
        return [uuid for uuid, vm in vms if glob_matches(value, str(vm.get("alias") or ""))]
    named = [uuid for uuid, vm in vms if vm.get("alias") == value]
    if named or not HEX.match(value):
        return named
    starting = [
        uuid
        for uuid, vm in vms
        if truthy(vm.get("docker"))
        and str(mapping(vm.get("internal_metadata")).get("docker:id") or "").startswith(value)
    ]
    if len(starting) > 1:
        raise _NoMatch(f"Multiple matches: {value}={','.join(starting)}")
    return starting


def _is_docker(run: Run, uuid: str, docker_id: str) -> bool:
    for at in run.fleet.hosts_of(uuid):
        vm = run.fleet.vm_on(at, uuid)
        if (
            vm.get("owner_uuid") == run.owner
            and truthy(vm.get("docker"))
            and vm.get("state") not in GONE
            and mapping(vm.get("internal_metadata")).get("docker:id") == docker_id
        ):
            return True
    return False


def _tagged(run: Run, rule: Rule) -> list[str]:
    key, value, kind = rule["key"], rule["value"], rule["valueType"]
    matches: Callable[[str], bool]
    if kind == "re":
        matches = compile_pattern(value[1:-1])
    elif kind == "glob":
        matches = lambda text: glob_matches(value, text)  # noqa: E731  three ways, one name
    else:
        matches = value.__eq__
    found: list[str] = []
    for uuid, vm in _active(run):
        tags = mapping(vm.get("tags"))
        labels = (tags.get(key), tags.get(f"docker:label:{key}"))
        if any(label is not None and matches(value_text(label)) for label in labels):
            found.append(uuid)
    return found


PLUGINS: dict[str, Plugin] = {
    "calculate-affinity": Plugin("Convert affinity to locality hints", affinity)
}
