"""What a setting asks for is had, or the start is refused: never less without a word (decision 0812)."""

import os
import ssl
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import structlog

from vetro.engine.signing import PlanSigner, SigningKeyError
from vetro.environments import catalog_policy
from vetro.messaging import RabbitmqSection
from vetro.repository import repository_policy
from vetro.server import data_directory
from vetro.server.errors import StartError
from vetro.server.installation import KEYS
from vetro.server.isolation import choose_instances, others_at_service
from vetro.server.node import mutual_tls
from vetro.server.packages import catalog_of
from vetro.server.policies import check_broker, check_model_rules, networks_of, policy_of
from vetro.server.settings import Settings, SettingsError, load_settings, unused_variables
from vetro.storage import Keyring, StorageError

Refusals = (SettingsError, StartError, StorageError, SigningKeyError)
#: Files that a start reads or makes, by their names in the shared directory.
SECRETS = ("node-key", "service-key", "dashboard-key", "broker-key")


def begin(directory: Path, given: dict[str, Any], environ: dict[str, str]) -> Settings:
    """What a start looks at before anything listens."""
    settings = load_settings({"server.data_dir": str(directory), **given}, environ=environ)
    choose_instances(settings, others_at_service(settings))
    data_directory.prepare(settings.data_dir, settings.shared_dir)
    for name in SECRETS:
        data_directory.secret(settings.shared_dir / name)
    Keyring(settings.shared_dir / KEYS).create()
    assert Keyring(settings.shared_dir / KEYS).ids
    if os.path.lexists(signing := settings.shared_dir / "engine-signing.pem"):
        PlanSigner.load_or_create(signing)  # a new one takes a second
    policy_of(settings, catalog_policy)
    policy_of(settings, repository_policy)
    check_model_rules(settings)
    networks_of(settings)
    check_broker(settings)
    mutual_tls(settings.tls)
    no_database: Any = None
    catalog_of(settings, no_database)
    return settings


def nothing(_file: Path) -> None:
    """There is no such file."""


def nowhere(file: Path) -> None:
    """A link to a file that is gone."""
    file.symlink_to(file.with_name("gone"))


def cut_off(file: Path) -> None:
    """What a full disk leaves."""
    file.write_bytes(b"")


def overwritten(file: Path) -> None:
    """Not of its kind."""
    file.write_bytes(b"\0\xff{")


#: How a file may be broken, for every user alike (root reads what has no permissions).
STATES: dict[str, Callable[[Path], object]] = {
    "missing": nothing,
    "a link to nowhere": nowhere,
    "a directory": Path.mkdir,
    "cut off": cut_off,
    "overwritten": overwritten,
}
#: Settings that name a file, with what else asks for it.
NAMED: dict[str, dict[str, Any]] = {
    "server.policy_file": {},
    "engine.model_policy_file": {"engine.enable_model_policy_enforcer": True},
    "api.network_config_file": {},
    "api.signers_directory": {},
    "tls.certificate": {"tls.key": "/dev/null", "tls.authority": "/dev/null"},
    "tls.key": {"tls.certificate": "/dev/null", "tls.authority": "/dev/null"},
    "tls.authority": {"tls.certificate": "/dev/null", "tls.key": "/dev/null"},
    "rabbitmq.ca_certs": {"rabbitmq.host": "broker.example", "rabbitmq.ssl": True},
}
#: Files of the data directory; a missing one is made.
KEPT = (*SECRETS, KEYS, "engine-signing.pem", "vetro.toml")


def test_a_file_that_cannot_be_used_stops_the_start(tmp_path: Path) -> None:
    """Whatever it is for and however it is broken; the error names it."""
    for setting, more in NAMED.items():
        for state, make in STATES.items():
            place = tmp_path / f"{setting} {state}"
            place.mkdir()
            make(file := place / "file")
            if (setting, state) == ("api.signers_directory", "a directory"):
                continue  # it is to be one
            with pytest.raises(Refusals) as refused:
                begin(place / "data", {"node.driver": "simulated", setting: str(file), **more}, {})
            assert str(file) in str(refused.value) or "tls" in setting, (setting, state)
    for name in KEPT:
        for state, make in STATES.items():
            place = tmp_path / f"{name} {state}"
            place.mkdir()
            make(place / name)
            environ = {"VETRO_DATA_DIR": str(place)}
            if state == "missing":
                begin(place, {"node.driver": "simulated"}, environ)
                continue
            if (name, state) == ("vetro.toml", "cut off"):
                continue  # an empty settings file is one without settings
            with pytest.raises((*Refusals, OSError)) as broken:
                begin(place, {"node.driver": "simulated"}, environ)
            assert str(place / name) in str(broken.value), (name, state)


