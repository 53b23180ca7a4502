"""The checks of an allocation request and their messages (allocation.md §3).

The checks run in the order of the specification and end at the first failure: one field, one
message. They return a new request: the caller's objects are not modified.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

from vetro.compute.allocation.defaults import PLATFORM_STAMP, SPREADS
from vetro.compute.allocation.errors import InvalidRequest
from vetro.compute.allocation.wording import (
    UUID_ANY,
    is_finite,
    is_uuid,
    truthy,
    wrong_type,
)
from vetro.json_texts import decode_json

Object = dict[str, Any]
SDC_VERSION = re.compile(r"[0-9]\.[0-9]\Z")
OVERPROVISION = {
    "overprovision_cpu": "overprovision_cpu",
    "overprovision_memory": "overprovision_ram",
    "overprovision_storage": "overprovision_disk",
    "overprovision_network": "overprovision_net",
    "overprovision_io": "overprovision_io",
}
SIZE_SLACK = 0.01


@dataclass
class AllocationRequest:
    """A checked request: the requested VM, its package and image; all of them copies.

    ``vm`` always has ``brand``. ``package`` is normalised: its ratios are numbers called
    ``overprovision_{cpu,ram,disk,net,io}``.
    """

    vm: Object
    image: Object = field(default_factory=dict[str, Any])
    package: Object | None = None
    servers: list[str] | None = None


def check_request(
    *,
    vm: object,
    image: object,
    package: object = None,
    servers: object = None,
    nic_tags: object = None,
    nic_tag_requirements: object = None,
    named: bool = False,
) -> AllocationRequest:
    """A request from the parameters of POST /allocate. Errors: ``InvalidRequest``.

    ``nic_tags`` and ``nic_tag_requirements`` replace those in ``vm`` when they are given. ``named``: the
    VM must have its ``vm_uuid``, as the service needs it; a case of the pure function need not.
    """
    good_image = _image(image)
    good_package = None if package is None else _package(package)
    good_vm = _vm(vm, good_image, named=named)
    good_servers = None if servers is None else _servers(servers)
    if nic_tag_requirements is not None:
        good_vm["nic_tag_requirements"] = _nic_tag_requirements(nic_tag_requirements)
    if nic_tags is not None:
        good_vm["nic_tags"] = _nic_tags(nic_tags)
    return AllocationRequest(good_vm, good_image, good_package, good_servers)


# --- image ---------------------------------------------------------------------------------


def _image(value: object) -> Object:
    def wrong(message: str) -> InvalidRequest:
        return InvalidRequest("image", message)

    if not isinstance(value, dict):
        raise wrong('"image" has invalid type')
    image: Object = {**cast("Object", value)}
    if truthy(image.get("image_size")) and not is_finite(image["image_size"]):
        raise wrong('"image.image_size" has invalid type')
    if "traits" in image:
        image["traits"] = _traits("image", '"image.traits": ', image["traits"])
    requirements: object = image.get("requirements")
    if requirements is None:
        image.pop("requirements", None)
        return image
    if not isinstance(requirements, dict):
        raise wrong('"image.requirements" has invalid type')
    needs: Object = {**cast("Object", requirements)}
    image["requirements"] = needs
    for name in ("min_platform", "max_platform"):
        if needs.get(name) is not None:
            _platform("image", f"requirements.{name}", needs[name])
    for name in ("min_ram", "max_ram"):
        if needs.get(name) is not None and not is_finite(needs[name]):
            raise wrong(f'"image.requirements.{name}" has invalid type')
    return image


def _platform(parameter: str, path: str, value: object) -> None:
    if not isinstance(value, dict):
        raise InvalidRequest(parameter, f'"{path}" is not a hash')
    for version, stamp in cast("Object", value).items():
        if SDC_VERSION.match(version) is None:
            raise InvalidRequest(parameter, f'"{path}" contains an invalid SDC version')
        if not isinstance(stamp, str) or PLATFORM_STAMP.match(stamp) is None:
            raise InvalidRequest(parameter, f'"{path}" contains an invalid platform date')


def _traits(parameter: str, prefix: str, value: object) -> Object:
    """The traits as an object: a list becomes one by position, and then matches nothing (§3.1)."""
    if value is None:
        return {}
    if isinstance(value, dict):
        return {**cast("Object", value)}
    if isinstance(value, list):
        return {str(at): item for at, item in enumerate(cast("list[object]", value))}
    raise InvalidRequest(parameter, prefix + wrong_type("", value, "object"))


# --- package -------------------------------------------------------------------------------


def _package(value: object) -> Object:
    def wrong(message: str) -> InvalidRequest:
        return InvalidRequest("package", message)

    if not isinstance(value, dict):
        raise wrong('"package" has invalid type')
    package: Object = {**cast("Object", value)}
    for name in OVERPROVISION:
        given: object = package.get(name)
        if truthy(given) and _ratio(given) is None:
            raise wrong(f'"package.{name}" has invalid type')
    spread: object = package.get("alloc_server_spread")
    if truthy(spread) and spread not in SPREADS:
        raise wrong('"alloc_server_spread" has invalid value')
    for name in ("min_platform", "max_platform", "traits"):
        given = package.get(name)
        if isinstance(given, str) and given != "":
            try:
                given = decode_json(given)
            except ValueError as error:
                prefix = '"package.traits": ' if name == "traits" else ""
                raise wrong(f'{prefix}"package.{name}" has invalid type') from error
        if not truthy(given):
            package.pop(name, None)
        elif name == "traits":
            package[name] = _traits("package", '"package.traits": ', given)
        else:
            _platform("package", f"package.{name}", given)
            package[name] = given
    return _normalised(package)


def _ratio(value: object) -> float | None:
    if is_finite(value):
        return float(value)
    if isinstance(value, str):
        try:
            number = float(value)
        except ValueError:
            return None
        return number if is_finite(number) else None
    return None


def _normalised(package: Object) -> Object:
    """Ratios as numbers under the servers' names; without any, memory is not overprovisioned."""
    ratios: dict[str, float] = {}
    for given, name in OVERPROVISION.items():
        value = package.pop(given, None)
        if truthy(value):
            ratios[name] = cast("float", _ratio(value))
    package.update(ratios or {"overprovision_ram": 1.0})
    return package


