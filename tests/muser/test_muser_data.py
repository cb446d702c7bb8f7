"""MuSeR's logs: the global split, ranks, adapters for public files, gaps with a name."""

import gzip
import importlib.util
import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from repro.errors import BadParameter, MissingAsset
from repro.muser import controls, data, data_files

GOLDEN = json.loads(
    (Path(__file__).parents[1] / "golden" / "muser_comparison.json").read_text("utf-8")
)


def _movielens() -> Path:
    spec = importlib.util.find_spec("recbole")
    if spec is None or spec.origin is None and not spec.submodule_search_locations:
        pytest.skip(data_files.SOURCES["movielens-100k"].command)
    return Path(next(iter(spec.submodule_search_locations))) / "dataset_example" / "ml-100k"


def test_movielens_is_an_order_of_forms():
    """The notes' table: counts, and a span of minutes, which no claim about time survives."""
    golden = GOLDEN["movielens"]
    every = data_files.movielens(_movielens(), least_rating=0.0)
    times = [every.time[every.user == user] for user in np.unique(every.user)]
    assert (len(every.user), len(times)) == (golden["ratings"], golden["users"])
    assert len(every.texts) == golden["titles"]
    span = np.median([np.ptp(t) / 60 for t in times])
    assert int(span) == golden["median_span_min"] and str(int(span)) in every.caveat
    assert np.median([len(set(t)) for t in times]) == golden["median_distinct_times"]
    liked, golden = data_files.movielens(_movielens()), golden["liked"]
    sizes = np.unique(liked.user, return_counts=True)[1]
    assert (len(liked.user), len(sizes), sizes.max()) == (
        golden["ratings"], golden["users"], golden["maximum"],
    )  # fmt: skip
    assert round(np.median(sizes)) == golden["median"]
    assert {n: int((sizes > int(n)).sum()) for n in golden["above"]} == golden["above"]


def test_movielens_runs_through_split_and_controls():
    log = data_files.movielens(_movielens())
    rows = data.at(log, data.cuts(log)[-1])
    assert max(t.max() for t in rows.times) < rows.cut
    knn = data.ranks(controls.item_knn(rows), rows)
    assert len(knn) == len(rows) > 50 and all(np.isfinite(r).all() for r in knn)


def test_the_origins_counts_are_the_notes():
    golden = dict(GOLDEN["origin"], widths=tuple(GOLDEN["origin"]["widths"]))
    assert data_files.ORIGIN == golden


@settings(max_examples=60, deadline=None)
@given(
    st.lists(
        st.tuples(st.integers(0, 3), st.integers(0, 5), st.integers(0, 9)), min_size=2, max_size=40
    ),
    st.integers(1, 9),
)
def test_no_split_lets_the_future_in(actions, cut):
    log = data.log("drawn", *zip(*actions, strict=True), ["text"] * 6)
    try:
        rows = data.at(log, cut)
    except BadParameter:
        return  # nobody is on both sides
    for user, old, new, known, later in zip(
        rows.users, rows.history, rows.future, rows.times, rows.later, strict=True
    ):
        mine = [(i, t) for u, i, t in actions if u == user]
        assert sorted(zip(old, known, strict=True)) == sorted(a for a in mine if a[1] < cut)
        assert set(new) == {i for i, t in mine if t >= cut} - set(old) and len(set(new)) == len(new)
        assert known.max() < cut <= later.min()
    before = [i for _, i, t in actions if t < cut]
    assert rows.counts.tolist() == np.bincount(before, minlength=6).tolist()


def test_cuts_are_one_time_for_everybody():
    log = data.log("drawn", [0] * 10, range(10), range(10), ["t"] * 10)
    assert data.cuts(log, (0.5, 0.9)) == (5.0, 9.0)


def test_a_user_with_few_wanted_items_has_them_in_turn():
    log = data.log("drawn", [0, 0, 0], [0, 1, 2], [0.0, 5.0, 6.0], ["t"] * 3)
    assert data.at(log, 3.0).wanted(5).tolist() == [[1, 2, 1, 2, 1]]


def test_recall_of_no_item_is_no_number():
    marks = [np.array([True, False]), np.array([False, False])]
    found = data.recall([np.array([0.0, 9.0])] * 2, 5, marks)
    assert found[0] == 1.0 and np.isnan(found[1])


# Adapters, on files written here ---------------------------------------------------------------


def _write(folder: Path, name: str, *lines: str) -> None:
    (folder / name).write_text("\n".join(lines) + "\n", encoding="utf-8")


