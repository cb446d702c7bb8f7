"""A receipt as an RO-Crate 1.1 that follows the Process Run Crate profile 0.5.

The receipt is the source of truth. `metadata` is a function of it alone, so that a crate is made
again byte for byte; what a run used that is no file of the crate is a contextual entity. `check`
holds a crate to the structure that the two documents require.
Sources: https://w3id.org/ro/crate/1.1 and https://w3id.org/ro/wfrun/process/0.5.
"""

import hashlib
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from repro import files, paths, records
from repro.errors import BadParameter, ReproError
from repro.evidence import receipts

NAME = "ro-crate-metadata.json"
SPEC = "https://w3id.org/ro/crate/1.1"
PROFILE = "https://w3id.org/ro/wfrun/process/0.5"
CONTEXT = [f"{SPEC}/context", "https://w3id.org/ro/terms/workflow-run/context"]
LICENCE = "https://spdx.org/licenses/Apache-2.0"
RECEIPT = "receipt.json"
STATUS = "http://schema.org/{}ActionStatus"
_TYPES = {
    "instrument": {"SoftwareApplication", "SoftwareSourceCode", "ComputationalWorkflow"},
    "agent": {"Organization", "Person"},
    "object": {"File", "Dataset", "CreativeWork", "PropertyValue"},
    "result": {"File", "Dataset", "CreativeWork", "PropertyValue"},
}


def metadata(receipt: Mapping[str, Any]) -> dict[str, Any]:
    """The content of ``ro-crate-metadata.json`` for a receipt."""
    end = receipts.ended(receipt).strftime(receipts.TIME)
    what = f"Run of {receipt['subject']} on {receipt['device']['class']}: {receipt['outcome']}"
    own = _file(RECEIPT, "application/json", content=records.dumps(dict(receipt)).encode())
    held = [_file(f["path"], _media(f["path"]), entry=f) for f in receipt["files"]]
    inputs, metrics = list(_used(receipt)), list(_metrics(receipt))
    commit, entry = receipt["source"]["commit"], receipt["source"]["entry"]
    tool = {"@id": f"#{entry}", "@type": "SoftwareSourceCode", "name": entry, "version": commit}
    runner = {"@id": "#runner", "@type": "Organization", "name": "Who ran it (a role)"}
    action = {
        "@id": "#run",
        "@type": "CreateAction",
        "name": what,
        "description": " ".join(receipt["command"]),
        "instrument": _to(tool),
        "agent": _to(runner),
        "object": [_to(e) for e in inputs],
        "result": [_to(e) for e in (own, *held, *metrics)],
        "startTime": receipt["started"],
        "endTime": end,
        "actionStatus": STATUS.format("Completed" if receipt["outcome"] == "passed" else "Failed"),
    }
    if receipt["reason"]:
        action["error"] = receipt["reason"]
    root = {
        "@id": "./",
        "@type": "Dataset",
        "name": f"Receipt {receipt['receipt_id'][:16]}",
        "description": what,
        "datePublished": end,
        "license": {"@id": LICENCE},
        "conformsTo": {"@id": PROFILE},
        "hasPart": [_to(e) for e in (own, *held)],
        "mentions": [_to(action)],
        "identifier": receipt["receipt_id"],
    }
    about = {"@id": NAME, "@type": "CreativeWork", "conformsTo": {"@id": SPEC}}
    profile = {"@id": PROFILE, "@type": "CreativeWork", "name": "Process Run Crate"}
    licence = {"@id": LICENCE, "@type": "CreativeWork", "name": "Apache License 2.0"}
    graph = [about | {"about": {"@id": "./"}}, root, own, *held, tool, action, runner]
    graph += [profile | {"version": "0.5"}, licence, *inputs, *metrics]
    return {"@context": CONTEXT, "@graph": graph}


def export(receipt: Mapping[str, Any], folder: Path) -> Path:
    """Write the crate of a receipt into a new or empty folder; returns the metadata file.

    Raises BadParameter for a folder with something in it, ReproError for a file that is absent or
    not the one of the receipt.
    """
    if folder.exists() and any(folder.iterdir()):
        raise BadParameter(f"folder={folder.name} is not empty; accepted: a new or empty folder.")
    contents = {RECEIPT: records.dumps(dict(receipt)).encode()}
    for entry in receipt["files"]:
        place = paths.ROOT / entry["path"]
        if not place.is_file() or files.sha256(place) != entry["sha256"]:
            raise ReproError(f"{entry['path']} is absent or not the one that the receipt names.")
        contents[entry["path"]] = place.read_bytes()
    described = metadata(receipt)
    contents[NAME] = (json.dumps(described, indent=1, ensure_ascii=False) + "\n").encode()
    for name, content in contents.items():
        files.write_atomic(folder / name, content)
    if found := check(described, folder):
        raise ReproError(f"The crate is not as the profile asks: {'; '.join(found)}.")
    return folder / NAME