# --- vm ------------------------------------------------------------------------------------


def _vm(value: object, image: Object, *, named: bool) -> Object:
    def wrong(message: str) -> InvalidRequest:
        return InvalidRequest("vm", message)

    if not isinstance(value, dict):
        raise wrong("VM object is an invalid type")
    vm: Object = {**cast("Object", value)}
    if not is_uuid(vm.get("owner_uuid")):
        raise wrong('VM "owner_uuid" is not a valid UUID')
    if not is_finite(vm.get("ram")):
        raise wrong('VM "ram" is not a number')
    for name in ("quota", "cpu_cap"):
        if truthy(vm.get(name)) and not is_finite(vm[name]):
            raise wrong(f'VM "{name}" is not a number')
    if vm.get("vcpus") is not None and not is_finite(vm["vcpus"]):
        raise wrong('VM "vcpus" is not a number')
    if "traits" in vm:
        vm["traits"] = _traits("vm", '"vm.traits": ', vm["traits"])
    if vm.get("affinity") is not None:
        _affinity(vm["affinity"])
    if vm.get("locality") is not None:
        _locality(vm["locality"])
    if vm.get("nic_tags") is not None:
        tags: object = vm["nic_tags"]
        if not isinstance(tags, list):
            raise wrong('VM "nic_tags" is not an array')
        if not all(isinstance(tag, str) for tag in cast("list[object]", tags)):
            raise wrong('VM "nic_tags" contains invalid type in array')
    if vm.get("nic_tag_requirements") is not None:
        vm["nic_tag_requirements"] = _nic_tag_requirements(vm["nic_tag_requirements"], "vm")
    if (named or vm.get("vm_uuid") is not None) and not is_uuid(vm.get("vm_uuid")):
        raise wrong('"vm.vm_uuid" is an invalid UUID')
    if vm.get("internal_metadata") is not None:
        vm["internal_metadata"] = _internal_metadata(vm["internal_metadata"])
    _fits_image(vm, image)
    brand: object = vm.get("brand")
    vm["brand"] = str(brand) if truthy(brand) else "joyent"
    return vm


def _affinity(value: object) -> None:
    def wrong(message: str) -> InvalidRequest:
        return InvalidRequest("vm", f'VM "affinity{message}')

    if not isinstance(value, list):
        raise wrong('" is not an array')
    for item in cast("list[object]", value):
        if not isinstance(item, dict):
            raise wrong('" contains an invalid type')
        rule = cast("Object", item)
        for name in ("key", "operator", "value", "valueType"):
            if not isinstance(rule.get(name), str):
                raise wrong(f'.{name}" is not a string')
        if not isinstance(rule.get("isSoft"), bool):
            raise wrong('.isSoft" is not a boolean')
        if rule["operator"] not in ("==", "!="):
            raise wrong('.operator" has invalid operator')
        if rule["valueType"] not in ("exact", "glob", "re"):
            raise wrong('.valueType" has invalid value')


