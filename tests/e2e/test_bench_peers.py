"""bench/peers: figures and ratios of a run."""

import types

import pytest

from conftest import ROOT, modules_of


@pytest.fixture
def report():
    with modules_of(ROOT / "bench/peers", ROOT / "bench"):
        import report

        yield report


def contender(peer, dtype="f32", **seconds):
    return types.SimpleNamespace(peer=peer, dtype=dtype, label=peer, values=seconds, agreement={})


def run_of(*contenders):
    return types.SimpleNamespace(name="shape", counts={"a": 2, "b": 12, "c": 1, "d": 1}, contenders=contenders)


def test_ratios_are_of_figures_of_one_round(report):
    # The machine is three times as fast in the second round; Penstock is 1.2 times as fast as one, in all rounds.
    run = run_of(
        contender("penstock", b=[10, 10 / 3, 10]), contender("one", b=[12, 4, 12]), contender("two", b=[20, 5, 20])
    )
    ratio, best = report.ratios(run)["b", "f32"]
    assert ratio == pytest.approx(1.2) and best.peer == "one"
    assert report.figure(run, run.contenders[0], "b") == pytest.approx(1.2)  # the median round's


def test_a_query_is_a_time_and_the_best_peer_the_one_that_loses_least(report):
    # Two calls a round.
    run = run_of(
        contender("penstock", a=[0.001, 0.001, 0.003, 0.003]),
        contender("one", a=[0.002, 0.002, 0.006, 0.006]),
        contender("two", a=[0.004, 0.004, 0.012, 0.012]),
    )
    ratio, best = report.ratios(run)["a", "f32"]
    assert ratio == pytest.approx(0.5) and best.peer == "one"
    assert report.figure(run, run.contenders[0], "a") == pytest.approx(2)


def test_int8_is_measured_against_int8_and_a_peer_without_figures_is_left_out(report):
    run = run_of(
        contender("penstock", "int8", b=[1.0]),
        contender("one", "f32", b=[0.1]),
        contender("two", "int8", b=[2.0]),
        contender("three", "int8"),
    )
    assert report.ratios(run) == {("b", "int8"): (pytest.approx(2), run.contenders[2])}