#: Settings that would silently give less than they ask for, and what the refusal names.
VALUES: list[tuple[dict[str, Any], dict[str, str], str]] = [
    *(
        ({f"{section}.{key}": empty}, {}, f"{section}.{key}")
        for section, key in (
            ("server", "host"), ("compute", "host"), ("repository", "host"), ("cfapi", "host"),
            ("node", "listen_host"),
        )
        for empty in ("", " ")
    ),
    ({}, {"VETRO_SERVER_HOST": ""}, "server.host"),
    ({}, {"VETRO_NOTIFICATIONS_AUDIT": ""}, "true or false"),
    ({}, {"VETRO_SERVER_TRUST_PROXY": ""}, "true or false"),
    ({}, {"VETRO_IDENTITY_ULR": "https://keystone/v3"}, "did you mean VETRO_IDENTITY_URL"),
    ({}, {"VETRO_SERVER_POLICYFILE": "p"}, "did you mean VETRO_SERVER_POLICY_FILE"),
    ({}, {"VETRO_QUOTAS_MAX_VM": "3"}, "there are: VETRO_QUOTAS_ENVIRONMENTS, VETRO_QUOTAS_INSTANCES"),
    ({}, {"VETRO_QUOTA_INSTANCES": "3"}, "did you mean VETRO_QUOTAS_INSTANCES"),
    ({}, {"VETRO_quotas_instances": "3"}, "did you mean VETRO_QUOTAS_INSTANCES"),
    ({}, {"VETRO_IDENTITY_KEYSTONE": "https://keystone"}, "VETRO_IDENTITY_URL"),
    ({}, {"VETRO_TLS_CA": "/ca.pem"}, "VETRO_TLS_AUTHORITY"),
    ({}, {"VETRO_API_PORT": "8083"}, "VETRO_API_PORT: there is no such setting"),
    ({}, {"VETRO_DRIVERS": "lxc"}, "did you mean VETRO_DRIVER"),
    *(
        ({}, {variable: empty}, f"{variable} is empty")
        for variable in (
            "VETRO_SERVER_POLICY_FILE", "VETRO_IDENTITY_URL", "VETRO_TLS_AUTHORITY", "VETRO_DRIVER",
            "VETRO_SERVER_DATABASE_URL", "VETRO_DATABASE_URL", "VETRO_API_SIGNERS_DIRECTORY",
            "VETRO_RABBITMQ_CA_CERTS", "VETRO_SERVER_ALLOWED_ORIGINS", "VETRO_CONFIG",
        )
        for empty in ("", " ", "\n")
    ),
    *(
        ({name: " "}, {}, name)
        for name in ("server.database_url", "identity.url", "api.signers_directory", "tracing.endpoint")
    ),
    ({}, {"VETRO_RABBITMQ_SSL": "TLS"}, "true or false"),
    ({}, {"VETRO_ENGINE_TASK_SECONDS": "nan"}, "engine.task_seconds"),
    ({}, {"VETRO_IDENTITY_TOKEN_HOURS": "inf"}, "identity.token_hours"),
    ({"identity.token_hours": 10**9}, {}, "identity.token_hours"),
    ({"identity.token_hours": 0}, {}, "identity.token_hours"),
    ({}, {"VETRO_QUOTAS_INSTANCES": ""}, "quotas.instances"),
    ({}, {"VETRO_QUOTAS_INSTANCES": "-2"}, "quotas.instances"),
    ({"identity.service_password": "x"}, {}, "identity.url"),
    ({"identity.service_secret": "x", "identity.url": " "}, {}, "identity.url"),
    ({"identity.service_credential": "x"}, {}, "identity.url"),
    ({"rabbitmq.host": "b", "rabbitmq.ca_certs": "/ca.pem"}, {}, "rabbitmq.ssl"),
    ({"rabbitmq.host": "b", "rabbitmq.ssl_version": "TLSv1_2"}, {}, "rabbitmq.ssl"),
    (
        {"rabbitmq.host": "b", "rabbitmq.ssl": True, "rabbitmq.ssl_version": "SSLv3"},
        {},
        "ssl_version",
    ),
    ({"tls.certificate": "/c.pem"}, {}, "[tls]"),
    ({"tls.key": "/c.pem", "tls.certificate": "/c.pem"}, {}, "[tls]"),
    ({"engine.enable_model_policy_enforcer": True}, {}, "model_policy_file"),
    ({"server.policy_file": " "}, {}, "policy_file"),
    ({"openstack.stacks": "heat"}, {}, "identity.url"),
    ({"node.driver": "proces"}, {}, "proces"),
]  # fmt: skip


