"""What the zygote loads before it forks workers."""

import subprocess
import sys

import pytest


def test_a_worker_starts_with_everything_loaded() -> None:
    """The zygote imports what each task uses and compiles the native classes, so workers need not."""
    program = (
        "import sys\n"
        "from vetro.engine.worker.deployment import USED_BY_EVERY_TASK, preload\n"
        "runtime = preload()\n"
        "assert set(USED_BY_EVERY_TASK) <= set(sys.modules)\n"
        "(package,) = runtime.packages\n"
        "ready = {name for name, type_ in package.types.items() if 'assembly' in vars(type_)}\n"
        "print(sorted(set(runtime.classes.class_names(package)) - ready))\n"
    )
    found = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert found.stdout.strip() == "[]"


@pytest.mark.thorough
def test_workers_of_workflows_start_with_theirs_loaded_too() -> None:
    """After the first such task nothing of the room of workflows is imported for each task."""
    program = (
        "import sys\n"
        "from vetro.engine.worker.deployment import preload_workflows\n"
        "preload_workflows()\n"
        "before = {name for name in sys.modules if name.startswith('vetro.')}\n"
        "from vetro.engine.worker.workflow_run import run_workflows\n"
        "after = {name for name in sys.modules if name.startswith('vetro.')}\n"
        "print('vetro.workflows.task' in before, 'vetro.repository.archives' in before)\n"
        "print(sorted(after - before))\n"
    )
    found = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert found.stdout.split("\n")[:2] == ["True True", "[]"]
