"""Whole definitions in the manner of published packages: what they make, and what they refuse."""

import re
from copy import deepcopy
from pathlib import Path
from typing import Any, cast

import pytest

from vetro.packages.forms import STORAGE_KEY, run_case

Json = dict[str, Any]
DEFINITIONS = Path(__file__).parent / "definitions"
ENVIRONMENT = {
    "flavors": [["m1.small", "m1.small"], ["m1.tiny", "m1.tiny"]],
    "images": [["img1", "Debian"]],
    "keypairs": [["k1", "k1"]],
    "azones": [["nova", "nova"]],
    "networks": [["(None, None)", "Auto"], ["('n1', 's1')", "n1: s1"]],
    "components": [],
}
DATA: dict[str, Json] = {
    "web_server": {
        "appConfiguration": {"license": "", "name": "web", "enablePHP": "on"},
        "instanceConfiguration": {
            "title": "", "flavor": "m1.small", "osImage": "img1", "keyPair": "",
            "availabilityZone": "nova", "network": "(None, None)", "unitNamingPattern": "w-1",
        },
    },
    "domain": {
        "appConfiguration": {
            "configuration": "standalone", "name": "acme.com", "dcInstances": "3",
            "adminAccountName": "Administrator",
            "adminPassword": "P@ssw0rd", "adminPassword-clone": "P@ssw0rd",
            "recoveryPassword": "P@ssw0rd1", "recoveryPassword-clone": "P@ssw0rd1",
            "assignFloatingIP": "False", "unitNamingPattern": "dc#-x",
        },
        "instanceConfiguration": {
            "flavor": "m1.small", "osImage": "img1", "availabilityZone": "nova"
        },
    },
    "sql_cluster": {
        "appConfiguration": {
            "domain": "", "externalAD": "on", "mixedModeAuth": "False", "saPassword": "",
            "clusterIp": "10.0.0.1", "unitNamingPattern": "q#", "key": "k y",
        },
        "ag": {"databases": "a, b", "listenerIP": "10.0.0.2", "count": "3"},
    },
}  # fmt: skip


def made(name: str, changes: Json) -> Json:
    """The outcome of a definition with its data and what changes; objects without ids and usages."""
    data = deepcopy(DATA[name])
    for path, value in changes.items():
        page, _, field = path.partition(".")
        data[page][field] = value
    ui = (DEFINITIONS / f"{name}.yaml").read_text(encoding="utf-8")
    case = {"ui": ui, "fqn": "org.acme.App", "data": data, "environment": ENVIRONMENT}
    outcome = run_case(case)
    return bare(outcome["model"]) if "model" in outcome else outcome


def bare(value: Any) -> Any:
    """A value without ids and what front ends add; a header of only a type is the type."""
    if isinstance(value, list):
        return [bare(one) for one in cast("list[Any]", value)]
    if not isinstance(value, dict):
        return value
    found: Json = {key: bare(one) for key, one in cast("Json", value).items()}
    header: Any = found.get("?")
    if isinstance(header, dict):
        assert re.fullmatch("[0-9a-f]{32}", str(cast("Json", header).pop("id")))
        for key in (STORAGE_KEY, "resourceUsages"):
            header.pop(key, None)
        if list(cast("Json", header)) == ["type"]:
            found["?"] = header["type"]
    return found


JOINED = [
    {
        "?": "io.murano.resources.ExistingNeutronNetwork",
        "internalNetworkName": "n1",
        "internalSubnetworkName": "s1",
    }
]


def test_a_server_on_its_environments_network_or_on_another() -> None:
    """Templates in branches of an expression, hidden fields, null network pairs."""
    server = made("web_server", {})
    assert server == {
        "?": "org.acme.web.Server",
        "name": "web",
        "enablePHP": True,
        "instance": {
            "?": "io.murano.resources.LinuxMuranoInstance",
            "name": "w-1",
            "flavor": "m1.small",
            "image": "img1",
            "keyname": "",
            "assignFloatingIp": False,
            "availabilityZone": "nova",
            "networks": {
                "useEnvironmentNetwork": True,
                "useFlatNetwork": False,
                "customNetworks": [],
            },
        },
    }
    joined = made("web_server", {"instanceConfiguration.network": "('n1', 's1')"})
    assert joined["instance"]["networks"] == {
        "useEnvironmentNetwork": False, "useFlatNetwork": False, "customNetworks": JOINED,
    }  # fmt: skip
    drawn = made("web_server", {"instanceConfiguration.unitNamingPattern": ""})
    assert re.fullmatch("[a-z]{5}[a-z0-9]{9,10}", drawn["instance"]["name"])