def test_kuairand_takes_clicks_and_long_views_with_a_caption(tmp_path):
    head = "user_id,video_id,time_ms,is_click,long_view"
    _write(tmp_path, "log_standard_4_08_to_4_21_1k.csv", head, "7,1,2000,1,0", "7,2,1000,0,0")
    _write(tmp_path, "log_standard_4_22_to_5_08_1k.csv", head, "8,3,9000,0,1", "8,4,9500,1,1")
    _write(tmp_path, "video_features_basic_1k.csv", "video_id,final_video_id",
           "1,91", "2,92", "3,93", "4,94")  # fmt: skip
    _write(tmp_path, "kuairand_video_captions.csv", "final_video_id,caption",
           '91,"红烧肉, 家常"', "93,小猫", "94,")  # fmt: skip
    log = data_files.kuairand(tmp_path)
    assert log.texts == ("红烧肉, 家常", "小猫")  # 2 was skipped, 4 has no caption
    assert (log.user.tolist(), log.item.tolist(), log.time.tolist()) == ([7, 8], [0, 1], [2, 9])


def test_amazon_joins_reviews_and_items(tmp_path):
    _write(tmp_path, "Video_Games.csv", "user_id,parent_asin,rating,timestamp",
           "AX,B1,5.0,1658002729837", "AY,B2,3.0,1452647382000", "AY,B3,3.0,1")  # fmt: skip
    rows = [
        {"parent_asin": "B1", "title": "Chess", "features": ["wooden"], "description": []},
        {"parent_asin": "B2", "title": "Go", "features": [], "description": ["a board", "stones"]},
        {"parent_asin": "B3", "title": None, "features": [], "description": []},
    ]
    with gzip.open(tmp_path / "meta_Video_Games.jsonl.gz", "wt", encoding="utf-8") as file:
        file.write("\n".join(json.dumps(row) for row in rows))
    log = data_files.amazon(tmp_path, "Video_Games")
    assert log.texts == ("Chess wooden", "Go a board stones")
    assert log.item.tolist() == [1, 0] and log.time[-1] == data_files.AMAZON_CUTS[1]
    with pytest.raises(MissingAsset, match="meta_Musical_Instruments"):
        data_files.amazon(tmp_path)


def test_each_gap_names_files_and_command(tmp_path):
    for name, source in data_files.SOURCES.items():
        with pytest.raises(MissingAsset) as caught:
            data_files.folder(name, tmp_path)
        assert source.command in str(caught.value)
        assert all(file in str(caught.value) for file in source.files)
        assert callable(getattr(data_files, source.adapter.partition(".")[2]))


LOG = data.log("hand", [0, 0, 1], [0, 1, 1], [1.0, 3.0, 2.0], ("a", "b"))
ROWS = data.at(LOG, 2.0)


@pytest.mark.parametrize(
    "call, says",
    [
        (lambda: data.log("x", [0], [0, 1], [1.0, 2.0], ["a", "b"]), "(1, 2, 2) entries"),
        (lambda: data.log("x", [], [], [], ["a"]), "(0, 0, 0) entries"),
        (lambda: data.log("x", [0], [2], [1.0], ["a"]), "item 2 or 2 is unknown"),
        (lambda: data.log("x", [0], [-1], [1.0], ["a"]), "item -1"),
        (lambda: data.log("x", [-1], [0], [1.0], ["a"]), "user -1 is unknown"),
        (lambda: data.log("x", [0], [0], [np.nan], ["a"]), "not finite"),
        (lambda: data.at(LOG, 3.0, 3.0), "cut=3.0, until=3.0"),
        (lambda: data.at(LOG, 9.0), "leave no user"),
        (lambda: data.at(LOG, 2.0, k=0), "k=0"),
        (lambda: data.cuts(LOG, (0.9, 0.5)), "shares=(0.9, 0.5)"),
        (lambda: data.cuts(LOG, (0.5, 1.0)), "shares=(0.5, 1.0)"),
        (lambda: data.ranks(np.ones((1, 3)), ROWS), "scores has shape (1, 3)"),
        (lambda: data.ranks(np.full((1, 2), np.nan), ROWS), "finite"),
        (lambda: data_files.folder("netflix", None), "name='netflix'"),
        (lambda: data_files.amazon(".", "Books"), "category='Books'"),
    ],
)
def test_bad_input_names_itself(call, says):
    with pytest.raises(BadParameter) as caught:
        call()
    assert says in str(caught.value)
