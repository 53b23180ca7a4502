"""From a plan's document to its result, for both formats of plans."""

import os

from . import plan

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .plan_v1 import PowerShellPlan


def checked_plan(document: "dict[str, Any]") -> "plan.Plan | PowerShellPlan":
    """The plan of a document. Raises `AgentError`."""
    # Imported when one comes: most guests never see a plan of format 1.
    if "FormatVersion" not in document or str(document["FormatVersion"]).startswith("1."):
        from .plan_v1 import PowerShellPlan, is_first_format

        if is_first_format(document):
            return PowerShellPlan(document)
    return plan.validate(document)


def run_plan(
    checked: "plan.Plan | PowerShellPlan", folder: str, files: str, limit: int
) -> "bytes | None":
    """Run a plan, in the child; its result. None: it was left in `folder`, for after a restart."""
    # What runs a plan is imported here, while the agent already polls again.
    os.umask(0o022)  # files that scripts install are for every user of the guest
    if isinstance(checked, plan.Plan):
        from . import runner

        return runner.run(checked, files, checked.id or os.path.basename(folder), limit)
    from . import restart
    from .executors import powershell

    result, then_restart = powershell.run_plan(checked, folder, limit)
    if not then_restart:
        return result
    restart.leave_result(folder, result)
    return None
