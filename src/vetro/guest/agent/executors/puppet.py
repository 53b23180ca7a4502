"""Puppet scripts: one class of a module, by puppet apply."""

import json
import os

from ..process import Outcome
from . import register
from .tool import ToolExecutor

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_HIERA = {
    "version": 5,
    "defaults": {"datadir": "hieradata", "data_hash": "json_data"},
    "hierarchy": [{"name": "attributes", "path": "attributes.json"}],
}


@register("Puppet")
class PuppetExecutor(ToolExecutor):
    """`script(attributes=None)`; the entry point is `<module>::<class>`, class may be empty."""

    def run(
        self, function: "str | None", attributes: "dict[str, Any] | None" = None, **named: "Any"
    ) -> Outcome:
        module, _, name = self.entry_point.rpartition("::")
        folder = self.prepare()
        wanted = "%s::%s" % (module, name) if name else module
        self.write(folder, "manifest.pp", "class { %s: }\n" % _quoted(wanted))
        if not os.path.exists(os.path.join(folder, "hiera.yaml")):
            self.write(folder, "hiera.yaml", json.dumps(_HIERA, indent=1) + "\n")
        data = {"%s::%s" % (module, key): value for key, value in (attributes or {}).items()}
        self.write(folder, "hieradata/attributes.json", json.dumps(data))
        return self.run_tool(
            [
                "puppet",
                "apply",
                "--hiera_config=hiera.yaml",
                "--modulepath=%s" % folder,
                "manifest.pp",
            ],
            folder,
        )


def _quoted(text: str) -> str:
    return "'%s'" % text.replace("\\", "\\\\").replace("'", "\\'")
