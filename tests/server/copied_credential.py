"""A machine that uses the mailbox credential of another one, as a copy of its disk would."""

from __future__ import annotations

import re

from tests.server.conftest import Installation

_SHOW = "#!/bin/sh\nsed -n 's/^token = /credential /p' /etc/murano/agent.conf\n"
_USE = """#!/bin/sh
python3 - CREDENTIAL <<'END'
import configparser, sys, urllib.error, urllib.request
file = configparser.ConfigParser(interpolation=None)
file.read("/etc/murano/agent.conf")
own = file["mailbox"]
for name, token in (("own", own["token"]), ("other", sys.argv[1])):
    url = own["url"].rstrip("/") + "/agents/v1/alive"
    asked = urllib.request.Request(url, b"{}", {"Authorization": "Bearer " + token})
    try:
        status, text = urllib.request.urlopen(asked).status, ""
    except urllib.error.HTTPError as error:
        status, text = error.code, error.read().decode()
    print(name, status, text)
END
"""


def is_refused_elsewhere(vetro: Installation, environment: str) -> None:
    """A second machine of the environment tries the first one's credential, and its own.

    The environment has one HelloScript, called ``s``, that is deployed.
    """
    vetro.run("env", "edit", environment, "s", "--set", f"script={_SHOW}")
    found = re.search(r"credential (\S+)", vetro.run("env", "deploy", environment))
    assert found is not None
    script = _USE.replace("CREDENTIAL", found[1])
    vetro.run("env", "add", environment, "HelloScript", "--name", "t", "--set", f"script={script}")
    said = vetro.run("env", "deploy", environment)
    assert "own 204" in said, said
    assert "other 403" in said, said
    assert "belongs to another machine" in said
    # Its owner reads it as before.
    vetro.run("env", "edit", environment, "s", "--set", "script=#!/bin/sh\necho still here\n")
    assert "still here" in vetro.run("env", "deploy", environment)
