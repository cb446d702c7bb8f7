import json
import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from repro.errors import BadParameter
from repro.paths import ROOT
from repro.toolsearcher import answer, credit
from repro.toolsearcher.answer import Answer, read_answer
from repro.toolsearcher.credit import Trajectory

GOLDEN = json.loads((ROOT / "tests/golden/toolsearcher.json").read_text())
WORKED = GOLDEN["worked"]
TARGETS = WORKED["targets"]
NAMES = st.sampled_from("ABCxyz")
EVENTS = st.lists(st.frozensets(NAMES, max_size=4), max_size=5)
GROUPS = st.lists(st.tuples(EVENTS, st.frozensets(NAMES, max_size=3)), min_size=2, max_size=6)


def worked():
    return [
        Trajectory("q", tuple(map(set, t["events"])), Answer(frozenset(t["answer"]), 1))
        for t in WORKED["trajectories"]
    ]


def group_of(drawn):
    return [Trajectory("q", tuple(events), Answer(names, 1)) for events, names in drawn]


def near(expected):
    return pytest.approx(expected, abs=6e-5)  # the notes give four digits


# The formulas again as plain loops over sets, as an oracle.
def oracle(group, targets, ddof):
    found = [[any(t in e for e in one.retrieved) for t in targets] for one in group]
    z = {}
    for k in range(len(targets)):
        column = [float(row[k]) for row in found]
        mean = sum(column) / len(column)
        deviation = (sum((y - mean) ** 2 for y in column) / (len(column) - ddof)) ** 0.5
        for i, y in enumerate(column):
            z[i, k] = (y - mean) / (deviation + 1e-6)
    result = []
    for i, one in enumerate(group):
        seen, values = set(), []
        for event in one.retrieved:
            new = [z[i, k] for k, t in enumerate(targets) if t in event and t not in seen]
            seen |= set(event)
            values.append(max(new, default=0.0))
        result.append(values)
    return result


@settings(max_examples=50)
@given(GROUPS, st.sampled_from([("sample", 1), ("population", 0)]))
def test_search_credit_is_the_oracle_and_never_negative(drawn, convention):
    std, ddof = convention
    group = group_of(drawn)
    expected = oracle(group, "ABC", ddof)
    found_here = credit.group_credit(group, ("A", "B", "C"), std)
    for found, values in zip(found_here, expected, strict=True):
        assert found.search == pytest.approx(values, abs=1e-9)
        assert (found.search >= 0).all()


@settings(max_examples=50)
@given(GROUPS)
def test_a_closed_gate_is_exactly_zero_and_an_open_one_is_not_touched(drawn):
    group = group_of(drawn)
    gated = credit.group_credit(group, ("A", "B"))
    free = credit.group_credit(group, ("A", "B"), gate="none")
    for one, other in zip(gated, free, strict=True):
        assert one.selection == (other.selection if one.complete else 0.0)
        assert one.search.tolist() == other.search.tolist()


def test_golden_first_discoveries_and_mastered_targets():
    found = []
    for one, wanted in zip(worked(), WORKED["first"], strict=True):
        first = credit.first_found(credit.hits(one.retrieved, TARGETS))
        assert [[t for t, f in zip(TARGETS, row, strict=True) if f] for row in first] == wanted
        found.append(first.any(0))
    assert np.array(TARGETS)[credit.mastered(np.array(found))].tolist() == WORKED["mastered"]
    assert credit.complete(np.array(found)).tolist() == WORKED["complete"]


@pytest.mark.parametrize("std", ["sample", "population"])
def test_golden_search_advantages(std):
    found = [c.search.tolist() for c in credit.group_credit(worked(), TARGETS, std)]
    for one, wanted in zip(found, WORKED["search"][std], strict=True):
        assert one == near(wanted)


@pytest.mark.parametrize("score", ["exact", "f1"])
def test_golden_rewards(score):
    found = [c.reward for c in credit.group_credit(worked(), TARGETS, score=score)]
    assert found == near(WORKED["reward"][score])


@pytest.mark.parametrize("case", WORKED["selection"], ids=lambda c: f"{c['score']}-{c['std']}")
def test_golden_selection_advantages(case):
    options = {"score": case["score"], "std": case["std"]}
    found = [c.selection for c in credit.group_credit(worked(), TARGETS, **options)]
    assert found == near(case["values"])


