"""Pictures in steps: their data holds no HTML, their stills are whole, worked values show."""

import html
import json
import xml.etree.ElementTree as xml
from types import SimpleNamespace

import pytest

from repro import markup, pictures, player
from repro.errors import BadParameter, ReproError
from repro.player import Cells, Drawing, Frame, Player

HOSTILE = '</script><img src=x onerror=alert(1)> & "quotes" \x00\x1b \ud800'
ALT = "five words that say something"


def of(*frames: Frame, **options) -> Player:
    return Player("title", ALT, "about", {"track": frames}, **options)


def cells(*texts: str, kinds: str = "", **options) -> Frame:
    return Frame("caption", Cells(texts, kinds or "p" * len(texts), **options))


def test_hostile_text_is_data_and_nothing_else():
    one = cells(HOSTILE, kinds="k", values=(0.5,))
    shapes = (player.words(1, 2, HOSTILE), player.box(0, 0, 1, 1, "plus", HOSTILE))
    two = Frame(HOSTILE, Drawing(10, 10, shapes, HOSTILE))
    made = Player(HOSTILE, ALT, HOSTILE, {HOSTILE: [one, two]}, notes=(HOSTILE,))
    data = player.payload(made)
    assert not set("<>&") & set(data)
    shown = player.html(data)
    assert shown.count("<") == 2 and shown.count("</script>") == 1
    read = json.loads(data)
    assert read["texts"][0][0].startswith("</script><img src=x onerror=alert(1)>")
    assert "\x00" not in read["title"]
    for at in (0, 1):
        picture = player.still(Player("t", ALT, "a", {"a": [one, two]}, still=("a", at)))
        tree = xml.fromstring(picture)
        tags = {node.tag.rpartition("}")[2] for node in tree.iter()}
        assert tags <= {"svg", "style", "rect", "text", "path", "polygon"}
        assert not any(name.startswith("on") for node in tree.iter() for name in node.attrib)
        assert "onerror" in "".join(tree.itertext())


def test_element_takes_only_what_payload_gives():
    with pytest.raises(BadParameter, match="holds <"):
        player.html('{"a": "</script>"}')


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: Cells(("a",), "z"), "kinds='z'"),
        (lambda: Cells(("a",), "pp"), "at most 1"),
        (lambda: Cells(("a",), "p", (1.0, 2.0)), "values has 2"),
        (lambda: Player("t", "too short", "a", {"x": [cells("a")]}), "alt='too short'"),
        (lambda: Player("t", ALT, "a", {}), "tracks is empty"),
        (lambda: Player("t", ALT, "a", {"x": []}), "tracks is empty"),
        (lambda: of(cells("a"), legend={"loud": "x"}), "kind='loud'"),
        (lambda: of(cells("a" * 1_000_001)), "accepted: up to 1000000"),
        (lambda: of(Frame("c", Drawing(1, 1, (player.words(0, 0, "a", "loud"),), ""))), "loud"),
    ],
)
def test_bad_pictures_are_refused(make, said):
    with pytest.raises(BadParameter, match=said.replace("(", r"\(")):
        make()


def test_frames_share_their_texts():
    texts = tuple(f"token {i}" for i in range(500))
    frames = [Frame("c", Cells(texts, "k" * n)) for n in range(1, 101)]
    data = player.payload(of(*frames))
    assert data.count("token 499") == 1 and len(data) < 60_000


def test_still_breaks_long_lines_and_keeps_lines_that_may_not_be_broken():
    wrapped = xml.fromstring(player.still(of(cells("x" * 200, "\n", "end"))))
    whole = xml.fromstring(player.still(of(cells("x" * 200, wrap=False))))
    lines = [node.text for node in wrapped.iter() if node.tag.endswith("text")]
    assert [len(line) for line in lines] == [92, 92, 16, 3]
    assert [len(n.text) for n in whole.iter() if n.tag.endswith("text")] == [200]
    assert float(whole.get("width")) > float(wrapped.get("width"))


def test_still_shows_the_frame_that_is_named_and_else_the_last():
    frames = (cells("first"), cells("last"))
    assert "last" in player.still(of(*frames))
    assert "first" in player.still(of(*frames, still=("track", 0)))


def labels(frame: Frame) -> list[str]:
    return [shape.text for shape in frame.body.shapes if shape.text]


def test_graph_shows_the_values_and_credits_worked_by_hand():
    from repro.pictures import graph

    frames = graph.make().tracks["as defined: every executed step counts"]
    earned = labels(frames[6])
    assert {"V = 0.660", "V = 0.653", "V = 0.651", "V = 1.000", "V = 0.000"} <= set(earned)
    assert {"left ×1: -0.004", "slip ×1: -0.660", "go ×2: +0.330", "down ×2: +0.002"} <= set(earned)
    assert {"left ×1: -1.414", "go ×2: +0.707"} <= set(labels(frames[7]))
    assert "D 0.6600, G" not in frames[6].caption and "D 0.6600" in frames[6].caption
    assert labels(frames[0]).count("V = ?") == 4  # S, L, D, success: one rollout


