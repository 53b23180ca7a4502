"""VM objects: payloads, defaults, update rules."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.node.conftest import IMAGE

from vetro.node.errors import DriverError
from vetro.node.vm_objects import MachineStore, check_nics, new_vm, updated

UUID = "aaaaaaaa-1111-4111-8111-111111111111"


def payload(**changes: Any) -> dict[str, Any]:
    """A usual payload."""
    return {"uuid": UUID, "brand": "lx", "image_uuid": IMAGE, **changes}


def made(**changes: Any) -> dict[str, Any]:
    """The VM object of a payload."""
    return new_vm(payload(**changes), {"server_uuid": "s"}, ["lx"])


def test_defaults_are_filled_in() -> None:
    """What the service's status rows need is always there."""
    vm = made()
    assert vm["hostname"] == UUID
    assert vm["max_physical_memory"] == 256
    assert vm["quota"] == 10
    assert vm["autoboot"] is True
    assert vm["type"] == "LX"
    assert vm["server_uuid"] == "s"
    assert vm["create_timestamp"] == vm["last_modified"]


def test_ram_stands_for_memory_and_numbers_may_be_text() -> None:
    """Callers say `ram`; both are shown equal."""
    vm = made(ram="512", quota="5")
    assert (vm["ram"], vm["max_physical_memory"], vm["quota"]) == (512, 512, 5)


def test_a_missing_uuid_is_made() -> None:
    """A VM without uuid gets one."""
    assert new_vm({"brand": "lx", "image_uuid": IMAGE}, {}, ["lx"])["uuid"]


@pytest.mark.parametrize(
    "change",
    [
        {"uuid": "../../etc"},
        {"image_uuid": "x"},
        {"hostname": "bad name"},
        {"hostname": "a\nb"},
        {"max_physical_memory": "much"},
        {"quota": -1},
        {"autoboot": "perhaps"},
        {"tags": [1]},
        {"nics": {}},
        {"nics": [{"mac": "01:00:5e:00:00:01"}]},
        {"nics": [{"mac": "02:00:00:00:00:01"}, {"mac": "02:00:00:00:00:01"}]},
        {"nics": [{"interface": "../x"}]},
        {"resolvers": ["1.1.1.1\nsearch evil"]},
        {"nics": [{"dns": ["not an address"]}]},
    ],
)
def test_bad_payloads_are_refused(change: dict[str, Any]) -> None:
    """Each with the name of the field and `InvalidPayload`."""
    with pytest.raises(DriverError, match=next(iter(change))) as error:
        made(**change)
    assert error.value.rest_code == "InvalidPayload"


def test_an_unknown_brand_is_not_implemented() -> None:
    """The error says which brands this node serves."""
    with pytest.raises(DriverError, match="it serves lx") as error:
        made(brand="bhyve")
    assert error.value.rest_code == "NotImplemented"


def test_exactly_one_interface_is_primary() -> None:
    """The first that says so, else the first; names and addresses are made."""
    nics = check_nics([{"ip": "10.0.0.1"}, {"ip": "10.0.0.2", "primary": True}])
    assert [nic["primary"] for nic in nics] == [False, True]
    assert [nic["interface"] for nic in nics] == ["net0", "net1"]
    assert all(nic["mac"].startswith("02:") for nic in nics)
    assert [n["primary"] for n in check_nics([{}, {}])] == [True, False]


def test_update_sets_and_removes_keys() -> None:
    """Scalars replace; objects change key by key; setting wins over removing."""
    vm = made(tags={"a": 1, "b": 2, "c": 3})
    new = updated(vm, {"alias": "web", "set_tags": {"b": 9, "d": 4}, "remove_tags": ["a", "b"]})
    assert new["alias"] == "web"
    assert new["tags"] == {"b": 9, "c": 3, "d": 4}
    assert vm["tags"] == {"a": 1, "b": 2, "c": 3}


def test_update_always_moves_last_modified() -> None:
    """Also without a change, and also when the clock went back: callers wait for it."""
    vm = {**made(), "last_modified": "2099-01-01T00:00:00.000Z"}
    assert updated(vm, {"alias": vm.get("alias", "x")})["last_modified"] > vm["last_modified"]


