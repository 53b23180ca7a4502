"""How many generated examples the tests look at: a profile for each tier, times `VETRO_TEST_EFFORT`.

The tier `full` looks at the usual number, the tier `quick` at a fifth of it: a generated test that takes 5 s
in full takes 1 s in quick. CI must not be a lottery, and looks always at the same examples; `make soak` sets
20, and the examples are others each time (decision 0785).
"""

import os

from hypothesis import settings

EFFORT = float(os.environ.get("VETRO_TEST_EFFORT", "1")) * (
    0.2 if os.environ.get("VETRO_TEST_TIER") == "quick" else 1
)
#: Where each thing of a long list gets few examples, one in so many things gets them.
ONE_IN = max(1, round(1 / EFFORT))


def examples(usual: int) -> int:
    """How many examples to look at, where ``usual`` are enough for the tier `full`; at least one."""
    return max(1, round(usual * EFFORT))


def load_profile() -> None:
    """Let Hypothesis follow: also where a test names no number, and with what to paste when one fails."""
    settings.register_profile(
        "vetro",
        max_examples=examples(100),
        derandomize=os.environ.get("CI") == "true",
        # A busy machine is no reason to fail.
        deadline=None,
        print_blob=True,
    )
    settings.load_profile("vetro")
