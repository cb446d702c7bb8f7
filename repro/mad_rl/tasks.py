"""Questions with several right answers: "pick one of four", answered in words of several tokens.

A topic names four things; all are right answers, and the category of an answer is its *place* in
the list. The list is in a fresh order each time, so that a mix over places is a habit that can be
carried to unseen topics, and not a fact about words. Topics of the three splits share no word.
Questions are in the form of two solved examples and an open line, because the small model rarely
keeps to a chat instruction at temperature 1. Written for this book.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from repro.errors import BadParameter

KINDS = 4  # things a topic
EXAMPLES = (
    ("Fruits", "apple, pear, plum, grape", "plum"),
    ("Tools", "hammer, saw, drill, chisel", "saw"),
)
TOPICS = {
    "train": {
        "Colours": "red, blue, green, yellow",
        "Metals": "iron, copper, silver, zinc",
        "Birds": "robin, eagle, owl, swan",
        "Trees": "oak, pine, maple, birch",
        "Rivers": "Nile, Amazon, Danube, Rhine",
        "Countries": "France, Japan, Brazil, Canada",
        "Drinks": "tea, coffee, milk, orange juice",
        "Clothes": "shirt, coat, hat, scarf",
        "Vegetables": "carrot, onion, potato, cabbage",
        "Furniture": "chair, table, bed, shelf",
        "Seasons": "spring, summer, autumn, winter",
        "Insects": "ant, bee, moth, beetle",
        "Fabrics": "cotton, wool, silk, linen",
        "Dances": "waltz, tango, salsa, polka",
        "Gems": "ruby, diamond, emerald, opal",
        "Fish": "salmon, trout, cod, tuna",
        "Shapes": "circle, square, triangle, star",
        "Vehicles": "car, bus, train, bicycle",
        "Spices": "pepper, ginger, cinnamon, clove",
        "Languages": "English, Spanish, Latin, Greek",
        "Body parts": "hand, foot, knee, elbow",
        "Buildings": "house, church, school, castle",
        "Sweets": "ice cream, chocolate, honey, candy",
        "Games": "chess, poker, domino, hide and seek",
    },
    "validation": {
        "Planets": "Mars, Venus, Jupiter, Saturn",
        "Flowers": "rose, tulip, lily, daisy",
        "Sports": "tennis, golf, rugby, table football",
        "Cities": "Paris, London, Rome, New York",
        "Nuts": "almond, walnut, hazelnut, pecan",
        "Weather": "rain, snow, wind, fog",
        "Kitchen things": "spoon, knife, plate, bowl",
        "Jobs": "doctor, teacher, baker, nurse",
    },
    "test": {
        "Oceans": "Atlantic, Pacific, Indian, Arctic",
        "Pets": "dog, cat, rabbit, hamster",
        "Instruments": "piano, violin, flute, drum",
        "Months": "January, April, July, October",
        "Grains": "wheat, rice, barley, oats",
        "Cheeses": "cheddar, brie, feta, blue cheese",
        "Wild animals": "lion, tiger, bear, wolf",
        "Subjects": "history, music, physics, geography",
        "Feelings": "joy, anger, fear, hope",
        "Islands": "Cuba, Malta, Crete, Sri Lanka",
        "Boats": "canoe, ferry, yacht, raft",
        "Landscapes": "desert, forest, valley, mountain range",
    },
}


@dataclass(frozen=True)
class Question:
    """One question as the model sees it.

    prompt: token ids. answers [K]: the token ids of each right answer, its end token included.
    text: what was asked, readable. id: topic and number of the order.
    """

    id: str
    prompt: tuple[int, ...]
    answers: tuple[tuple[int, ...], ...]
    text: str = ""


def category(question: Question, ids: Sequence[int]) -> int:
    """The place of the answer `ids` among the right ones, -1 for anything else.

    Exact: another spelling, a missing end or a word more is no right answer. So the probability of
    a category is that of one token sequence, and needs no sampling.
    """
    ids = tuple(ids)
    return question.answers.index(ids) if ids in question.answers else -1


def question(tokenizer: Any, topic: str, things: Sequence[str], name: str) -> Question:
    """`things` [K], in this order, asked for under `topic`."""
    if len(set(things)) != len(things) or len(things) < 2:
        raise BadParameter(f"things={list(things)} is refused; accepted: 2 or more, all different.")
    lines = [f"{t}: {listed}. Pick: {pick}\n" for t, listed, pick in EXAMPLES]
    text = "".join(lines) + f"{topic}: {', '.join(things)}. Pick:"
    encode = lambda part: tuple(tokenizer.encode(part, add_special_tokens=False))  # noqa: E731
    return Question(name, encode(text), tuple(encode(f" {thing}\n") for thing in things), text)


def end_token(tokenizer: Any) -> int:
    """The token that ends an answer: a line break."""
    (end,) = tokenizer.encode("\n", add_special_tokens=False)
    return end


def fixed(tokenizer: Any, split: str, orders: int, limit: int = 0) -> list[Question]:
    """The questions of `split`, each topic in `orders` orders that no seed changes.

    limit: only the first so many topics; 0 for all.
    """
    if split not in TOPICS:
        raise BadParameter(f"split={split!r} is refused; accepted: {', '.join(TOPICS)}.")
    if orders < 1 or limit < 0:
        raise BadParameter(f"orders={orders}, limit={limit} is refused; accepted: >= 1, >= 0.")
    made = []
    for at, (topic, things) in enumerate(list(TOPICS[split].items())[: limit or None]):
        rng = np.random.default_rng([7, at])
        for order in range(orders):
            mixed = rng.permutation(things.split(", ")).tolist()
            made.append(question(tokenizer, topic, mixed, f"{topic.lower()}/{order}"))
    return made


def drawn(tokenizer: Any, seed: int, updates: int, prompts: int) -> list[list[Question]]:
    """Training questions [updates][prompts]: topics in turn, reshuffled each round, fresh orders.

    Depends on the seed alone, so all arms of a seed read the same questions in the same order.
    """
    if prompts < 1 or updates < 0:
        raise BadParameter(
            f"prompts={prompts}, updates={updates} is refused; accepted: >= 1, >= 0."
        )
    rng, queue, made = np.random.default_rng([seed, 1]), [], []
    for update in range(updates):
        step = []
        for _ in range(prompts):
            queue = queue or rng.permutation(list(TOPICS["train"])).tolist()
            topic = queue.pop()
            mixed = rng.permutation(TOPICS["train"][topic].split(", ")).tolist()
            step.append(question(tokenizer, topic, mixed, f"{topic.lower()}/u{update}"))
        made.append(step)
    return made