def test_update_of_interfaces() -> None:
    """Added, changed and removed by MAC; the primary stays one."""
    vm = made(nics=[{"mac": "02:00:00:00:00:01", "ip": "10.0.0.1"}])
    added = updated(vm, {"add_nics": [{"mac": "02:00:00:00:00:02"}]})
    assert [nic["interface"] for nic in added["nics"]] == ["net0", "net1"]
    moved = updated(added, {"update_nics": [{"mac": "02:00:00:00:00:01", "ip": "10.0.0.9"}]})
    assert moved["nics"][0]["ip"] == "10.0.0.9"
    left = updated(moved, {"remove_nics": ["02:00:00:00:00:01"]})
    assert [nic["mac"] for nic in left["nics"]] == ["02:00:00:00:00:02"]
    assert left["nics"][0]["primary"]


@pytest.mark.parametrize(
    "change",
    [
        {"remove_nics": ["02:00:00:00:00:99"]},
        {"update_nics": [{"mac": "02:00:00:00:00:99"}]},
        {"add_nics": [{"mac": "02:00:00:00:00:01"}]},
        {"remove_tags": "a"},
        {"max_physical_memory": "much"},
    ],
)
def test_bad_updates_are_refused(change: dict[str, Any]) -> None:
    """Before anything changes."""
    with pytest.raises(DriverError):
        updated(made(nics=[{"mac": "02:00:00:00:00:01"}]), change)


def test_what_cannot_be_updated_is_ignored() -> None:
    """The brand and the image stay."""
    vm = made()
    new = updated(vm, {"brand": "kvm", "image_uuid": UUID, "zonepath": "/"})
    assert (new["brand"], new["image_uuid"]) == ("lx", IMAGE)


def test_the_store_keeps_records_over_a_restart(tmp_path: Path) -> None:
    """Another store on the same directory reads them; a directory without record is half made."""
    store = MachineStore(tmp_path / "vms")
    store.open()
    store.save(made())
    half = "bbbbbbbb-1111-4111-8111-111111111111"
    (tmp_path / "vms" / half).mkdir()
    (tmp_path / "vms" / "lost+found").mkdir()
    again = MachineStore(tmp_path / "vms")
    again.open()
    assert again.get(UUID) == made() | {
        name: again.get(UUID)[name] for name in ("create_timestamp", "last_modified")
    }
    assert again.get(half) == {"uuid": half, "mark": "provisioning"}
    assert len(list(again)) == 2


def test_a_record_cut_short_is_half_made(tmp_path: Path) -> None:
    """A power failure in the middle of a write does not stop the agent."""
    store = MachineStore(tmp_path)
    store.open()
    store.save(made())
    (tmp_path / UUID / "vm.json").write_text('{"uuid": "aaa')
    store.open()
    assert store.get(UUID) == {"uuid": UUID, "mark": "provisioning"}


def test_a_vm_with_disks_has_its_own_memory_rules() -> None:
    """``ram`` is the guest's; what the hypervisor needs comes on top; one disk boots."""
    vm = new_vm(
        {"brand": "kvm", "ram": 512, "disks": [{"image_uuid": UUID}, {"size": 1024}]},
        {},
        ("kvm", "bhyve"),
    )
    assert (vm["ram"], vm["max_physical_memory"], vm["image_uuid"]) == (512, 1536, UUID)
    assert [disk["boot"] for disk in vm["disks"]] == [True, False]
    grown = updated(vm, {"ram": 1024, "add_disks": [{"size": 10}], "remove_disks": ["disk1"]})
    assert (grown["ram"], grown["max_physical_memory"]) == (1024, 2048)
    assert [disk["path"] for disk in grown["disks"]] == ["disk0", "disk1"]
    flavor = updated(vm, {"max_physical_memory": 2048})
    assert (flavor["ram"], flavor["max_physical_memory"]) == (2048, 3072)


@pytest.mark.parametrize(
    "disks",
    [
        [{}],
        [{"size": 1, "media": "tape"}],
        [{"size": 1, "path": "a"}, {"size": 1, "path": "a"}],
        [{"image_uuid": "no"}],
        [{"size": -1}],
    ],
)
def test_bad_disks_are_refused(disks: list[dict[str, Any]]) -> None:
    """A disk has a size, an image or a path, a known medium, and a path of its own."""
    with pytest.raises(DriverError, match="Invalid VM payload"):
        new_vm({"brand": "kvm", "disks": disks}, {}, ("kvm",))
