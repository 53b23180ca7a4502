"""Chef scripts: one recipe of a cookbook, by chef-solo."""

import json
import os

from ..process import Outcome, run
from . import register
from .tool import ToolExecutor

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


@register("Chef")
class ChefExecutor(ToolExecutor):
    """`script(attributes=None)`; the entry point is `<cookbook>::<recipe>`."""

    def run(
        self, function: "str | None", attributes: "dict[str, Any] | None" = None, **named: "Any"
    ) -> Outcome:
        cookbook, _, recipe = self.entry_point.rpartition("::")
        folder = self.prepare()
        cookbooks = folder
        if self.options.get("useBerkshelf", False):
            cookbooks = self._vendor(folder, cookbook)
        self.write(folder, "solo.rb", "cookbook_path %s\n" % json.dumps(cookbooks))
        node: "dict[str, Any]" = {"run_list": ["recipe[%s::%s]" % (cookbook, recipe)]}
        if attributes is not None:
            node[cookbook] = attributes
        self.write(folder, "node.json", json.dumps(node))
        return self.run_tool(["chef-solo", "-j", "node.json", "-c", "solo.rb"], folder)

    def _vendor(self, folder: str, cookbook: str) -> str:
        """Fetch the cookbook's dependencies with Berkshelf; returns their folder."""
        berksfile = self.options.get("berksfilePath") or os.path.join(cookbook, "Berksfile")
        path = os.path.join(folder, berksfile)
        if not os.path.isfile(path):
            raise self.preparation_failed("there is no Berksfile %s" % berksfile)
        target = os.path.join(folder, "berks-cookbooks")
        try:
            outcome = run(
                ["berks", "vendor", "--berksfile=%s" % path, target], folder, self.output_folder
            )
        except OSError as error:
            raise self.preparation_failed(
                "berks does not run on this machine: %s" % error
            ) from error
        if outcome["exitCode"] != 0:
            raise self.preparation_failed(
                "berks vendor exited with code %d" % outcome["exitCode"],
                outcome["stderr"] or outcome["stdout"],
            )
        return target