def test_controllers_are_repeated_with_their_index() -> None:
    """A template once and repeated; the last page's values reach into both."""
    found = made("domain", {})
    assert found["primaryController"]["host"]["name"] == "dc1-x"
    others = found["secondaryControllers"]
    assert [one["host"]["name"] for one in others] == ["dc2-x", "dc3-x"]
    assert {one["?"] for one in others} == {"io.murano.windows.activeDirectory.SecondaryController"}
    assert others[0]["recoveryPassword"] == "P@ssw0rd1"
    assert made("domain", {"appConfiguration.dcInstances": "1"})["secondaryControllers"] == []


def test_a_cluster_of_nodes_of_two_templates() -> None:
    """Lists that are added, keys that are expressions, an anchor that two templates share."""
    found = made("sql_cluster", {})
    assert found["?"] == {
        "type": "io.murano.windows.sqlServer.Cluster", "classVersion": ">=1.0", "name": "App",
    }  # fmt: skip
    assert [one["isSync"] for one in found["nodes"]] == [True, True, True, False]
    assert [one["host"]["name"] for one in found["nodes"][1:]] == ["q1", "q2", "q3"]
    assert (found["databases"], found["domain"], found["sa"]) == (["a", "b"], None, None)
    assert (found["externalAD"], found["k y"]) == (True, 1)


@pytest.mark.parametrize(
    ("name", "changes", "page", "errors"),
    [
        ("web_server", {"instanceConfiguration.unitNamingPattern": "w#"}, "instanceConfiguration",
         {"unitNamingPattern": ["Just letters, numbers, underscores and hyphens are allowed."]}),
        ("web_server", {"instanceConfiguration.flavor": "m1.tiny"}, "instanceConfiguration",
         {"page": ["PHP needs more than tiny"]}),
        ("web_server", {"instanceConfiguration.osImage": ""}, "instanceConfiguration",
         {"osImage": ["This field is required"]}),
        ("domain", {"appConfiguration.name": "averyveryverylongname.c"}, "appConfiguration",
         {"name": [
             "Only letters, numbers and dashes in the middle are allowed. Period characters are allowed"
             " only when used to delimit the components of domain style names. Single-level domain is"
             " not appropriate.",
             "NetBIOS name cannot be shorter than 1 symbol and longer than 15 symbols.",
             "DNS host name cannot be shorter than 2 symbols and longer than 63 symbols."]}),
        ("domain", {"appConfiguration.recoveryPassword": "P@ssw0rd",
                    "appConfiguration.recoveryPassword-clone": "P@ssw0rd"}, "appConfiguration",
         {"page": ["Passwords are the same"]}),
        ("domain", {"appConfiguration.adminPassword-clone": "P@ssw0rd2"}, "appConfiguration",
         {"adminPassword": ["Administrator passwords don't match"]}),
        ("domain", {"appConfiguration.dcInstances": "6"}, "appConfiguration",
         {"dcInstances": ["Enter a number of at most 5"]}),
        ("sql_cluster", {"appConfiguration.externalAD": ""}, "appConfiguration",
         {"page": ["Pick a domain"]}),
        ("sql_cluster", {"appConfiguration.mixedModeAuth": "True"}, "appConfiguration",
         {"saPassword": ["This field is required"]}),
        ("sql_cluster", {"ag.listenerIP": "10.0.0.1"}, "ag",
         {"page": ["Listener IP and Cluster Static IP should be different"]}),
        ("sql_cluster", {"ag.databases": "a, 1b"}, "ag",
         {"databases": ["1b is not a name for a database: begin with a letter or _, then use letters,"
                        " digits, _ $ # @"]}),
    ],
)  # fmt: skip
def test_what_they_refuse(name: str, changes: Json, page: str, errors: Json) -> None:
    """Errors by field with the definition's own messages; of a page when no field failed."""
    assert made(name, changes) == {"invalid": page, "errors": errors}
