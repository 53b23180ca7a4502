"""What was collected before the first test is not searched for garbage again and again."""

import gc
import itertools
import weakref


class _Made:
    """Something that a test makes."""


def test_the_collector_passes_over_what_was_there_before_the_tests() -> None:
    """Modules and tests are frozen; what a test leaves in a circle is still collected."""
    assert gc.isenabled()
    assert gc.get_freeze_count() > 50_000
    # Whatever is frozen is not among what the collector looks through.
    looked_through = {id(one) for one in gc.get_objects()}
    assert id(itertools.__dict__) not in looked_through
    made = _Made()
    made.itself = made  # type: ignore[attr-defined]
    left = weakref.ref(made)
    del made
    gc.collect()
    assert left() is None