def _locality(value: object) -> None:
    def wrong(message: str) -> InvalidRequest:
        return InvalidRequest("vm", f'VM "locality{message}')

    if not isinstance(value, dict):
        raise wrong('" is has wrong type')
    given = cast("Object", value)
    for name in ("near", "far"):
        hint: object = given.get(name)
        if not truthy(hint):
            continue
        if isinstance(hint, str):
            if not is_uuid(hint):
                raise wrong(f'.{name}" is not a UUID')
        elif not isinstance(hint, list):
            raise wrong(f'.{name}" is neither string nor array')
        elif not all(is_uuid(one) for one in cast("list[object]", hint)):
            raise wrong(f'.{name}" contains an malformed UUID')
    if given.get("strict") is not None and not isinstance(given["strict"], bool):
        raise wrong('.strict" is given, but not boolean')


def _internal_metadata(value: object) -> Object:
    def wrong(message: str) -> InvalidRequest:
        return InvalidRequest("vm", f'"vm.internal_metadata{message}')

    if not isinstance(value, dict):
        raise wrong('" is not a hash')
    metadata: Object = {**cast("Object", value)}
    volumes: object = metadata.get("docker:volumesfrom")
    if not truthy(volumes):
        return metadata
    if isinstance(volumes, str):
        try:
            volumes = decode_json(volumes)
        except ValueError as error:
            raise wrong("['docker:volumesfrom']\" is not valid JSON") from error
    if not isinstance(volumes, list):
        raise wrong("['docker:volumesfrom']\" does not contain an array")
    metadata["docker:volumesfrom"] = volumes
    return metadata


def _fits_image(vm: Object, image: Object) -> None:
    needs: Object = image.get("requirements") or {}
    least, most = needs.get("min_ram"), needs.get("max_ram")
    if least and vm["ram"] < least - SIZE_SLACK:
        raise InvalidRequest("vm", '"vm.ram" is smaller than "image.requirements.min_ram"')
    if most and vm["ram"] > most + SIZE_SLACK:
        raise InvalidRequest("vm", '"vm.ram" is larger than "image.requirements.max_ram"')


# --- the other parameters ------------------------------------------------------------------


def _servers(value: object) -> list[str]:
    if not isinstance(value, list):
        raise InvalidRequest("servers", "value was not an array")
    uuids: list[str] = []
    for item in cast("list[object]", value):
        if not isinstance(item, str) or UUID_ANY.match(item) is None:
            raise InvalidRequest("servers", "invalid server UUID")
        uuids.append(item.lower())
    return uuids


def _nic_tags(value: object) -> list[str]:
    if not isinstance(value, list):
        raise InvalidRequest("nic_tags", "value was not an array")
    tags = cast("list[Any]", value)
    if not all(isinstance(tag, str) and tag for tag in tags):
        raise InvalidRequest("nic_tags", "invalid nic_tag")
    return tags


def _nic_tag_requirements(value: object, field: str = "nic_tag_requirements") -> list[list[str]]:
    def wrong(path: str, item: object, wanted: str) -> InvalidRequest:
        return InvalidRequest(field, wrong_type(path, item, wanted))

    if not isinstance(value, list):
        raise wrong("", value, "array")
    for at, group in enumerate(cast("list[object]", value)):
        if not isinstance(group, list):
            raise wrong(str(at), group, "array")
        for inner, tag in enumerate(cast("list[object]", group)):
            if not isinstance(tag, str):
                raise wrong(f"{at}[{inner}]", tag, "string")
            if not tag:
                raise InvalidRequest(
                    field, f'property "{at}[{inner}]": must be at least 1 characters long'
                )
    return [list(group) for group in cast("list[Sequence[str]]", value)]


#: The declared parameters of POST /allocate in their order: name, kind, required.
DECLARED: tuple[tuple[str, str, bool], ...] = (
    ("servers", "array", False),
    ("package", "object", False),
    ("image", "object", True),
    ("vm", "object", True),
    ("nic_tag_requirements", "array", False),
    ("nic_tags", "array", True),
)


def check_types(body: Mapping[str, object]) -> dict[str, str]:
    """The messages for all parameters of the wrong type, in declared order (§1.1)."""
    errors: dict[str, str] = {}
    for name, kind, required in DECLARED:
        if name not in body:
            if required:
                errors[name] = type_message(kind, "Undefined")
            continue
        value: object = body[name]
        if not isinstance(value, list if kind == "array" else dict):
            errors[name] = type_message(kind, _class_of(value))
    return errors


def type_message(kind: str, found: str) -> str:
    """The API's message for a value that is not of ``kind`` (compute-node-api.md §2)."""
    if kind == "array":
        return "value was not an array"
    return f"value is not an object. (was: [object {found}])"


def _class_of(value: object) -> str:
    if value is None:
        return "Null"
    if isinstance(value, bool):
        return "Boolean"
    if isinstance(value, (int, float)):
        return "Number"
    if isinstance(value, str):
        return "String"
    return "Array" if isinstance(value, list) else "Object"
