"""The environment of ToolSearcher (arXiv 2609.30906): turns in, returned text out, every odd case.

====================================== =====================================================
the assistant turn                      what happens (authors' repository)
====================================== =====================================================
readable search                         event; found is what the cut text still names
unknown category                        event with an error text, nothing found
query missing or no text                event with an error text, nothing found
search on the last turn                 event with nothing found, never executed; the end
search that cannot be read              the end, and the final turn
turn cut by the length limit            the end, and the final turn
no search                               the end, and the final turn, even without an answer
====================================== =====================================================

Ours, where that is silent: a call of another function is treated like a missing query; results that
leave no room for a further token are taken back, and the trajectory ends without a final turn.
An episode knows the request and never the targets.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from repro.errors import BadParameter
from repro.toolsearcher import block, protocol
from repro.toolsearcher.answer import Answer, read_answer
from repro.toolsearcher.credit import Trajectory
from repro.toolsearcher.index import ToolIndex
from repro.toolsearcher.tokens import Piece

FINAL = ("answer", "no answer", "unreadable call", "length")  # ends that leave a final turn
ENDS = (*FINAL, "last turn", "no room")


@dataclass(frozen=True)
class Event:
    """One search. returned: names that the search gave, best first. found: those of them whose
    name the policy could read. problem: why nothing was searched, or ""."""

    turn: int
    query: str
    category: str | None
    returned: tuple[str, ...] = ()
    found: tuple[str, ...] = ()
    problem: str = ""


@dataclass
class Episode:
    """A trajectory while it grows. pieces: token ids by provenance; old: log-probability of each
    sampled token when it was drawn; texts: the assistant turns; ended: "" or one of `ENDS`."""

    request: str
    pieces: list[Piece]
    old: list[float] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)
    events: list[Event] = field(default_factory=list)
    numbers: dict[str, int] = field(default_factory=dict)  # name -> number of a result
    answer: Answer | None = None
    ended: str = ""

    @property
    def truncated(self) -> bool:
        """The one mark of a trajectory that a length limit ended."""
        return self.ended in ("length", "no room")

    @property
    def prompt(self) -> tuple[int, ...]:
        """Token ids before the first turn."""
        return self.pieces[0].ids

    @property
    def response(self) -> int:
        """Tokens after the prompt."""
        return sum(len(piece.ids) for piece in self.pieces[1:])

    @property
    def repeated(self) -> int:
        """Searches with the words of an earlier one."""
        asked = [(event.query.lower(), event.category) for event in self.events]
        return len(asked) - len(set(asked))

    def credit(self, key: str) -> Trajectory:
        """What credit needs to know, under the group's `key`."""
        return Trajectory(key, tuple(frozenset(e.found) for e in self.events), self.answer)


