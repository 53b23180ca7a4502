"""`make bench` fails when a published limit is missed by more than a quarter."""

import importlib.util
from pathlib import Path

import pytest

SPEC = importlib.util.spec_from_file_location(
    "bench_limits", Path(__file__).parents[2] / "benchmarks/limits.py"
)
assert SPEC is not None
assert SPEC.loader is not None
limits = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(limits)


@pytest.mark.parametrize(
    ("figure", "marked", "failed"),
    [(9.0, False, False), (10.0, False, False), (12.4, True, False), (12.6, True, True)],
)
def test_a_figure_that_may_not_be_larger(figure, marked, failed, capsys):
    """A figure beyond its limit is marked; one that misses it by over a quarter fails the run."""
    published = limits.Published()
    assert bool(published.most("wait, ms", figure, 10)) is marked
    assert published.exit_code() == int(failed)
    assert ("wait, ms" in capsys.readouterr().out) is failed


@pytest.mark.parametrize(
    ("figure", "marked", "failed"),
    [(11.0, False, False), (8.1, True, False), (7.9, True, True), (0.0, True, True)],
)
def test_a_figure_that_may_not_be_smaller(figure, marked, failed):
    """A rate below its limit is marked; one that misses it by over a quarter fails the run."""
    published = limits.Published()
    assert bool(published.least("requests a second", figure, 10)) is marked
    assert published.exit_code() == int(failed)


def test_wrong_results_fail_whatever_the_figures_are():
    """A topic whose results differ from its twin's fails although every figure is within its limit."""
    assert limits.Published().exit_code(wrong=True) == 1
