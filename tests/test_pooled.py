"""Records taken together, and what the pages draw from them."""

import numpy as np
import pytest

from repro import figures, intervals, pooled, render


def record(seed, ids, **arms):
    return {
        "parameters": {"seed": seed},
        "comparisons": [
            {"metric": "agreement, budget 5 %", "unit": "fraction", "item": "trace", "ids": ids,
             "arms": arms},
        ],
        "metrics": [
            {"name": f"{kind}_{arm}_{p}", "value": p / 100 + shift}
            for arm, shift in (("actkv", 0.0), ("snapkv_round", 0.25))
            for p in (10, 50)
            for kind in ("peak", "agreement", "peak_bytes")
        ],
    }  # fmt: skip


def test_an_item_drawn_twice_counts_once():
    one = record(1, ["a", "b"], actkv=[1.0, 2.0], random=[0.0, 0.0])
    two = record(2, ["b", "c"], actkv=[4.0, 5.0], random=[2.0, 0.0], extra=[0.0, 0.0])
    (found,) = pooled.comparisons([one, two])
    assert found.ids == ("a", "b", "c") and list(found.arms) == ["actkv", "random"]
    assert found.arms["actkv"].tolist() == [1, 3, 5]
    assert found.differences("actkv", "random").tolist() == [1, 2, 5]


def test_interval_of_paired_differences():
    assert intervals.of_mean(np.arange(4.0)) is None
    assert intervals.of_mean(np.full(6, 0.25)) == (0.25, 0.25)
    low, high = intervals.of_mean(np.arange(10.0))
    assert 2.5 < low < 3.5 and 5.5 < high < 6.5  # 4.5 -+ 1.96 x 2.87 / sqrt(10)


@pytest.mark.parametrize("bad", [np.zeros((5, 2)), np.array([1, 2, 3, 4, np.nan])])
def test_an_interval_of_what_is_no_list_of_numbers_is_refused(bad):
    with pytest.raises(ValueError, match="differences has shape"):
        intervals.of_mean(bad)


@pytest.fixture
def on_file(monkeypatch):
    ids = [f"t{i}" for i in range(6)]
    held = [
        render.Status("a/b", "cpu", s, "fresh", record=record(
            s, ids, actkv=[0.9] * 6, random=[0.5, 0.6] * 3
        ))
        for s in (1, 2)
    ]  # fmt: skip
    monkeypatch.setattr(render.evidence, "of_profile", lambda key, profile: held)


def test_table_of_a_comparison(on_file):
    text = render.comparison("a/b", "cpu", "actkv", "agreement")
    assert "| arm | budget 5 % |" in text and "| actkv | **0.900** |" in text
    assert "| random | 0.550 (+0.350: +0.317 to +0.383) |" in text
    assert "6 different traces" in text and "fresh" in text
    assert render.comparison("a/b", "cpu", "actkv", "speed").startswith("*Gap")


def test_the_longer_side_of_a_comparison_goes_down(monkeypatch):
    one = record(1, ["t1", "t2"], actkv=[0.9, 0.7], random=[0.5, 0.6])
    (first,) = one["comparisons"]
    one["comparisons"] = [first | {"metric": f"agreement, budget {p} %"} for p in (5, 10, 20)]
    held = [render.Status("a/b", "cpu", 1, "fresh", record=one)]
    monkeypatch.setattr(render.evidence, "of_profile", lambda key, profile: held)
    text = render.comparison("a/b", "cpu", "actkv", "agreement")
    assert "| setting | actkv | random |" in text and "| budget 20 % | **0.800** |" in text


def test_tradeoff_draws_a_line_an_arm(tmp_path):
    records = [record(s, ["a"], actkv=[1.0]) for s in (1, 2)]
    fig, alt = figures.tradeoff(records, "peak_", "agreement_", ("Peak", "Agreement"), "actkv")
    lines = {line.get_label(): line.get_xydata().tolist() for line in fig.axes[0].lines}
    assert lines == {
        "actkv": [[0.1, 0.1], [0.5, 0.5]],
        "snapkv round": [[0.35, 0.35], [0.75, 0.75]],
    }
    assert "actkv from 10.0% at 10% to 50.0% at 50%" in alt
    figures.save(fig, tmp_path / "figures" / "one.svg")
    first = (tmp_path / "figures" / "one.svg").read_text()
    again, _ = figures.tradeoff(records, "peak_", "agreement_", ("Peak", "Agreement"), "actkv")
    figures.save(again, tmp_path / "two.svg")
    assert first == (tmp_path / "two.svg").read_text() and first.startswith("<?xml")
