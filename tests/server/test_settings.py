"""Settings: flag, then environment, then file."""

import resource
from collections.abc import Callable
from dataclasses import asdict, fields
from pathlib import Path

import pytest

from vetro.environments import catalog_policy
from vetro.http import ConnectionLimits
from vetro.server.compute import compute_settings
from vetro.server.errors import StartError
from vetro.server.node import connection_limits, mutual_tls
from vetro.server.policies import check_model_rules, networks_of, policy_of
from vetro.server.settings import SettingsError, TlsSection, load_settings


def test_file_environment_and_flag_override_in_that_order(tmp_path: Path) -> None:
    """A flag beats the environment, which beats the file, which beats the default."""
    file = tmp_path / "vetro.toml"
    file.write_text("[server]\nport = 1001\nhost = 'a'\nlog_level = 'debug'\n")
    environ = {"VETRO_PORT": "1002", "VETRO_SERVER_HOST": "b"}
    settings = load_settings({"server.port": 1003}, environ=environ, config_file=file)
    assert (settings.server.port, settings.server.host) == (1003, "b")
    assert settings.server.log_level == "debug"


def test_file_in_the_data_directory_is_found(tmp_path: Path) -> None:
    """``vetro.toml`` in the data directory is read without being named."""
    (tmp_path / "vetro.toml").write_text("[network]\ndefault_dns = ['9.9.9.9']\n")
    settings = load_settings(environ={"VETRO_DATA_DIR": str(tmp_path)})
    assert settings.network.default_dns == ["9.9.9.9"]
    assert settings.database_url == f"sqlite:///{tmp_path}/vetro.db"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[server]\nprot = 1\n", "did you mean port"),
        ("[sever]\nport = 1\n", "did you mean server"),
        ("[server]\nport = 'many'\n", "server.port must be a whole number"),
        ("[server\n", "vetro.toml"),
        ("server = 3\n", "must be a table"),
    ],
)
def test_a_wrong_file_names_the_place_and_what_to_do(
    tmp_path: Path, text: str, message: str
) -> None:
    """Misspelt names, wrong types and broken TOML are explained."""
    file = tmp_path / "vetro.toml"
    file.write_text(text)
    with pytest.raises(SettingsError, match=message):
        load_settings(environ={}, config_file=file)


def test_a_named_file_must_exist(tmp_path: Path) -> None:
    """A settings file that is named but absent is an error."""
    with pytest.raises(SettingsError, match="does not exist"):
        load_settings(environ={"VETRO_CONFIG": str(tmp_path / "none.toml")})


def test_environment_values_are_read_in_the_settings_type() -> None:
    """Numbers, booleans and lists are parsed from the environment's text."""
    settings = load_settings(
        environ={
            "VETRO_SERVER_DEBUG": "yes",
            "VETRO_NETWORK_DEFAULT_DNS": "1.1.1.1, 9.9.9.9",
            "VETRO_ENGINE_AGENT_TIMEOUT": "12.5",
        }
    )
    assert settings.server.debug is True
    assert settings.network.default_dns == ["1.1.1.1", "9.9.9.9"]
    assert settings.engine.agent_timeout == 12.5
    with pytest.raises(SettingsError, match="true or false"):
        load_settings(environ={"VETRO_SERVER_DEBUG": "perhaps"})


@pytest.mark.parametrize(
    ("name", "value", "known"),
    [
        ("VETRO_SERVER_LOG_FORMAT", "xml", "console, json, logfmt"),
        ("VETRO_SERVER_LOG_LEVEL", "loud", "debug, info, warning, error"),
        ("VETRO_COMPUTE_PROFILE", "triton", "seed, upstream"),
        ("VETRO_COMPUTE_VALIDATION_STATUS", "404", "400, 422, 500"),
        ("VETRO_COMPUTE_EXPIRED_WAIT_STATUS", "200", "204, 500"),
    ],
)
def test_values_that_mean_nothing_are_refused(name: str, value: str, known: str) -> None:
    """The error names the allowed values."""
    with pytest.raises(SettingsError, match=f"must be one of {known}"):
        load_settings(environ={name: value})


