"""``python -m repro.pictures.making NAME``: make one picture anew and write it as JSON."""

import importlib
import json
import sys

from repro import files, pictures, player


def main(name: str) -> None:
    today, place = pictures.fingerprint(name), pictures.path(name)
    shown = importlib.import_module(f"repro.pictures.{name}").make()
    made = {
        "fingerprint": today, "title": shown.title, "alt": shown.alt, "about": shown.about,
        "data": player.payload(shown), "still": player.still(shown),
    }  # fmt: skip
    files.write_atomic(place, json.dumps(made) + "\n")
    if name not in pictures.COMMITTED:
        for old in place.parent.glob(f"{name}-*.json"):
            if old != place:
                old.unlink(missing_ok=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