def test_golden_value_before_the_gate():
    golden = WORKED["before_gate"]
    found = credit.group_credit(worked(), TARGETS, golden["std"], golden["score"], gate="none")
    assert found[golden["trajectory"] - 1].selection == near(golden["value"])


@pytest.mark.parametrize("std", ["sample", "population"])
def test_golden_finders_and_their_closed_form(std):
    size = GOLDEN["finders"]["group"]
    for m, wanted in zip(GOLDEN["finders"]["m"], GOLDEN["finders"][std], strict=True):
        score = credit.standardised(np.arange(size) < m, std, epsilon=0.0)
        assert score[0] == near(wanted)
        closed = (size - m) / m * ((size - 1) / size if std == "sample" else 1)
        assert score[0] == pytest.approx(closed**0.5)
        assert credit.standardised(np.arange(size) < m, std)[0] == near(wanted)  # with epsilon


def test_the_gated_advantages_need_not_sum_to_zero():
    assert sum(c.selection for c in credit.group_credit(worked(), TARGETS)) == near(0.8660)


def test_no_bonus_is_a_switch():
    found = [c.reward for c in credit.group_credit(worked(), TARGETS, bonus=0.0)]
    assert found == [1, 0, 0, 1]


# The peers' reports of the notes' section 7.2 and 7.3 that apply to credit, one test each.


def test_trl_4976_one_mark_of_a_cut_drives_credit_as_well():
    whole = worked()
    cut = [whole[0], whole[1], whole[2], whole[3].without((1, 2, 3))]
    assert cut[3].retrieved == ({"B"},) and cut[3].answer is None
    found = credit.group_credit(cut, TARGETS)
    assert found[3].turns.tolist() == found[3].search.tolist() and not found[3].complete
    assert found[3].reward == 0 and whole[0].without(()) is whole[0]


def test_grpo_flat_2_groups_go_by_query_and_not_by_place_in_the_batch():
    other = [Trajectory("p", ({"C"},), read_answer("")), Trajectory("p", (), None)]
    batch, targets = worked() + other, {"q": TARGETS, "p": ["C"]}
    straight = credit.batch_credit(batch, targets)
    for order in np.random.default_rng(0).permuted(np.tile(np.arange(6), (10, 1)), axis=1):
        mixed = credit.batch_credit([batch[i] for i in order], targets)
        for at, i in enumerate(order):
            assert mixed[at].turns.tolist() == pytest.approx(straight[i].turns.tolist())


def test_notes_73a_a_group_of_one_is_refused_and_not_nan():
    for std in credit.STD:
        with pytest.raises(BadParameter, match="a group of 1 trajectories is refused"):
            credit.group_credit(worked()[:1], TARGETS, std)
    with pytest.raises(BadParameter, match="a group of 0"):
        credit.group_credit([], TARGETS)


def test_notes_73b_an_answer_tag_in_a_returned_document_is_not_the_answer():
    returned = "1. x: call it with <tool_list>A,B</tool_list>"
    final = "I give up."
    assert read_answer(final) == Answer(frozenset(), 0)
    assert credit.selection_reward(read_answer(final), TARGETS) == 0
    assert credit.selection_reward(read_answer(returned + final), TARGETS) > 0  # what went wrong


def test_notes_73h_other_algorithms_are_named_options():
    reward, is_open = np.array([1.1, 0.1, 0.1, 1.1]), np.array([True, False, True, True])
    by_name = {
        "paper": credit.selection_advantage(reward, is_open),
        "no gate": credit.selection_advantage(reward, is_open, gate="none"),
        "open": credit.selection_advantage(reward, is_open, statistics="open"),
    }
    assert by_name["no gate"][1] < 0 == by_name["paper"][1] == by_name["open"][1]
    assert by_name["open"].sum() == pytest.approx(0) != pytest.approx(by_name["paper"].sum())
    few = credit.selection_advantage(reward, [True, False, False, False], statistics="open")
    assert few.tolist() == [0, 0, 0, 0]


# Bad input: what is refused, and what is documented behaviour.


