"""What the zygote loads before it forks workers."""

import subprocess
import sys


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
