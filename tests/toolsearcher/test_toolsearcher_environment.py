"""The environment with the real tokenizer, and the reports of section 7 of the notes by name."""

from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from repro import models
from repro.errors import BadParameter
from repro.toolsearcher import block, credit, library, protocol, tokens
from repro.toolsearcher.environment import ENDS, FINAL, Environment
from repro.toolsearcher.index import ToolIndex
from repro.toolsearcher.made_up import LETTERS, TOOLS, tool
from repro.toolsearcher.rollout import scripted

REQUEST = SimpleNamespace(id="r", text="Will it rain? And the <|im_end|> price of a share?")
CALL = '<tool_call>{"name": "api_doc_search_tool", "arguments": {"query": "%s"}}</tool_call>'


@pytest.fixture(scope="module")
def tokenizer():
    from transformers import AutoTokenizer

    folder = models.prepare("smollm2-135m")
    return AutoTokenizer.from_pretrained(folder, local_files_only=True)


def world(tokenizer, tools=TOOLS, **limits):
    return Environment(ToolIndex(tools), tokenizer, protocol.Protocol(**limits))


def test_whole_episode_with_the_real_tokenizer(tokenizer):
    made = scripted(
        world(tokenizer),
        REQUEST,
        [CALL % "tells when it will rain", "<tool_list>Weather.rain, Weather.snow</tool_list>"],
    )
    text = tokenizer.decode(made.row.ids)
    assert "<tool_response>\n1. Weather.rain\ncategory: Weather" in text
    assert made.episode.ended == "answer" and made.row.turns == 2
    assert made.credit.answer.names == {"Weather.rain", "Weather.snow"}
    assert made.credit.retrieved == (frozenset({"Weather.rain", "Weather.snow", "Tricks.page"}),)
    kinds = [tokens.KINDS[k] for k in made.row.kind[np.flatnonzero(np.diff(made.row.kind)) + 1]]
    assert kinds == ["sampled", "template", "returned", "template", "sampled"]


def test_verl_4412_mask_is_provenance_not_length(tokenizer):
    made = scripted(world(tokenizer), REQUEST, [CALL % "rain", CALL % "share", "done"])
    said = [[*tokenizer(t)["input_ids"], 2] for t in made.episode.texts]
    assert tokens.trainable(made.row.turn).sum() == sum(map(len, said))


def test_trl_4974_pad_is_the_end_token_and_stands_in_returned_text(tokenizer):
    """Here pad = end of turn, and a document and the request hold its text."""
    end = tokenizer.convert_tokens_to_ids("<|im_end|>")
    assert tokenizer.pad_token_id == end
    made = scripted(world(tokenizer), REQUEST, [CALL % "5. Weather.snow", "I stop"])
    row = made.row
    assert "<|im_end|> rain" in tokenizer.decode(row.ids[row.kind == 3])
    assert not (row.ids[row.kind == 3] == end).any()
    assert (row.ids[row.turn >= 0] == end).sum() == 2  # one a turn, trained on
    assert (row.ids[row.kind == 0] == end).sum() == 2  # system and user
    batch = tokens.padded([row, scripted(world(tokenizer), REQUEST, ["no"]).row], end)
    assert batch.trainable.sum() == sum((r.turn >= 0).sum() for r in (row,)) + 2


def test_verl_3960_ids_are_kept_and_never_written_anew(tokenizer):
    """Ids that their own text would not give back are still the ids of the turn."""
    whole = tokenizer("weather")["input_ids"]
    odd = [tokenizer(letter)["input_ids"][0] for letter in "weather"]
    assert odd != whole and tokenizer.decode(odd) == tokenizer.decode(whole)
    environment = world(tokenizer)
    episode = environment.start(REQUEST.text)
    environment.step([episode], [[*odd, 2]], [[-1.0] * 8])
    assert episode.pieces[-1].ids == (*odd, 2) and episode.old == [-1.0] * 8
    assert episode.texts == ["weather"]


def test_rllm_575_a_late_turn_is_not_lost_but_flagged(tokenizer):
    """No turn is cut out of a long trajectory: it ends where the cap is, with one flag."""
    limits = dict(response_tokens=260, turns=8)
    made = scripted(world(tokenizer, **limits), REQUEST, [CALL % "when will it rain"] * 8)
    assert made.episode.truncated and made.episode.ended == "no room"
    assert made.row.turns == len(made.episode.events) < 8
    assert made.episode.response <= 260 and made.episode.events[-1].found == ()


@pytest.mark.parametrize("bug", ["trl_4976", "openrlhf_1327"])
def test_one_flag_for_what_was_cut(tokenizer, bug):
    long = scripted(world(tokenizer, turn_tokens=5), REQUEST, ["far too long a turn to fit in"])
    assert long.episode.truncated and long.episode.ended == "length" and long.row.turns == 1
    assert not scripted(world(tokenizer), REQUEST, ["short"]).episode.truncated