def test_the_allocators_settings(tmp_path: Path) -> None:
    """``[dapi]`` overrides ``[compute]``; structured values are JSON in the environment."""
    file = tmp_path / "vetro.toml"
    file.write_text(
        "[dapi]\nbatch_size = 50\nrandom_seed = 'x'\n"
        "allocation_description = ['pipe', ['or', 'identity', 'identity']]\n"
        "[dapi.change_defaults]\nweight_sign = 'upstream'\nALLOC_FILTER_CAPNESS = false\n"
    )
    made = compute_settings(
        load_settings(environ={}, config_file=file), image_dir=tmp_path, node_key="k"
    ).placement
    assert made.description == ["pipe", ["or", "identity", "identity"]]
    assert made.change_defaults["weight_sign"] == "upstream"
    assert made.change_defaults["overprovision_ratio_cpu"] == 16.0
    assert (made.batch_size, made.seed, made.profile) == (50, "x", "seed")
    environ = {
        "VETRO_DAPI_CHANGE_DEFAULTS": '{"overprovision_ratio_cpu": 2}',
        "VETRO_DAPI_ALLOCATION_DESCRIPTION": '["pipe", "identity"]',
    }
    made = compute_settings(
        load_settings(environ=environ, config_file=file), image_dir=tmp_path, node_key="k"
    ).placement
    assert made.description == ["pipe", "identity"]
    assert made.change_defaults["overprovision_ratio_cpu"] == 2
    with pytest.raises(SettingsError, match="dapi.change_defaults must be a table"):
        load_settings(environ={"VETRO_DAPI_CHANGE_DEFAULTS": "[]"}, config_file=file)


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("ALLOCATION_DESCRIPTION", '["pipe", "guess"]', "Unrecognized algorithm: guess"),
        ("CHANGE_DEFAULTS", '{"filter_capness": 5}', "Defaults filter_capness is not boolean"),
        ("CHANGE_DEFAULTS", '{"filter_hednode": true}', "did you mean filter_headnode"),
    ],
)
def test_a_bad_pipeline_or_default_stops_the_start(name: str, value: str, message: str) -> None:
    """The error comes before anything listens."""
    settings = load_settings(environ={f"VETRO_DAPI_{name}": value, "VETRO_DATA_DIR": "/nowhere"})
    with pytest.raises(StartError, match=message):
        compute_settings(settings, image_dir=Path("/nowhere"), node_key="k")


def test_tls_is_all_or_nothing(tmp_path: Path) -> None:
    """No files mean no TLS; the error for missing or invalid files names them."""
    assert mutual_tls(TlsSection()) is None
    with pytest.raises(StartError, match="all three"):
        mutual_tls(TlsSection(certificate="a.pem"))
    with pytest.raises(StartError, match=r"none\.pem"):
        mutual_tls(TlsSection(*[str(tmp_path / "none.pem")] * 3))


@pytest.mark.parametrize("name", [item.name for item in fields(ConnectionLimits)])
def test_every_limit_of_connections_has_bounds(name: str) -> None:
    """A limit that admits no client or has no bound is refused with the allowed range."""
    variable = f"VETRO_CONNECTIONS_{name.upper()}"
    for wrong in ("-1", "99999999999"):
        with pytest.raises(SettingsError, match=f"connections.{name} must be from"):
            load_settings(environ={variable: wrong})
    with pytest.raises(SettingsError, match=f"connections.{name} must be"):
        load_settings(environ={variable: "nan"})


@pytest.mark.parametrize(
    "name",
    [
        "heat.stack_timeout",
        "heat.stack_busy_timeout",
        "rabbitmq.queue_expires",
        "openstack.away_seconds",
    ],
)
def test_times_that_operations_may_take_have_bounds(name: str) -> None:
    """A negative or an endless one is refused with the allowed range."""
    for wrong in ("-1", "inf", "nan"):
        with pytest.raises(SettingsError, match=f"{name} must be from"):
            load_settings(environ={f"VETRO_{name.replace('.', '_').upper()}": wrong})