def test_all_identical_rewards_pay_nothing_and_are_no_error():
    group = [Trajectory("q", ({"A", "B"},), Answer(frozenset("AB"), 1)) for _ in range(5)]
    for score in credit.SCORES:
        for found in credit.group_credit(group, TARGETS, score=score):
            assert found.turns.tolist() == [0, 0] and found.complete and found.reward == 1.1


def test_a_call_on_the_last_turn_is_an_event_without_results_and_no_selection():
    group = worked()
    group[0] = Trajectory("q", (*group[0].retrieved, set()), None)
    found = credit.group_credit(group, TARGETS)[0]
    assert found.search == near([0, 0.5, 0]) and found.selection is None
    assert len(found.turns) == 3 and found.reward == 0 and found.complete


def test_no_answer_block_scores_zero_and_keeps_its_selection_turn():
    group = worked()
    group[0] = Trajectory("q", group[0].retrieved, read_answer("A and B will do."))
    found = credit.group_credit(group, TARGETS)[0]
    assert found.reward == 0 and found.selection < 0 and len(found.turns) == 3


def test_unknown_tool_names_count_against_the_answer_and_never_for_it():
    made_up = read_answer("<tool_list>A, B, no.such.tool</tool_list>")
    assert credit.selection_reward(made_up, TARGETS) == near(0.1)
    assert credit.selection_reward(made_up, TARGETS, "f1") == near(0.9)
    assert credit.hits([{"no.such.tool"}], TARGETS).sum() == 0


def test_a_trajectory_without_searches_has_no_events_and_a_closed_gate():
    group = [*worked(), Trajectory("q", (), Answer(frozenset("AB"), 1))]
    found = credit.group_credit(group, TARGETS)[-1]
    assert found.search.shape == (0,) and found.turns.tolist() == [0.0]


@pytest.mark.parametrize(
    ("text", "names", "blocks"),
    [
        ("<tool_list>a.b.c, d.e.f</tool_list>", {"a.b.c", "d.e.f"}, 1),
        ("<tool_list>B , A,\nA, </tool_list>", {"A", "B"}, 1),
        ("<tool_list></tool_list>", set(), 1),
        ("<tool_list>A</tool_list> or <tool_list>B</tool_list>", {"B"}, 2),
        ("<tool_list>A", set(), 0),
        ("<tool_list>A <tool_list>B</tool_list>", {"B"}, 1),
        ("", set(), 0),
    ],
)
def test_answers_are_read_as_documented(text, names, blocks):
    assert read_answer(text) == Answer(frozenset(names), blocks)


ONE = np.ones(2, dtype=bool)
BAD = [
    (lambda: credit.hits([{"A"}], []), "targets=[]", "one or more"),
    (lambda: credit.hits([{"A"}], ["A", "A"]), "targets=['A', 'A']", "each once"),
    (lambda: credit.hits([{"A"}], "AB"), "targets='AB'", "names"),
    (lambda: credit.hits([{"A"}, "AB"], ["A"]), "retrieved[1]='AB'", "a set"),
    (lambda: credit.hits([None], ["A"]), "retrieved[0]=None", "a set"),
    (lambda: credit.standardised(ONE, "other"), "std='other'", "sample"),
    (lambda: credit.standardised(ONE, epsilon=-1.0), "epsilon=-1.0", ">= 0"),
    (lambda: credit.standardised(ONE[:1]), "a group of 1", "2 or more"),
    (lambda: credit.standardised([1.0, np.nan]), "NaN", "finite"),
    (lambda: credit.selection_reward(None, ["A"], "other"), "score='other'", "exact"),
    (lambda: credit.selection_advantage(ONE, ONE, gate="soft"), "gate='soft'", "hard"),
    (lambda: credit.selection_advantage(ONE, ONE, statistics="x"), "statistics='x'", "all"),
    (
        lambda: credit.selection_advantage(ONE, ONE, gate="none", statistics="open"),
        "statistics='open'",
        "'all'",
    ),
    (lambda: credit.batch_credit(worked(), {"p": ["A"]}), "query='q'", "['p']"),
    (lambda: answer.read_answer(None), "turn=None", "text"),
]


@pytest.mark.parametrize(("call", "names", "accepts"), BAD)
def test_bad_input_names_the_argument_and_what_is_accepted(call, names, accepts):
    with pytest.raises(BadParameter, match=re.escape(names)) as caught:
        call()
    assert accepts in str(caught.value)
