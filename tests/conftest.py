"""What every test shares."""

import os
import sys

import pytest
import structlog
from hypothesis import settings

# CI must not be a lottery: there the generated examples are always the same. `make soak` and a
# developer's own runs look for new ones.
settings.register_profile("ci", derandomize=True, deadline=None)
# No example has a deadline anywhere: a busy machine is no reason to fail.
settings.register_profile("developer", deadline=None)
settings.load_profile("ci" if os.environ.get("CI") == "true" else "developer")

# As services log: an exception as plain text. The renderer's own way takes seconds for a deep one.
structlog.configure(
    processors=[
        structlog.contextvars.merge_contextvars,
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="%H:%M:%S", utc=True),
        structlog.dev.ConsoleRenderer(
            colors=False, exception_formatter=structlog.dev.plain_traceback
        ),
    ]
)


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Name a failed test at once: a long run need not end to be mended."""
    if report.failed and "PYTEST_XDIST_WORKER" not in os.environ:
        sys.stdout.write(f"\nFAILED {report.when}: {report.nodeid}\n")
        sys.stdout.flush()
