"""Public data behind one adapter each: which files, what they allow to say, how to get them.

None of these files is part of the project. What is not at hand is a gap with a name. Sources: the
project's notes on arXiv 2609.23677, section 8, and the documentation of each data set.
"""

import csv
import gzip
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from repro import assets
from repro.accept import one_of
from repro.errors import BadParameter, MissingAsset
from repro.muser import data


@dataclass(frozen=True)
class Source:
    """files: below the folder given to `adapter`. command: what fetches or then executes it."""

    name: str
    files: tuple[str, ...]
    adapter: str
    command: str
    licence: str
    allows: str
    caveat: str


CATEGORIES = ("Musical_Instruments", "Industrial_and_Scientific", "Video_Games")
AMAZON_CUTS = (1628643414.042, 1658002729.837)  # seconds: the publishers' validation and test

SOURCES = {
    "movielens-100k": Source(
        "MovieLens-100K",
        ("ml-100k.inter", "ml-100k.item"),
        "data_files.movielens",
        "pip install --no-deps recbole==1.2.1",
        "GroupLens terms: research only, no redistribution",
        "The code runs on a real table.",
        "A user's ratings span a median of 49 minutes, the time of filling in a form: nothing "
        "about time, long histories or compression.",
    ),
    "kuairand-1k": Source(
        "KuaiRand-1K with captions",
        ("log_standard_4_08_to_4_21_1k.csv", "log_standard_4_22_to_5_08_1k.csv",
         "video_features_basic_1k.csv", "kuairand_video_captions.csv"),
        "data_files.kuairand",
        "download Zenodo records 10439422 (KuaiRand-1K, 4.3 GB) and 18159199 into one folder",
        "CC BY-SA 4.0; the captions' own licence not seen",
        "These variants compared on public long histories, with captions as item text.",
        "Captions are Chinese: MiniLM does not read them, the n-grams do. Not the paper's encoder, "
        "summaries or traffic.",
    ),
    "amazon-2023": Source(
        "Amazon Reviews 2023: Instruments, Scientific, Games",
        tuple(f for c in CATEGORIES for f in (f"{c}.csv", f"meta_{c}.jsonl.gz")),
        "data_files.amazon",
        "download 5core/rating_only and the item metadata of McAuley-Lab/Amazon-Reviews-2023 into "
        "one folder",
        "none stated for the data: research only, no redistribution",
        "These variants compared on the paper's own public data.",
        "Users have tens of reviews: nothing about long histories. The paper's baselines and "
        "settings are not public.",
    ),
}  # fmt: skip


# A public run on KuaiRand-Pure, as the notes give it (section 7). prefixes: of training, the length
# of a user's history less 7. Recall@10, means of three seeds over the same test users.
ORIGIN = {
    "prefixes": 12_462,
    "users": 2_140,
    "tested": 1_000,
    "recent": 8,
    "middle": 32,
    "widths": (4, 16),
    "newest": 64,
    "recall": {"full": 0.0257, "no compression": 0.0247, "no tags": 0.0110, "plain": 0.0100},
}


def folder(name: str, given: Path | str | None, part: str = "") -> Path:
    """The folder that holds all files of a source, or those with `part` in their name.

    Raises BadParameter for an unknown source, MissingAsset naming the absent files and the command.
    """
    if name not in SOURCES:
        raise BadParameter(f"name={name!r} is not known; accepted: {', '.join(SOURCES)}.")
    source = SOURCES[name]
    where = Path(given) if given is not None else _asset(name)
    wanted = [f for f in source.files if part in f]
    absent = [f for f in wanted if where is None or not (where / f).is_file()]
    if absent:
        raise MissingAsset(
            f"{source.name} ({source.licence}) is not here: {', '.join(absent)}. To get it: "
            f"{source.command}."
        )
    return where


def _asset(name: str) -> Path | None:
    """Where a pinned asset of this name lies, if there is one."""
    return assets.path(name) / "dataset_example" / "ml-100k" if name in assets.ASSETS else None


def movielens(given: Path | str | None = None, least_rating: float = 4.0) -> data.Log:
    """Ratings of `least_rating` and more; the text is title and genres."""
    where = folder("movielens-100k", given)
    titles, texts = {}, []
    for row in _table(where / "ml-100k.item", "\t"):
        titles[row["item_id:token"]] = len(texts)
        texts.append(f"{row['movie_title:token_seq']}. {row['class:token_seq']}")
    kept = [
        (int(row["user_id:token"]), titles[row["item_id:token"]], float(row["timestamp:float"]))
        for row in _table(where / "ml-100k.inter", "\t")
        if float(row["rating:float"]) >= least_rating
    ]
    return _log("movielens-100k", kept, texts)


def kuairand(given: Path | str) -> data.Log:
    """Clicks and long views of the standard policy, on videos that have a caption.

    The caption table is joined by `final_video_id`, through the basic features where these hold
    it, and otherwise as `video_id`; check this against the files once they are at hand.
    """
    where = folder("kuairand-1k", given)
    *logs, basic, captions = SOURCES["kuairand-1k"].files
    texts = {row["final_video_id"]: row["caption"].strip() for row in _table(where / captions)}
    final = {row["video_id"]: row.get("final_video_id") or row["video_id"]
             for row in _table(where / basic)}  # fmt: skip
    numbers: dict[str, int] = {}
    kept = []
    for name in logs:
        for row in _table(where / name):
            video = final.get(row["video_id"], row["video_id"])
            if texts.get(video) and (row["is_click"] == "1" or row["long_view"] == "1"):
                item = numbers.setdefault(video, len(numbers))
                kept.append((int(row["user_id"]), item, int(row["time_ms"]) / 1000))
    return _log("kuairand-1k", kept, [texts[video] for video in numbers])


def amazon(given: Path | str, category: str = CATEGORIES[0]) -> data.Log:
    """Reviews of one category's 5-core file; the text is title, features and description.

    The publishers' global split is at `AMAZON_CUTS`.
    """
    one_of("category", category, CATEGORIES)
    where = folder("amazon-2023", given, category)
    texts = {}
    with gzip.open(where / f"meta_{category}.jsonl.gz", "rt", encoding="utf-8") as lines:
        for line in lines:
            row = json.loads(line)
            parts = [row.get("title") or "", *row.get("features", []), *row.get("description", [])]
            if text := " ".join(" ".join(parts).split()):
                texts[row["parent_asin"]] = text
    items: dict[str, int] = {}
    users: dict[str, int] = {}
    kept = []
    for row in _table(where / f"{category}.csv"):
        if row["parent_asin"] in texts:
            user = users.setdefault(row["user_id"], len(users))
            item = items.setdefault(row["parent_asin"], len(items))
            kept.append((user, item, int(row["timestamp"]) / 1000))
    return _log("amazon-2023", kept, [texts[asin] for asin in items])


def _log(name: str, kept: list[tuple[int, int, float]], texts: list[str]) -> data.Log:
    if not kept:
        raise BadParameter(f"{name} holds no action on an item with a text; accepted: some.")
    source = SOURCES[name]
    return data.log(source.name, *zip(*kept, strict=True), texts, source.caveat, source.allows)


def _table(path: Path, delimiter: str = ",") -> Iterator[dict[str, str]]:
    with path.open(newline="", encoding="utf-8-sig") as file:
        quoting = csv.QUOTE_NONE if delimiter == "\t" else csv.QUOTE_MINIMAL
        yield from csv.DictReader(file, delimiter=delimiter, quoting=quoting)