def test_credit_shows_the_advantages_worked_by_hand():
    from repro.pictures import credit

    made = credit.make()
    frames = made.tracks["sample deviation, exact score, gate"]
    last = labels(frames[-1])
    assert last.count("credit +0.500") == 3 and last.count("credit +0.866") == 2
    assert "gate closed: 0" in last and "credit -0.866" in last
    assert "credit +0.577" in labels(made.tracks["population deviation"][3])
    free = made.tracks["no gate"][-1]
    assert "gate closed: 0" not in labels(free) and "Without a gate rollout 2" in free.caption
    assert not any("credit" in text for text in labels(frames[2]))


def test_pictures_of_the_build_are_kept_and_small():
    for name in ("graph", "credit"):
        made = pictures.load(name)
        assert pictures.path(name).is_file() and len(made["data"]) < player.LIMIT
        assert json.loads(made["data"])["tracks"] and xml.fromstring(made["still"]) is not None
        assert made["fingerprint"] == pictures.fingerprint(name)


def test_episode_is_the_same_game_twice():
    pytest.importorskip("nle")
    one = json.loads(pictures.load("episode")["data"])
    for name, frames in one["tracks"]:
        assert frames[0]["caption"].startswith("The start") and frames[0]["kinds"].count("h") == 1
        used = [int(f["caption"].split(" of 64 ")[0].split()[-1]) for f in frames[1:]]
        assert used == sorted(used) and used[-1] <= 64, name
    place = pictures.path("episode")
    before = place.read_text()
    pictures._make("episode")
    assert place.read_text() == before


def test_committed_picture_of_the_cache_keeps_the_budget():
    made = pictures.load("cache")
    data = json.loads(made["data"])
    for name, frames in data["tracks"]:
        for frame in frames:
            held = frame["kinds"].count("k")
            assert held == min(128, len(frame["kinds"]) - 1), name
            assert frame["kinds"][0] == "f"
            for value, kind in zip(frame.get("values", ()), frame["kinds"], strict=False):
                assert (value is not None) == (kind == "k")
    shares = {n: f[-1]["caption"].rpartition(", ")[2] for n, f in data["tracks"]}
    ceiling = shares["ceiling: what the next action reads most"]
    assert all(int(s.split("%")[0]) <= int(ceiling.split("%")[0]) for s in shares.values())


def test_picture_that_cannot_be_made_says_why(tmp_path, monkeypatch):
    with pytest.raises(BadParameter, match="picture='nothing'"):
        pictures.load("nothing")
    monkeypatch.setattr(pictures, "EVIDENCE", tmp_path)
    with pytest.raises(ReproError, match="python -m repro.pictures.making cache"):
        pictures.load("cache")
    monkeypatch.setattr(pictures, "BUILD", tmp_path)
    failed = SimpleNamespace(returncode=1, stderr="Traceback\nMissingAsset: nle is not installed\n")
    monkeypatch.setattr(pictures.subprocess, "run", lambda *a, **k: failed)
    with pytest.raises(ReproError, match="not made: MissingAsset: nle is not installed"):
        pictures.load("episode")


def test_picture_of_changed_code_says_so(tmp_path, monkeypatch):
    made = {"fingerprint": "old", "about": "About."}
    (tmp_path / "pictures").mkdir()
    (tmp_path / "pictures/cache.json").write_text(json.dumps(made))
    monkeypatch.setattr(pictures, "EVIDENCE", tmp_path)
    assert pictures.load("cache")["about"] == "About. The code has changed since it was made."


def test_folds_of_the_side_bar_get_names():
    title = 'A &amp; "B"'
    fold = f'<a class="x" href="y.html">{title}</a><details><summary><i></i></summary></details>'
    named = markup.named_folds(fold)
    assert f'<summary aria-label="Pages under {html.escape(html.unescape(title))}">' in named
    assert markup.named_folds(named) == named
    assert markup.listed_references('<div role="doc-biblioentry">') == '<div role="listitem">'


def test_cost_is_computed_from_the_stated_sizes():
    from repro import costs, evidence, files
    from repro.paths import EVIDENCE

    stated = files.read_yaml(EVIDENCE / "costs.yml")
    assert list(stated) == list(evidence.papers())
    assert "144,000 episodes" in costs._count(stated["actkv"]["counts"][0])
    text = costs.text("graft")
    assert evidence.papers()["graft"]["cost"] in text and "19,200 rollouts" in text
    assert "No source that we read states them" in text
    made = {held.parents[1].name for held in (EVIDENCE / "records/graft").glob("*/*/seed-*.json")}
    assert f"of {len(made)} notebooks" in text
    with pytest.raises(ReproError, match="'nothing' is unknown"):
        costs.text("nothing")