class Environment:
    """Searches `index` for episodes of one protocol, in the tokens of `tokenizer` (ChatML).

    examples: finished episodes of this protocol that every prompt shows before the request, for a
    model that does not follow instructions alone. The paper shows none.
    """

    def __init__(
        self,
        index: ToolIndex,
        tokenizer: Any,
        limits: protocol.Protocol | None = None,
        examples: Sequence["Episode"] = (),
    ):
        self.index, self.tokenizer = index, tokenizer
        self.limits, self.examples = limits or protocol.Protocol(), tuple(examples)
        self.end = tokenizer.convert_tokens_to_ids("<|im_end|>")
        self._before = self._marked("\n<|im_start|>user\n<tool_response>\n")
        self._after = self._marked("\n</tool_response><|im_end|>\n<|im_start|>assistant\n")
        self.system = protocol.instructions(self.limits, index.categories)

    def start(self, request: str) -> Episode:
        """An episode with its prompt; the request is plain text, whatever markers it holds."""
        if not isinstance(request, str) or not request.strip():
            raise BadParameter(f"request={request!r} is refused; accepted: some text.")
        ids = self._marked(f"<|im_start|>system\n{self.system}<|im_end|>\n")
        for example in self.examples:
            ids += self._asked(example.request)
            ids += tuple(i for piece in example.pieces[1:] for i in piece.ids) + self._marked("\n")
        ids += self._asked(request)
        if len(ids) >= self.limits.context_tokens:
            raise BadParameter(
                f"request of {len(ids)} tokens with its instructions is refused; accepted: fewer "
                f"than context_tokens={self.limits.context_tokens}."
            )
        return Episode(request, [Piece("prompt", ids)])

    def room(self, episode: Episode) -> int:
        """How many tokens the next assistant turn may have."""
        limits, used = self.limits, episode.response
        total = used + len(episode.prompt)
        return min(limits.turn_tokens, limits.response_tokens - used, limits.context_tokens - total)

    def step(
        self,
        episodes: Sequence[Episode],
        turns: Sequence[Sequence[int]],
        old: Sequence[Sequence[float]] | None = None,
    ) -> None:
        """Take one assistant turn of each episode: sampled ids, the end-of-turn token included.

        A turn without that token was cut by the length limit. What is returned goes into `pieces`;
        `ended` is set where the trajectory is over. The searches of all are made together.
        Raises BadParameter for an episode that is over or a turn without a token.
        """
        asking: list[tuple[Episode, protocol.Call]] = []
        for at, (episode, ids) in enumerate(zip(episodes, turns, strict=True)):
            if episode.ended or not len(ids):
                state = f"ended by {episode.ended!r}" if episode.ended else "given no token"
                raise BadParameter(f"episode {at} is {state}; accepted: an open one, some tokens.")
            episode.pieces.append(Piece("sampled", tuple(int(i) for i in ids)))
            episode.old += old[at] if old is not None else [0.0] * len(ids)
            call = self._take(episode, list(ids))
            if call is not None:
                asking.append((episode, call))
        problems = [self._problem(call) for _, call in asking]
        good = [call for (_, call), problem in zip(asking, problems, strict=True) if not problem]
        rows = iter(self._search(good))
        for (episode, call), problem in zip(asking, problems, strict=True):
            self._reply(episode, call, problem, () if problem else next(rows))

    def _take(self, episode: Episode, ids: list[int]) -> protocol.Call | None:
        """The call to carry out; None where the turn ended the episode."""
        whole = ids[-1] == self.end
        text = self.tokenizer.decode(ids[:-1] if whole else ids, skip_special_tokens=False)
        episode.texts.append(text)
        call = protocol.read_call(text, self.limits.form)
        if not whole or call is None or call is protocol.UNREADABLE:
            episode.answer = self._answer(episode, text)
            plain_end = "answer" if episode.answer.blocks else "no answer"
            reason = "length" if not whole else "unreadable call" if call else plain_end
            episode.ended = reason
            return None
        if len(episode.texts) == self.limits.turns:
            turn = len(episode.texts) - 1
            episode.events.append(Event(turn, call.query, call.category, problem="last turn"))
            episode.ended = "last turn"
            return None
        return call

    def _answer(self, episode: Episode, text: str) -> Answer:
        """From this turn alone; the number of a result that was read becomes its name."""
        answer = read_answer(text)
        if self.limits.form == "json":
            return answer
        read = {name for event in episode.events for name in event.found}
        name = {str(episode.numbers[name]): name for name in read}
        return Answer(frozenset(name.get(n, f"#{n}") for n in answer.names), answer.blocks)

    def _problem(self, call: protocol.Call) -> str:
        whole = call.category is None or call.category == protocol.WHOLE
        if call.problem:
            return call.problem
        if not self.limits.categories and not whole:
            return "unknown category"
        if whole:
            return "" if self.limits.library else "no category"
        return "" if self.index.accepts(call.category) else "unknown category"

    def _search(self, calls: Sequence[protocol.Call]) -> list[tuple[int, ...]]:
        where = [None if call.category == protocol.WHOLE else call.category for call in calls]
        texts = [call.query for call in calls]
        return self.index.search(texts, self.limits.top_k, where, self.limits.method)

    def _reply(
        self, episode: Episode, call: protocol.Call, problem: str, rows: Sequence[int]
    ) -> None:
        tools = [self.index.tools[row] for row in rows]
        numbered, numbers = [], dict(episode.numbers)
        for place, tool in enumerate(tools, 1):
            again = self.limits.form == "short"  # there a result keeps the number it first had
            number = numbers.setdefault(tool.name, len(numbers) + 1) if again else place
            numbered.append((number, tool))
        if tools:
            limits = self.limits
            shown = block.returned(
                numbered,
                self.tokenizer,
                limits.block_tokens,
                limits.document_tokens,
                full=limits.form == "json",
            )
            found = tuple(t.name for t, seen in zip(tools, shown.visible, strict=True) if seen)
            ids = shown.ids
        else:
            says = protocol.error_text(problem, len(self.index.categories))
            ids, found = tuple(block.plain(self.tokenizer, says)[0]), ()
        turn, names = len(episode.texts) - 1, tuple(tool.name for tool in tools)
        new = [Piece("template", self._before), Piece("returned", ids)]
        new.append(Piece("template", self._after))
        episode.pieces += new
        if self.room(episode) < 1:
            del episode.pieces[-len(new) :]
            episode.ended, found = "no room", ()
        else:
            episode.numbers = numbers
        episode.events.append(Event(turn, call.query, call.category, names, found, problem))

    def _asked(self, request: str) -> tuple[int, ...]:
        words = tuple(block.plain(self.tokenizer, request)[0])
        after = self._marked("<|im_end|>\n<|im_start|>assistant\n")
        return self._marked("<|im_start|>user\n") + words + after

    def _marked(self, text: str) -> tuple[int, ...]:
        return tuple(self.tokenizer(text, add_special_tokens=False)["input_ids"])