def test_answer_in_a_document_is_not_the_answer(tokenizer):
    """7.3 b."""
    made = scripted(world(tokenizer), REQUEST, [CALL % "5. Weather.snow", "No idea."])
    assert "<tool_list>Weather.snow</tool_list>" in tokenizer.decode(made.row.ids)
    assert made.credit.answer.blocks == 0 and not made.credit.answer.names


def test_lookalike_numbering_in_a_description_is_no_result(tokenizer):
    """7.3 c."""
    tools = (tool("A.one", "1. B.two\n2. C.three"), tool("B.two", "something else"))
    made = scripted(world(tokenizer, tools), REQUEST, [CALL % "one", "stop"])
    assert made.episode.events[0].found == ("A.one",)


def test_events_and_turns_are_one_to_one(tokenizer):
    """7.3 d, e: two turns with nothing between them cannot merge; nothing is cut off unseen."""
    made = scripted(world(tokenizer), REQUEST, [CALL % "rain", CALL % "snow", "stop"])
    group = [made.credit, made.credit]
    credits = credit.group_credit(group, ("Weather.rain",))
    values = tokens.token_advantage(made.row.turn, credits[0].turns)
    assert values.shape == made.row.ids.shape
    with pytest.raises(BadParameter, match="one for each turn"):
        tokens.token_advantage(made.row.turn, credits[0].turns[:-1])


def test_searches_and_repeats_are_counted(tokenizer):
    """7.3 f: nothing in the method discourages them, so they are at least seen."""
    made = scripted(world(tokenizer), REQUEST, [CALL % q for q in ("rain", "Rain", "snow")])
    assert len(made.episode.events) == 3 and made.episode.repeated == 1


def test_targets_never_reach_the_policy(tokenizer):
    """7.3 g: neither prompt, nor error texts, nor the order of results know the targets."""
    turns = [CALL % "rain tells", CALL % "", "stop"]
    seen = []
    for targets in ({"Weather.snow"}, {"Weather.rain"}):
        request = library.Request("r", "s", REQUEST.text, frozenset(targets))
        seen.append(scripted(world(tokenizer), request, turns).row.ids.tolist())
    assert seen[0] == seen[1]
    prompt = tokenizer.decode(world(tokenizer).start(REQUEST.text).prompt)
    assert not any(each.name in prompt for each in TOOLS)


def test_every_document_and_block_is_cut_to_its_limit(tokenizer):
    long = library.tool("A.long", "A", {}, "rain " * 900, [])
    made = block.returned([(1, long), (2, TOOLS[0])], tokenizer, 768, 300)
    assert not made.cut and made.visible == (True, True) and len(made.ids) < 768
    made = block.returned([(1, long), (2, TOOLS[0])], tokenizer, 768, 5000)
    assert made.cut and made.visible == (True, False)
    assert tokenizer.decode(made.ids).endswith("rain...") and 768 < len(made.ids) <= 770
    made = block.returned([(1, TOOLS[0])], tokenizer, 768, 2)
    assert made.visible == (False,)  # the document's own limit cuts its name


PARTS = st.sampled_from(
    [CALL % "rain", CALL % "", "<tool_call>", "</tool_call>", "{}", "<tool_list>", "</tool_list>"]
    + ["Weather.rain", ", ", "<|im_end|>", "<|im_start|>", "5. ", '"', "\n", "é", "<search>rain"]
)


@settings(max_examples=60)
@given(
    st.lists(st.lists(PARTS, min_size=1, max_size=5).map("".join), min_size=1, max_size=6),
    st.sampled_from(["json", "short"]),
    st.integers(1, 4),
    st.integers(5, 400),
)
def test_whatever_the_policy_writes_the_books_balance(turns, form, most, response):
    environment = Environment(
        ToolIndex(TOOLS), LETTERS, protocol.Protocol(form, turns=most, response_tokens=response)
    )
    made = scripted(environment, REQUEST, turns)
    episode, row = made.episode, made.row
    assert episode.ended in ("", *ENDS) and len(episode.texts) <= most
    assert episode.response <= response
    assert row.turns == len(episode.texts)
    assert row.turns == len(episode.events) + (episode.ended in FINAL)
    assert (episode.answer is not None) == (episode.ended in FINAL)
    assert [event.turn for event in episode.events] == list(range(len(episode.events)))
    assert all(set(event.found) <= set(event.returned) for event in episode.events)


def test_bad_input_is_refused(tokenizer):
    environment = world(tokenizer)
    over = scripted(environment, REQUEST, ["done"]).episode
    for call, word in (
        (lambda: environment.start("  "), "some text"),
        (lambda: environment.start("word " * 20000), "context_tokens=15000"),
        (lambda: environment.step([over], [[5]]), "ended by 'no answer'"),
        (lambda: environment.step([environment.start("a b")], [[]]), "given no token"),
        (lambda: protocol.Protocol(turns=0), "turns=0"),
        (lambda: protocol.Protocol(form="xml"), "form='xml'"),
        (lambda: protocol.Protocol(method="bert"), "method='bert'"),
        (lambda: protocol.Protocol(block_tokens=True), "block_tokens=True"),
        (lambda: protocol.Protocol(library=False, categories=False), "library=False"),
    ):
        with pytest.raises(BadParameter, match=word):
            call()
