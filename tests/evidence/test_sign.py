"""Signatures: DSSE and in-toto as specified, by keys that are valid, and only over these bytes."""

import base64
import json
import stat
from datetime import UTC, datetime

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, generate_private_key
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from repro import paths
from repro.errors import BadParameter, ReproError
from repro.evidence import receipts, validate
from repro.evidence.receipts import build, pages, sign
from repro.evidence.receipts.sign import BadSignature

NOW = datetime(2026, 12, 3, tzinfo=UTC)


@pytest.fixture
def key(desk, tmp_path_factory):
    """The private key's file, outside the repository, and the public one's."""
    private = tmp_path_factory.mktemp("private") / "key.pem"
    return private, sign.keygen(private, 365, NOW)


@pytest.fixture
def signed(desk, key):
    receipt = build.from_record(desk.record)
    return receipt, sign.sign(receipt, key[0], NOW)


def test_the_encoding_is_dsses_own_example():
    # github.com/secure-systems-lab/dsse, protocol.md: type and body of its example
    wanted = b"DSSEv1 29 http://example.com/HelloWorld 11 hello world"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sign, "PAYLOAD_TYPE", "http://example.com/HelloWorld")
        assert sign.encoding(b"hello world") == wanted


def test_a_signed_receipt_verifies_and_names_its_key(desk, key, signed):
    receipt, path = signed
    keyid = key[1].stem
    assert path.name == f"{receipt['receipt_id'][:16]}.dsse.json"
    assert sign.signed_by(receipt, receipts.path(receipt)) == keyid
    assert pages.signer(receipt) == f"key `{keyid[:16]}`"
    assert validate.validate().problems == [] and "1 signed" in validate.validate().summary


def test_the_envelope_is_dsse_around_an_in_toto_statement(desk, key, signed):
    receipt, path = signed
    envelope = json.loads(path.read_text())
    assert envelope["payloadType"] == "application/vnd.in-toto+json"
    told = json.loads(base64.b64decode(envelope["payload"]))
    assert told["_type"] == "https://in-toto.io/Statement/v1" and told["predicate"] == receipt
    assert told["subject"][1] == {
        "name": receipt["files"][0]["path"],
        "digest": {"sha256": receipt["files"][0]["sha256"]},
    }
    # verified here without our code
    raw = base64.b64decode(json.loads(key[1].read_text())["public_key"])
    body = base64.b64decode(envelope["payload"])
    text = b"DSSEv1 28 application/vnd.in-toto+json %d %b" % (len(body), body)
    (one,) = envelope["signatures"]
    Ed25519PublicKey.from_public_bytes(raw).verify(base64.b64decode(one["sig"]), text)


def test_the_private_key_is_the_owners_alone_and_never_in_the_repository(desk, key):
    private, public = key
    assert stat.S_IMODE(private.stat().st_mode) == 0o600
    assert public.parent == paths.ROOT / "evidence/keys" and b"PRIVATE" not in public.read_bytes()
    with pytest.raises(BadParameter, match="is in the repository; accepted: outside it"):
        sign.keygen(desk.root / "evidence/keys/key.pem")
    with pytest.raises(BadParameter, match="exists; accepted: a new file"):
        sign.keygen(private)
    with pytest.raises(BadParameter, match="days=0"):
        sign.keygen(private.with_name("b.pem"), 0)
    receipt = build.from_record(desk.record)
    private.chmod(0o640)
    with pytest.raises(BadParameter, match="mode 0640; accepted: 0600"):
        sign.sign(receipt, private, NOW)
    inside = desk.root / "key.pem"
    inside.write_bytes(private.read_bytes())
    with pytest.raises(BadParameter, match="accepted: outside it"):
        sign.sign(receipt, inside, NOW)
    leaked = desk.root / "evidence/keys/key.pem"
    leaked.write_bytes(private.read_bytes())
    assert any("key.pem: it is no public key" in p for p in validate.validate().problems)


def test_other_kinds_of_key_are_refused(desk, key):
    receipt, (private, _) = build.from_record(desk.record), key
    other = generate_private_key(SECP256R1()).private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    for content, says in ((other, "accepted: Ed25519"), (b"nothing", "accepted: PEM")):
        private.write_bytes(content)
        with pytest.raises(BadParameter, match=says):
            sign.sign(receipt, private, NOW)


def test_unknown_and_ended_keys_are_refused(desk, key, signed):
    receipt, _ = signed
    private, public = key
    with pytest.raises(BadSignature, match="was valid until 2027-12-03"):
        sign.sign(receipt, private, datetime(2028, 1, 1, tzinfo=UTC))
    kept = public.read_text()
    public.write_text(kept.replace("2027-12-03", "2026-11-01"))  # ended before the run did
    with pytest.raises(BadSignature, match="not as it was written"):
        sign.signed_by(receipt, receipts.path(receipt))
    public.unlink()
    with pytest.raises(BadSignature, match="is not in evidence/keys"):
        sign.signed_by(receipt, receipts.path(receipt))
    assert "bad signature" in pages.signer(receipt)
    assert any("is not in evidence/keys" in p for p in validate.validate().problems)


def test_a_key_that_ended_before_the_run_is_refused(desk, tmp_path_factory):
    private = tmp_path_factory.mktemp("old") / "key.pem"
    sign.keygen(private, 10, datetime(2026, 1, 1, tzinfo=UTC))
    receipt = build.from_record(desk.record)
    with pytest.raises(BadSignature, match="was valid until 2026-01-11"):
        sign.sign(receipt, private, datetime(2026, 1, 5, tzinfo=UTC))  # dated back or not


def test_the_signature_of_another_receipt_does_not_fit(desk, signed):
    receipt, path = signed
    (desk.root / "README").write_text("x")
    desk.commit()
    later = build.superseding(receipt["receipt_id"])
    sign.envelope_path(receipts.path(later)).write_bytes(path.read_bytes())
    with pytest.raises(BadSignature, match="is of another receipt"):
        sign.signed_by(later, receipts.path(later))
    assert pages.signer(receipt).startswith("key ")  # the earlier one stays signed
    with pytest.raises(ReproError):
        sign.signed_by(receipt | {"wall_s": 1.0}, receipts.path(receipt))


def test_without_an_envelope_it_is_unsigned_and_legal(desk):
    receipt = build.from_record(desk.record)
    assert sign.signed_by(receipt, receipts.path(receipt)) is None
    assert pages.signer(receipt) == "unsigned" and validate.validate().problems == []


def test_a_signature_is_listed_and_its_loss_is_seen(desk, key, signed):
    receipt, path = signed
    sign.sign(receipt, key[0], NOW)  # again: still one line
    lines = [e["path"] for e in receipts.CHAIN.entries()]
    assert lines == [receipts.name_of(receipts.path(receipt)), receipts.name_of(path)]
    assert [r["receipt_id"] for r in receipts.everything()] == [receipt["receipt_id"]]
    path.unlink()
    assert "bad signature" in pages.signer(receipt)
    (told,) = validate.validate().problems
    assert told.endswith(".dsse.json was put on it and is gone")


def test_an_envelope_that_no_line_names_is_a_problem(desk, key, signed):
    receipt, path = signed
    index = desk.root / receipts.CHAIN.name
    index.write_text(index.read_text().splitlines(keepends=True)[0])  # before it was committed
    (told,) = validate.validate().problems
    assert told == f"{receipts.name_of(path)} is in no line of {receipts.CHAIN.name}"
