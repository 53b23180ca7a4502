"""What `make bench` says of a figure: its promise, the last figure, and a machine of another speed."""

import importlib.util
import json
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


def loaded(name):
    spec = importlib.util.spec_from_file_location(f"bench_{name}", BENCHMARKS / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


limits, run_all = loaded("limits"), loaded("run_all")


@pytest.fixture
def topic(tmp_path, monkeypatch):
    """Makes a topic whose last figures are given."""
    monkeypatch.delenv("VETRO_BENCH_WRITE", raising=False)
    file = tmp_path / "figures.json"

    def make(**last):
        file.write_text(json.dumps({"pages": last, "other": {"kept": 1}}))
        return limits.Topic("pages", file)

    return make


@pytest.mark.parametrize(
    ("figure", "promise", "at_least", "failed"),
    [(10, 10, False, 0), (10.1, 10, False, 1), (10, 10, True, 0), (9.9, 10, True, 1), (1, 0, False, 1)],
)  # fmt: skip
def test_a_promise_is_kept_or_the_topic_fails(topic, capsys, figure, promise, at_least, failed):
    """A figure on the wrong side of its promise fails, and the line names topic, figure and promise."""
    measured = topic()
    measured.take("wait", figure, "ms", promise, at_least=at_least)
    assert measured.end() == failed
    word = "at least" if at_least else "at most"
    line = f"FAILED pages: wait: {figure:g} ms misses its promise, {word} {promise:g}\n"
    assert (line in capsys.readouterr().out) is bool(failed)


@pytest.mark.parametrize(
    ("figure", "at_least", "failed"),
    [(11.9, False, 0), (12.1, False, 1), (5, False, 0), (8.4, True, 0), (8.3, True, 1), (20, True, 0)],
)  # fmt: skip
def test_more_than_a_fifth_worse_than_the_last_fails(topic, capsys, figure, at_least, failed):
    """Within its promise, a figure fails when it is more than a fifth worse than the last one."""
    measured = topic(wait=10)
    measured.take("wait", figure, "ms", at_least=at_least)
    assert measured.end() == failed
    line = f"FAILED pages: wait: {figure:g} ms more than a fifth worse than the last, 10\n"
    assert (line in capsys.readouterr().out) is bool(failed)


def test_what_is_not_compared_may_grow_within_its_promise(topic):
    """A figure that varies by itself is judged by its promise alone."""
    measured = topic(tail=1)
    measured.take("tail", 9, "ms", 10, compared=False)
    assert measured.end() == 0


def test_the_median_of_the_repetitions_counts(topic):
    """Two slow repetitions of five do not make a figure slow."""
    assert topic().take("wait", [1, 50, 2, 3, 40], "ms", 3) == 3


def test_a_figure_and_a_topic_without_a_last_one_are_new(topic, tmp_path, capsys):
    """What was never measured is new and does not fail, also where there is no file."""
    for measured in (topic(), limits.Topic("unknown", tmp_path / "nowhere.json")):
        measured.take("wait", 10, "ms")
        assert measured.end() == 0
        assert " new" in capsys.readouterr().out


def test_a_last_figure_that_is_not_measured_any_more_is_named(topic, capsys):
    """A figure that has gone is said, since nothing is compared with it."""
    assert topic(wait=10).end() == 0
    assert "wait: not measured in this run" in capsys.readouterr().out


def test_figures_are_kept_only_when_asked_to(topic, monkeypatch):
    """Writing replaces the figures of the topic, and leaves those of other topics."""
    measured = topic(wait=10, gone=3)
    before = measured.file.read_text()
    measured.take("wait", [1.23456, 1.23456, 9], "ms")
    measured.end()
    assert measured.file.read_text() == before
    monkeypatch.setenv("VETRO_BENCH_WRITE", "1")
    measured.end()
    assert json.loads(measured.file.read_text()) == {"pages": {"wait": 1.235}, "other": {"kept": 1}}


def test_figures_of_wrong_results_are_never_kept(topic, monkeypatch, capsys):
    """A topic with wrong results fails whatever its figures are, and they do not become the last ones."""
    monkeypatch.setenv("VETRO_BENCH_WRITE", "1")
    measured = topic(wait=10)
    before = measured.file.read_text()
    measured.take("wait", 1, "ms", 10)
    measured.wrong("another result than the twin's")
    assert measured.end() == 1
    assert measured.file.read_text() == before
    assert "FAILED pages: another result than the twin's" in capsys.readouterr().out


def test_a_machine_of_half_the_speed_gives_the_same_figure(monkeypatch):
    """Where the loop takes twice as long, a second counts for half a second."""
    loops = iter([1, 2, 0.5])
    monkeypatch.setattr(limits, "loop_seconds", lambda: limits.REFERENCE_SECONDS * next(loops))
    assert list(limits.repetitions(3)) == [1, 0.5, 2]


def test_memory_of_the_libraries_is_that_of_a_process_that_can_import_them():
    """The process to which memory is compared imports what the project depends on."""
    assert limits.libraries_mib() > 30


def test_the_whole_run_names_what_failed_in_its_topics(tmp_path, monkeypatch, capsys):
    """The last lines repeat what failed, a topic that broke down without a word included."""
    for name, text in (
        ("fine", "print('a row')"),
        ("slow", "print('FAILED slow: wait: 9 ms'); raise SystemExit(1)"),
        ("broken", "raise SystemExit(3)"),
    ):
        (tmp_path / f"{name}.py").write_text(text)
    monkeypatch.setattr(run_all, "HERE", tmp_path)
    monkeypatch.setattr(run_all, "TOPICS", dict.fromkeys(("fine", "slow", "broken"), "a subject"))
    assert run_all.main(["fine"], write=False) == 0
    assert run_all.main([], write=False) == 1
    *_, first, second = capsys.readouterr().out.splitlines()
    assert (first, second) == ("FAILED slow: wait: 9 ms", "FAILED broken: ended with 3")


def test_a_topic_that_is_not_there_is_named(capsys):
    """A wrong topic is answered with the right ones, and nothing is measured."""
    assert run_all.main(["page"], write=False) == 2
    assert "There is no topic page; topics: language" in capsys.readouterr().out


def test_every_topic_has_its_script():
    """What the whole run names exists, and every figure in the tree is one of its topics."""
    assert all((BENCHMARKS / f"{name}.py").is_file() for name in run_all.TOPICS)
    figures = BENCHMARKS / "figures.json"
    assert set(json.loads(figures.read_text())) <= set(run_all.TOPICS)