def test_a_value_that_would_give_less_is_refused(tmp_path: Path) -> None:
    """Empty, cut off, out of bounds, or without its other half."""
    for number, (given, environ, said) in enumerate(VALUES):
        with pytest.raises((*Refusals, OSError)) as refused:
            driver = {"node.driver": "simulated"}
            begin(tmp_path / str(number), driver | given, environ)
            pytest.fail(f"{given} {environ}")
        hint = getattr(refused.value, "hint", "")
        assert said in f"{refused.value} {hint}", (given, environ)


def test_variables_of_others_are_left_alone() -> None:
    """Those of commands, of tests, and of the services of a cluster; one that nothing reads is named."""
    others = {
        "VETRO_URL": "http://v", "VETRO_TEST_RECORDS": "x", "VETRO_API_PORT": "tcp://10.0.0.1:80",
        "VETRO_API_SERVICE_HOST": "10.0.0.1", "VETRO_API_SERVICE_PORT_HTTP": "80",
        "VETRO_API_PORT_80_TCP_ADDR": "10.0.0.1", "OS_QUOTAS_MAX": "1",
    }  # fmt: skip
    assert unused_variables(others) == []
    assert unused_variables({**others, "VETRO_COLOUR_OF_MY_SHELL": "red"}) == [
        "VETRO_COLOUR_OF_MY_SHELL"
    ]


@pytest.mark.parametrize("part", ["", "_COMPUTE", "_REPOSITORY", "_CFAPI", "_SERVER", "_NODE"])
def test_a_service_of_a_cluster_sets_nothing(part: str) -> None:
    """Kubernetes says where a Service called ``vetro`` or ``vetro-compute`` is, under a setting's name."""
    at = f"VETRO{part}_PORT"
    given = {at: "tcp://10.0.0.1:8082", f"VETRO{part}_SERVICE_HOST": "10.0.0.1",
             f"VETRO{part}_SERVICE_PORT": "8082", f"{at}_8082_TCP": "tcp://10.0.0.1:8082",
             f"{at}_8082_TCP_PROTO": "tcp", f"{at}_8082_TCP_PORT": "8082"}  # fmt: skip
    assert load_settings(environ=given) == load_settings(environ={})


def test_a_value_of_the_wrong_type_is_not_repeated_where_it_is_secret(tmp_path: Path) -> None:
    """The error names the setting and the type."""
    file = tmp_path / "vetro.toml"
    file.write_text("[rabbitmq]\npassword = 271828\n")
    with pytest.raises(SettingsError, match="rabbitmq.password must be text") as refused:
        load_settings(environ={}, config_file=file)
    assert "271828" not in str(refused.value)


def test_switches_of_a_region_are_read_as_what_they_say() -> None:
    """The text `false` does not switch the check of certificates off, nor TLS on."""
    section = RabbitmqSection(host="b", ssl=True)
    for text, is_on in (("false", False), ("False ", False), ("0", False), ("yes", True)):
        made = section.reached({"insecure": text})
        assert made.insecure is is_on
        tls = made.tls()
        assert tls is not None
        assert (tls.verify_mode is ssl.CERT_NONE) is is_on
    for text in ("", "fals", "2"):
        with pytest.raises(ValueError, match="true or false"):
            section.reached({"insecure": text})


def test_a_policy_that_is_cut_off_later_stays_in_force(tmp_path: Path) -> None:
    """What is empty, broken or gone under a running service does not open it."""
    file = tmp_path / "policy.yaml"
    file.write_text("list_packages_that_is_new: '!'\n")
    policy = catalog_policy(file)
    caller: Any = None
    assert not policy.allows(caller, "list_packages_that_is_new")
    for make in (cut_off, overwritten, lambda path: path.unlink()):
        make(file)
        with structlog.testing.capture_logs() as logs:
            assert not policy.allows(caller, "list_packages_that_is_new")
        assert [log["event"] for log in logs] == ["policy_file_not_used"]


@pytest.mark.root
def test_directories_that_others_may_write_are_closed_or_refused(tmp_path: Path) -> None:
    """Ours lose the permission; one that many use, as /tmp, is refused, and left as it was."""
    for mode in (0o775, 0o777, 0o773, 0o1777):
        place = tmp_path / f"{mode:o}"
        place.mkdir()
        place.chmod(mode)
        data_directory.prepare(place)
        assert place.stat().st_mode & 0o022 == 0
    for name in ("data", "shared"):
        many = tmp_path / name
        many.mkdir()
        many.chmod(0o1777)
        (many / "of another").touch()
        os.chown(many / "of another", 1234567, 1234567)
        places = (many, None) if name == "data" else (tmp_path / "own", many)
        with pytest.raises(StartError, match="may write into"):
            data_directory.prepare(*places)
        assert many.stat().st_mode & 0o7777 == 0o1777