def check(crate: Any, folder: Path | None = None) -> list[str]:
    """What RO-Crate 1.1 and the profile require and `crate` lacks; with `folder`, files too."""
    try:
        entities = {e["@id"]: e for e in crate["@graph"]}
        kinds = {i: set(_list(e["@type"])) for i, e in entities.items()}
        found = ["an @id is used twice"] if len(entities) != len(crate["@graph"]) else []
    except (KeyError, TypeError):
        return ["@graph is no list of entities with @id and @type"]
    if f"{SPEC}/context" not in _list(crate.get("@context")):
        found.append(f"@context is not that of {SPEC}")
    about, root = entities.get(NAME, {}), entities.get("./", {})
    if about.get("conformsTo") != {"@id": SPEC} or about.get("about") != {"@id": "./"}:
        found.append(f"{NAME} does not describe ./ by {SPEC}")
    if "Dataset" not in kinds.get("./", ()) or PROFILE not in _ids(root, "conformsTo"):
        found.append(f"./ is no Dataset that conforms to {PROFILE}")
    wanted = ("name", "description", "datePublished", "license")
    found += [f"./ has no {name}" for name in wanted if not root.get(name)]
    for entity in entities.values():
        for name, value in entity.items():
            refs = [v["@id"] for v in _list(value) if isinstance(v, dict) and "@id" in v]
            odd = [r for r in refs if r not in entities and r != SPEC]
            found += [f"{entity['@id']}: {name} points to {r}, which is not there" for r in odd]
    parts = _ids(root, "hasPart")
    data = {i for i, k in kinds.items() if k & {"File", "Dataset"}} - {"./"}
    found += [f"{i} is not part of ./" for i in sorted(data - set(parts))]
    if folder is not None:
        found += [f"{i}: {told}" for i in parts if (told := _differs(entities.get(i, {}), folder))]
    actions = [i for i, k in kinds.items() if "CreateAction" in k]
    if len(actions) != 1 or _ids(root, "mentions") != actions:
        return [*found, "./ does not mention just one CreateAction"]
    return found + _action_lacks(entities[actions[0]], kinds)


def _action_lacks(action: Mapping[str, Any], kinds: Mapping[str, set[str]]) -> list[str]:
    found = []
    for name, types in _TYPES.items():
        ids = _ids(action, name)
        if not ids and name != "object":
            found.append(f"the action has no {name}")
        found += [f"{name} {i} is of another type" for i in ids if not types & kinds.get(i, set())]
    wanted = ("name", "description", "startTime", "endTime")
    found += [f"the action has no {name}" for name in wanted if not action.get(name)]
    failed = action.get("actionStatus") == STATUS.format("Failed")
    if not failed and action.get("actionStatus") != STATUS.format("Completed"):
        found.append("the action is neither completed nor failed")
    return found + (["error without failure"] if "error" in action and not failed else [])


def _differs(entity: Mapping[str, Any], folder: Path) -> str:
    """How a file of the crate is not what its entity says; empty where it is."""
    place = folder / entity.get("@id", "")
    if not place.is_file():
        return "no such file"
    if str(place.stat().st_size) != entity.get("contentSize"):
        return "another contentSize"
    return "" if files.sha256(place) == entity.get("sha256") else "another sha256"


def _file(
    name: str, media: str, content: bytes = b"", entry: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    sha, size = hashlib.sha256(content).hexdigest(), len(content)
    if entry:
        sha, size = entry["sha256"], entry["bytes"]
    told = {"@id": name, "@type": "File", "name": name.rpartition("/")[2]}
    return told | {"sha256": sha, "contentSize": str(size), "encodingFormat": media}


def _media(name: str) -> str:
    return "application/x-ipynb+json" if name.endswith(".ipynb") else "application/json"


def _used(receipt: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    for name, sha in sorted(receipt["inputs"]["assets"].items()):
        yield {"@id": f"#asset-{name}", "@type": "CreativeWork", "name": name, "sha256": sha}
    for name, value in sorted(receipt["inputs"]["parameters"].items()):
        told = {"@id": f"#parameter-{name}", "@type": "PropertyValue", "name": name}
        yield told | {"value": value}


def _metrics(receipt: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    for number, metric in enumerate(receipt["metrics"], 1):
        told = {"@id": f"#metric-{number}", "@type": "PropertyValue", "name": metric["name"]}
        about = f"{metric['split']}; n = {metric['n']}; better: {metric['direction']}"
        yield told | {"value": metric["value"], "unitText": metric["unit"], "description": about}


def _to(entity: Mapping[str, Any]) -> dict[str, str]:
    return {"@id": entity["@id"]}


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [] if value is None else [value]


def _ids(entity: Mapping[str, Any], name: str) -> list[str]:
    return [v["@id"] for v in _list(entity.get(name)) if isinstance(v, dict) and "@id" in v]
