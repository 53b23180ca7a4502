"""A service takes no driver without isolation by itself, and says what holds."""

from collections.abc import Callable
from pathlib import Path

import pytest

from vetro.server.doctor import Machine, examine_machine
from vetro.server.doctor.installation import examine_installation
from vetro.server.errors import StartError
from vetro.server.isolation import (
    Started,
    choose_instances,
    is_loopback,
    kept_from_plans,
    others_at_node,
    others_at_service,
)
from vetro.server.parts import parts_of
from vetro.server.settings import load_settings

REFUSED = "refused"
LXC: Callable[[str], str | None] = lambda name: f"/usr/bin/{name}"  # noqa: E731
NO_LXC: Callable[[str], str | None] = lambda _name: None  # noqa: E731
POSTGRES = "postgresql://vetro@db/vetro"

#: Settings, user, programs, and the driver with a word of what holds; or that it is refused.
AT_SERVICE: list[tuple[dict[str, object], int, Callable[[str], str | None], str, str]] = [
    ({}, 0, LXC, "lxc", "isolated"),
    ({}, 0, NO_LXC, REFUSED, "apt-get install lxc"),
    ({"server.host": "0.0.0.0"}, 0, NO_LXC, REFUSED, "apt-get install lxc"),
    ({"node.driver": "process"}, 0, NO_LXC, "process", "a user of their project"),
    ({"node.driver": "process", "server.host": "::"}, 0, LXC, "process", "a user of their project"),
    ({"node.driver": "simulated"}, 0, NO_LXC, "simulated", "nothing runs"),
    ({"node.enabled": False}, 0, NO_LXC, "process", "on other machines"),
    ({"node.enabled": False, "server.host": "0.0.0.0"}, 1000, LXC, "process", "on other machines"),
    ({}, 1000, LXC, "process", "no isolation"),
    ({"server.host": "localhost"}, 1000, LXC, "process", "no isolation"),
    ({"server.host": "::1"}, 1000, NO_LXC, "process", "no isolation"),
    ({"server.host": "0.0.0.0"}, 1000, LXC, REFUSED, "server.host"),
    ({"server.host": "::"}, 1000, LXC, REFUSED, "server.host"),
    ({"server.host": "192.0.2.1"}, 1000, LXC, REFUSED, "server.host"),
    ({"server.host": "vetro.example.org"}, 1000, LXC, REFUSED, "server.host"),
    ({"server.trust_proxy": True}, 1000, LXC, REFUSED, "server.trust_proxy"),
    ({"server.database_url": POSTGRES}, 1000, LXC, REFUSED, "server.database_url"),
    ({"server.host": "0.0.0.0", "node.driver": "process"}, 1000, LXC, "process", "no isolation"),
]


def test_no_plan_sees_what_the_settings_name(tmp_path: Path) -> None:
    """The directories, the settings file itself, the private key, and a database elsewhere."""
    named, key, database = (tmp_path / one for one in ("my.toml", "key.pem", "sub/mine.db"))
    named.write_text(f'[tls]\nkey = "{key}"\n[server]\nshared_dir = "{tmp_path}/shared"\n')
    given = {"server.data_dir": f"{tmp_path}/data", "server.database_url": f"sqlite:///{database}"}
    hidden = kept_from_plans(load_settings(given, environ={}, config_file=named))
    places = {tmp_path / "data", tmp_path / "shared", Path("/etc/vetro")}
    assert {*hidden} >= {*places, named, key, database, Path(f"{database}-wal")}
    (tmp_path / "data").mkdir()
    (tmp_path / "data/vetro.toml").touch()
    settings = load_settings({"server.data_dir": f"{tmp_path}/data"}, environ={})
    assert settings.file in kept_from_plans(settings)


async def test_doctor_names_a_settings_file_that_others_can_read(tmp_path: Path) -> None:
    """Its modes are the operator's: no start closes it."""
    file = tmp_path / "my.toml"
    file.write_text("[server]\n")
    for mode, said in ((0o644, True), (0o640, False)):
        file.chmod(mode)
        settings = load_settings({"server.data_dir": f"{tmp_path}/d"}, environ={}, config_file=file)
        found = [
            one async for one in examine_installation(settings) if one.subject == "settings file"
        ]
        assert bool(found) == said


def test_no_service_takes_a_driver_without_isolation_by_itself(tmp_path: Path) -> None:
    """Root never does, others on loopback only; what was written is taken; doctor says the same."""
    for given, user, which, driver, said in AT_SERVICE:
        settings = load_settings({"server.data_dir": str(tmp_path), **given}, environ={})
        try:
            chosen = choose_instances(settings, others_at_service(settings), Started(user, which))
        except StartError as refused:
            assert driver == REFUSED, given
            assert said in f"{refused} {refused.hint}", given
            assert 'driver = "process"' in str(refused.hint)
            levels = {"error"}
        else:
            assert (chosen.driver, said in chosen.holds) == (driver, True), (given, chosen)
            levels = {"ok"} if driver == "lxc" else {"warning"}
        machine = Machine(tmp_path, which, user, lambda: b"[]", lambda: 65536)
        found = {one.subject: one for one in examine_machine(machine, settings)}
        if settings.node.enabled:
            assert {found["isolation"].level} == levels, given


#: Settings of ``vetro node`` without root, and why it does not choose the driver `process`.
AT_NODE: list[tuple[dict[str, object], str]] = [
    ({}, ""),
    ({"node.compute_url": "http://localhost:8083"}, ""),
    ({"node.compute_url": "https://vetro.example.org/compute"}, "node.compute_url"),
    ({"node.compute_url": "http://10.0.0.1:8083"}, "node.compute_url"),
    ({"node.listen_host": "0.0.0.0"}, "node.listen_host"),
]


def test_a_node_of_another_machines_service_takes_none_either() -> None:
    """Whoever deploys at that service would run plans as the node's user."""
    for given, why in AT_NODE:
        settings = load_settings(given, environ={})
        others = others_at_node(settings)
        assert (why in others, bool(others)) == (True, bool(why)), given
        if why:
            with pytest.raises(StartError, match=why):
                choose_instances(settings, others, Started(1000, LXC))


def test_what_is_not_surely_loopback_is_not() -> None:
    """Names and spellings that this machine may resolve otherwise count as others'."""
    near = ("127.0.0.1", "127.9.9.9", "::1", "localhost", "LOCALHOST", "::ffff:127.0.0.1")
    far = ("", " ", "0.0.0.0", "::", "127.1", "0x7f000001", "localhost.example", "10.0.0.1", "::2")
    assert [host for host in near if not is_loopback(host)] == []
    assert [host for host in far if is_loopback(host)] == []


def test_the_page_of_health_says_what_holds() -> None:
    """The part `node` has the driver and what keeps plans away from the service."""
    settings = load_settings({"node.driver": "process"}, environ={})
    chosen = choose_instances(settings, "", Started(0, NO_LXC))
    [node] = [x for x in parts_of(settings, {}, workers=1, instances=chosen) if x.name == "node"]
    assert node.made_of.startswith("process; no containers: plans run as a user of their project")