def test_limits_of_connections_reach_the_server() -> None:
    """Each setting is the limit of the same name; 0 is what the descriptors permit."""
    table = {"header_seconds": 5.5, "body_seconds": 6.5, "body_bytes": 7, "write_seconds": 8.5}
    table |= {"keep_alive_seconds": 9, "total": 40, "per_address": 20, "reserve": 3}
    table |= {"max_header_line": 20_000, "backlog": 7, "tcp_keepidle": 30}
    environ = {f"VETRO_CONNECTIONS_{name}".upper(): str(value) for name, value in table.items()}
    assert asdict(connection_limits(load_settings(environ=environ).connections)) == table
    assert connection_limits(load_settings(environ={}).connections) == ConnectionLimits()


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"total": 500}, r"total \(500\) is more than the 352 .* 512 open files .* reserve of 32"),
        ({"total": 40, "per_address": 41}, r"per_address \(41\) is more than total \(40\)"),
    ],
)
def test_more_connections_than_open_files_stop_the_start(
    given: dict[str, int], message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The start is refused with the number of connections that the process can keep."""

    def limits(_kind: int) -> tuple[int, int]:
        return (256, 512)

    monkeypatch.setattr(resource, "getrlimit", limits)
    with pytest.raises(StartError, match=message):
        connection_limits(ConnectionLimits(**given))


@pytest.mark.parametrize(
    ("setting", "content", "says"),
    [
        ("server.policy_file", None, "No such file"),
        ("server.policy_file", "{", "line"),
        ("server.policy_file", "[a, b]", "rules by name"),
        (
            "server.policy_file",
            "delete_environment: role",
            "rule delete_environment: 'role'",
        ),
        ("api.network_config_file", None, "No such file"),
        ("api.network_config_file", "environment: x", "it has no networks"),
        ("engine.model_policy_file", None, "No such file"),
        ("engine.model_policy_file", "r(x", "line 1"),
    ],
)
def test_a_file_that_does_not_parse_stops_the_start(
    tmp_path: Path, setting: str, content: str | None, says: str
) -> None:
    """Rules, networks and rules about models: the error names the file and what is wrong in it."""
    file = tmp_path / "given.yaml"
    if content is not None:
        file.write_text(content)
    section, name = setting.split(".")
    environ = {
        f"VETRO_{section}_{name}".upper(): str(file),
        "VETRO_ENGINE_ENABLE_MODEL_POLICY_ENFORCER": "true",
    }
    settings = load_settings(environ=environ)
    reads: dict[str, Callable[[], object]] = {
        "server.policy_file": lambda: policy_of(settings, catalog_policy),
        "api.network_config_file": lambda: networks_of(settings),
        "engine.model_policy_file": lambda: check_model_rules(settings),
    }
    with pytest.raises(StartError) as raised:
        reads[setting]()
    assert str(file) in str(raised.value)
    assert says in str(raised.value)


#: catalog-api.md §11 and §13, in the sections that have them here.
OF_THE_SPECIFICATION: dict[str, dict[str, object]] = {
    "server": {"port": 8082, "allowed_origins": [], "trust_proxy": False},
    "connections": {"max_header_line": 16_384, "backlog": 4096, "tcp_keepidle": 600},
    "api": {
        "package_size_limit": 5,
        "limit_param_default": 20,
        "api_limit_max": 100,
        "max_request_body_size": 0,
        "v03_put_status": 201,
        "v03_expose_secrets": False,
    },
    "stats": {"period": 5, "env_audit_period": 60, "env_audit_enabled": True},
    "network": {
        "max_environments": 250,
        "max_hosts": 250,
        "env_ip_template": "10.0.0.0",
        "default_dns": [],
        "external_network": "ext-net",
        "router_name": "murano-default-router",
        "create_router": True,
        "driver": "",
    },
    "identity": {"admin_role": "admin"},
    "engine": {
        "home_region": "",
        "static_call_timeout": 60,
        "action_result_limit": 16 * 2**20,
        "task_timeout": 0,
        "enable_model_policy_enforcer": False,
    },
    "rabbitmq": {
        "host": "",
        "port": 5672,
        "login": "guest",
        "password": "guest",
        "virtual_host": "/",
        "ssl": False,
        "ca_certs": "",
    },
    "cfapi": {
        "port": 8083,
        "user_domain_name": "default",
        "project_domain_name": "default",
        "credentials_seconds": 30,
    },
}


def test_options_have_the_defaults_of_the_specification() -> None:
    """Whoever set nothing gets what the released service did."""
    made = load_settings(environ={"VETRO_DATA_DIR": "/nonexistent"})
    found = {
        section: {name: getattr(getattr(made, section), name) for name in wanted}
        for section, wanted in OF_THE_SPECIFICATION.items()
    }
    assert found == OF_THE_SPECIFICATION
