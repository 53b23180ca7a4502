"""How many generated examples the tests look at: `VETRO_TEST_EFFORT` times the usual number.

A run of CI must end soon and looks at the usual number, always the same examples; `make soak` sets 20, and
the examples are others each time.
"""

import os

EFFORT = float(os.environ.get("VETRO_TEST_EFFORT", "1"))


def examples(usual: int) -> int:
    """How many examples to look at, where ``usual`` are enough for a run of CI; at least one."""
    return max(1, round(usual * EFFORT))
