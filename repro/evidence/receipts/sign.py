"""Signatures of receipts: Ed25519 in a DSSE envelope over an in-toto Statement v1.

A signature shows that the holder of a key answers for these very bytes. It does not show that a
machine existed, that the run took place, that its numbers are right, or when it was signed: the
validity of a key is held against the time that the receipt itself states. An unsigned receipt is as
legal as a signed one and is marked ``unsigned``. Public keys are in evidence/keys; private keys are
where their owner says, and never in the repository.

Sources: in-toto Attestation Framework, Statement v1; Dead Simple Signing Envelope v1.
"""

import base64
import hashlib
import json
import os
import stat
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from repro import files, paths
from repro.errors import BadParameter, ReproError
from repro.evidence import receipts
from repro.evidence.chain import lock

PAYLOAD_TYPE = "application/vnd.in-toto+json"
STATEMENT_TYPE = "https://in-toto.io/Statement/v1"
PREDICATE_TYPE = "urn:executable-boundaries:receipt:v2"
UNSIGNED = "unsigned"
_KEY = {"algorithm", "keyid", "public_key", "valid_from", "valid_until", "self_signature"}


class BadSignature(ReproError):
    """An envelope that is damaged, of another receipt, or not by a key that is valid for it."""


def keygen(private: Path, days: int = 365, now: datetime | None = None) -> Path:
    """Make a key pair: `private` (PEM, mode 0600), and evidence/keys/<keyid>.json, returned.

    private: a new file outside the repository. days: how long the key is valid from now.
    Raises BadParameter for a place inside the repository or a file that exists.
    """
    from cryptography.hazmat.primitives import serialization as s
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    if days < 1:
        raise BadParameter(f"days={days}; accepted: 1 or more.")
    if private.resolve().is_relative_to(paths.ROOT.resolve()):
        raise BadParameter(f"private={private.name} is in the repository; accepted: outside it.")
    key = Ed25519PrivateKey.generate()
    pem = key.private_bytes(s.Encoding.PEM, s.PrivateFormat.PKCS8, s.NoEncryption())
    try:
        handle = os.open(private, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        raise BadParameter(f"private={private.name} exists; accepted: a new file.") from None
    with os.fdopen(handle, "wb") as file:
        file.write(pem)
    raw = key.public_key().public_bytes_raw()
    start = now or datetime.now(UTC)
    about = {
        "algorithm": "ed25519",
        "keyid": hashlib.sha256(raw).hexdigest(),
        "public_key": base64.b64encode(raw).decode(),
        "valid_from": start.strftime(receipts.TIME),
        "valid_until": (start + timedelta(days=days)).strftime(receipts.TIME),
    }
    about["self_signature"] = base64.b64encode(key.sign(files.canonical(about).encode())).decode()
    target = paths.EVIDENCE / "keys" / f"{about['keyid']}.json"
    files.write_atomic(target, _text(about))
    return target


def sign(receipt: Mapping[str, Any], private: Path, now: datetime | None = None) -> Path:
    """Sign a receipt that is on file with the key in `private`; the envelope is put beside it.

    Raises BadParameter for a private key inside the repository or one that others can read, and
    ReproError for one that is unknown or not valid now.
    """
    key = _private(private)
    raw = key.public_key().public_bytes_raw()
    keyid = hashlib.sha256(raw).hexdigest()
    _public(keyid, receipts.ended(receipt), now or datetime.now(UTC))
    body = files.canonical(statement(receipt)).encode()
    envelope = {
        "payload": base64.b64encode(body).decode(),
        "payloadType": PAYLOAD_TYPE,
        "signatures": [
            {"keyid": keyid, "sig": base64.b64encode(key.sign(encoding(body))).decode()}
        ],
    }
    target = envelope_path(receipts.path(receipt))
    entry = {"path": receipts.name_of(target), "receipt_id": receipt["receipt_id"]}
    with lock():
        files.write_atomic(target, _text(envelope))
        if entry["path"] not in {e["path"] for e in receipts.CHAIN.entries()}:
            receipts.CHAIN.append(entry)
    return target


def signed_by(receipt: Mapping[str, Any], where: Path) -> str | None:
    """The id of the key that signed the receipt in the file `where`; None for an unsigned one.

    Raises BadSignature.
    """
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    place = envelope_path(where)
    if not place.exists():
        if receipts.name_of(place) in {e["path"] for e in receipts.CHAIN.entries()}:
            raise BadSignature(f"{place.name} was put on it and is gone")
        return None
    try:
        text = place.read_bytes().decode()
        envelope = json.loads(text)
        (signed,) = envelope["signatures"]
        body = base64.b64decode(envelope["payload"], validate=True)
        signature = base64.b64decode(signed["sig"], validate=True)
        exact = _text(envelope) == text and envelope["payloadType"] == PAYLOAD_TYPE
        exact = exact and envelope.keys() == {"payload", "payloadType", "signatures"}
        exact = exact and signed.keys() == {"keyid", "sig"}
        exact = exact and base64.b64encode(signature).decode() == signed["sig"]
    except (KeyError, TypeError, ValueError, AttributeError, RecursionError):
        exact = False
    if not exact:
        raise BadSignature(f"{place.name} is no DSSE envelope as it was written")
    raw = _public(signed["keyid"], receipts.ended(receipt))
    try:
        Ed25519PublicKey.from_public_bytes(raw).verify(signature, encoding(body))
    except InvalidSignature:
        raise BadSignature(f"{place.name} is not signed by key {signed['keyid'][:16]}") from None
    if (
        envelope["payload"]
        != base64.b64encode(files.canonical(statement(receipt)).encode()).decode()
    ):
        raise BadSignature(f"{place.name} is of another receipt")
    return signed["keyid"]


def statement(receipt: Mapping[str, Any]) -> dict[str, Any]:
    """The in-toto Statement v1 whose predicate is the receipt."""
    subject = [{"name": f["path"], "digest": {"sha256": f["sha256"]}} for f in receipt["files"]]
    own = {"name": "receipt", "digest": {"sha256": receipt["receipt_id"]}}
    return {
        "_type": STATEMENT_TYPE,
        "subject": [own, *subject],
        "predicateType": PREDICATE_TYPE,
        "predicate": dict(receipt),
    }


def encoding(body: bytes) -> bytes:
    """DSSE's pre-authentication encoding: ``DSSEv1 SP len SP type SP len SP body``, in bytes."""
    name = PAYLOAD_TYPE.encode()
    return b"DSSEv1 %d %b %d %b" % (len(name), name, len(body), body)


def envelope_path(receipt: Path) -> Path:
    """Where the envelope of the receipt in a file is kept."""
    return receipt.with_name(receipt.stem + receipts.ENVELOPE)


def key_problems() -> list[str]:
    """Files in evidence/keys that are no public key as `keygen` writes it."""
    found = []
    for path in sorted(p for p in (paths.EVIDENCE / "keys").glob("*") if p.is_file()):
        try:
            if path.suffix != ".json" or b"PRIVATE" in path.read_bytes():
                raise BadSignature("it is no public key")
            _about(path)
        except ReproError as error:
            found.append(f"evidence/keys/{path.name}: {error}")
    return found


def _text(value: Any) -> str:
    return json.dumps(value, indent=1, sort_keys=True) + "\n"


def _about(path: Path) -> tuple[bytes, datetime]:
    """Key and end of validity of a key's file; raises BadSignature for one that was changed.

    Its own signature covers the dates.
    """
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    try:
        text = path.read_bytes().decode()
        about = json.loads(text)
        raw = base64.b64decode(about["public_key"], validate=True)
        own = base64.b64decode(about["self_signature"], validate=True)
        whole = _text(about) == text and about.keys() == _KEY and about["algorithm"] == "ed25519"
        whole = whole and hashlib.sha256(raw).hexdigest() == about["keyid"] == path.stem
        whole = whole and base64.b64encode(own).decode() == about.pop("self_signature")
        Ed25519PublicKey.from_public_bytes(raw).verify(own, files.canonical(about).encode())
        end = receipts.moment(about["valid_until"])
    except (OSError, LookupError, TypeError, ValueError, AttributeError, InvalidSignature):
        whole = False
    if not whole:
        raise BadSignature(f"key {path.stem[:16]} is not as it was written")
    return raw, end


def _public(keyid: Any, *moments: datetime) -> bytes:
    """The public key `keyid`, whose validity must not have ended at any of `moments`."""
    known = {p.stem: p for p in (paths.EVIDENCE / "keys").glob("*.json")}
    if keyid not in known:
        raise BadSignature(f"key {str(keyid)[:16]} is not in evidence/keys")
    raw, end = _about(known[keyid])
    if max(moments) > end:
        said = f"{end.strftime(receipts.TIME)}, before {max(moments).strftime(receipts.TIME)}"
        raise BadSignature(f"key {keyid[:16]} was valid until {said}")
    return raw


def _private(path: Path) -> Any:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    if path.resolve().is_relative_to(paths.ROOT.resolve()):
        raise BadParameter(f"private={path.name} is in the repository; accepted: outside it.")
    mode = stat.S_IMODE(path.stat().st_mode)
    if mode & 0o077:
        raise BadParameter(f"private={path.name} has mode {mode:04o}; accepted: 0600.")
    try:
        key = load_pem_private_key(path.read_bytes(), password=None)
    except (ValueError, TypeError):
        raise BadParameter(f"private={path.name} cannot be read; accepted: PEM.") from None
    if not isinstance(key, Ed25519PrivateKey):
        raise BadParameter(f"private={path.name} is of another kind; accepted: Ed25519.")
    return key
