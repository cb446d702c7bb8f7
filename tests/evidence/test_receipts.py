"""Receipts: what they are made from, what is refused, what they count for."""

import copy
import json
from datetime import UTC, datetime

import pytest
from desk import KEY, executed, made, session

from repro import levels, paths, records, runs, store
from repro.errors import BadParameter, ReproError
from repro.evidence import manifest, receipts, validate
from repro.evidence.receipts import attempt, build, claims, devices, pages, rerun, today
from repro.evidence.receipts import session as session_
from repro.paths import ROOT

GIB = 2**30
CLAIM = {
    "id": "demo",
    "evidence": {"notebooks": [KEY], "receipts": {"of": ["kernels/session"], "devices": ["A30"]}},
}


def sound():
    report = validate.validate("integrity")
    return report.problems


def with_id(receipt, **changed):
    body = copy.deepcopy(receipt) | changed
    return body | {"receipt_id": receipts.identity(body)}


def test_the_receipt_of_a_record_says_what_the_record_says(desk):
    made_ = build.from_record(desk.record)
    record = records.load(desk.record)
    for name in ("metrics", "versions", "started", "wall_s", "inputs", "peak_memory_bytes"):
        assert made_[name] == record[name]
    assert made_["seeds"] == [42] and made_["outcome"] == "passed" and made_["reason"] == ""
    assert made_["device"]["class"] == "CPU" and made_["expires"] == "2027-12-01T10:00:12Z"
    assert [f["role"] for f in made_["files"]] == ["record", "executed"]
    assert made_["source"]["clean"] and len(made_["source"]["commit"]) == 40
    assert receipts.read(receipts.path(made_)) == made_ == receipts.find(made_["receipt_id"][:8])
    copy_ = desk.root / "evidence/executed/actkv/kernels/cpu/seed-42.ipynb"
    assert store.record_of(copy_) == record
    assert sound() == [] and len(receipts.CHAIN.entries()) == 1


def test_the_same_receipt_twice_is_one_and_another_of_the_same_files_has_to_supersede(desk):
    first = build.from_record(desk.record)
    assert build.from_record(desk.record) == first and len(receipts.everything()) == 1
    (desk.root / "README").write_text("x")
    desk.commit()
    with pytest.raises(ReproError, match="repro evidence supersede"):
        build.from_record(desk.record)
    second = build.superseding(first["receipt_id"][:8])
    assert second["supersedes"] == first["receipt_id"]
    assert receipts.current() == [second] and receipts.everything() == [first, second]
    assert sound() == []
    (desk.root / "README").write_text("y")
    desk.commit()
    with pytest.raises(ReproError, match="not a current one"):
        build.superseding(first["receipt_id"][:8])


def test_a_superseded_receipt_stays_when_its_record_was_made_anew(desk):
    first = build.from_record(desk.record)
    desk.keep(made(desk.inputs, 0.7, started="2026-12-02T10:00:00Z"))
    assert any("is not what it names" in told for told in sound())
    second = build.superseding(first["receipt_id"])
    assert second["metrics"][0]["value"] == 0.7 and sound() == []


def test_without_the_executed_notebook_the_receipt_says_so(desk):
    for path in store.EXECUTED.rglob("*.ipynb"):
        path.write_text(json.dumps(executed(made(desk.inputs, 0.51))))  # of another execution
    found = build.from_record(desk.record)
    assert [f["role"] for f in found["files"]] == ["record"]
    assert "executed notebook" in found["limitations"][0] and sound() == []


def test_uncommitted_or_other_code_is_refused(desk):
    module = desk.root / "kernels/plan.py"
    kept = module.read_text()
    module.write_text(kept + "\nX = 1\n")
    with pytest.raises(ReproError, match="Not committed: kernels/plan.py"):
        build.from_record(desk.record)
    desk.commit()
    with pytest.raises(ReproError, match="other code than is committed: kernels.plan"):
        build.from_record(desk.record)
    module.write_text(kept + "\n# only a remark\n")
    desk.commit()
    assert build.from_record(desk.record) and sound() == []
    (desk.root / "constraints.txt").write_text("numpy==1.0\n")
    with pytest.raises(ReproError, match="Not committed: constraints.txt"):
        build.superseding(receipts.current()[0]["receipt_id"])


def test_a_record_elsewhere_or_of_another_device_is_refused(desk, tmp_path):
    other = tmp_path / "evidence/records/actkv/kernels/cpu/seed-7.json"
    other.write_text(desk.record.read_text())
    with pytest.raises(ReproError, match="is no committed record"):
        build.from_record(other)
    gpu = desk.keep(made(desk.inputs, device="A100-SXM4-80GB"))
    with pytest.raises(ReproError, match="Make its receipt where it ran"):
        build.from_record(gpu)


def test_on_the_card_itself_its_class_goes_into_the_receipt(desk, monkeypatch):
    card = devices.describe("Tesla T4", 15_600_000_000, "7.5")
    monkeypatch.setattr(devices, "here", lambda device: card)
    found = build.from_record(desk.keep(made(desk.inputs, device="Tesla T4")))
    assert (found["device"]["class"], found["device"]["name"]) == ("T4", "T4") and sound() == []


def test_a_hand_written_receipt_with_a_right_hash_is_caught_by_its_record(desk):
    good = build.from_record(desk.record)
    path = receipts.path(good)
    forged = copy.deepcopy(good)
    forged["metrics"][0]["value"] = 0.9
    forged = with_id(forged)
    path.unlink(), pages.path(good).unlink()
    (desk.root / receipts.CHAIN.name).unlink()
    receipts.write(forged)
    (told,) = [t for t in sound() if "seed-42.json" in t]
    assert "it says other things than evidence/records/" in told


def test_schema_and_rules_refuse_by_the_place(desk):
    good = build.from_record(desk.record)
    bad = [
        ("$.outcome", dict(outcome="perfect")),
        ("must contain", {"seeds": None}),
        ("$.reason", dict(outcome="timed_out")),
        ("$.reason", dict(reason="slow")),
        ("red check", dict(checks={"green": 3, "red": ["x"]})),
        ("$.expires", dict(expires="2020-01-01T00:00:00Z")),
        ("no date", dict(started="2026-02-31T00:00:00Z")),
        ("$.device.class", dict(device=good["device"] | {"class": "H200"})),
        ("$.device.partition", dict(device=good["device"] | {"partition": "vGPU"})),
        ("$.repeats", dict(kind="counter")),
        ("has no record", dict(files=[])),
        ("clean", dict(source=good["source"] | {"clean": False})),
    ]
    for says, changed in bad:
        body = with_id(good, **changed)
        if None in changed.values():
            del body["seeds"]
        with pytest.raises(ReproError) as raised:
            receipts.validate(body)
        assert says in str(raised.value), (says, str(raised.value))
    with pytest.raises(ReproError, match="receipt_id is not the hash"):
        receipts.validate(good | {"wall_s": 13.0})
    with pytest.raises(ReproError, match="must not contain"):
        receipts.validate(with_id(good, host="x"))


IP = "10." + "1.2.3"
SECRETS = ["/" + "home/someone/x", IP, "someone@" + "example.org", "GPU-" + "5f3a2b1c"]


def strings(value, at=""):
    """Pointers of all strings in plain JSON, with a function that sets each."""
    entries = value.items() if isinstance(value, dict) else enumerate(value)
    for key, entry in entries:
        if isinstance(entry, str):
            yield f"{at}/{key}", value, key
        elif isinstance(entry, (dict, list)):
            yield from strings(entry, f"{at}/{key}")


def test_a_secret_in_any_string_is_refused_and_not_repeated(desk):
    good = build.from_record(desk.record)
    count = sum(1 for _ in strings(good))
    assert count > 60
    for number in range(count):
        for secret in SECRETS if number % 5 == 0 else SECRETS[:1]:
            leaky = copy.deepcopy(good)
            pointer, holder, key = list(strings(leaky))[number]
            if secret == IP and ("/versions/" in pointer or "/packages/" in pointer):
                continue  # four numbers may be a version there
            holder[key] = secret
            if pointer != "/receipt_id":
                leaky = with_id(leaky)
            with pytest.raises(ReproError) as raised:
                receipts.validate(leaky)
            assert secret not in str(raised.value), pointer


def test_a_secret_in_free_text_is_named_by_pointer_only(desk):
    leaky = with_id(build.from_record(desk.record), limitations=["see " + SECRETS[0]])
    with pytest.raises(ReproError, match=r"/limitations/0: absolute_path") as raised:
        receipts.write(leaky)
    assert "someone" not in str(raised.value) and len(receipts.everything()) == 1


def test_nothing_is_half_written_and_a_write_can_be_repeated(desk):
    def full(*_):
        raise OSError(28, "No space left on device")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(receipts.Chain, "append", full)
        with pytest.raises(OSError, match="No space"):
            build.from_record(desk.record)
    assert receipts.everything() == [] and any("is in no line" in t for t in sound())
    build.from_record(desk.record)
    assert len(receipts.everything()) == 1 and sound() == []


# device classes


@pytest.mark.parametrize(
    ("name", "gib", "capability", "found", "part"),
    [
        ("NVIDIA A30", 23.5, "8.0", "A30", None),
        ("NVIDIA A100-SXM4-40GB", 39.4, "8.0", "A100-40GB", None),
        ("NVIDIA A100-PCIE-40GB", 39.4, "8.0", "A100-40GB", None),
        ("NVIDIA A100-SXM4-80GB", 79.2, "8.0", "A100-80GB", None),
        ("NVIDIA A100 80GB PCIe", 79.2, "8.0", "A100-80GB", None),
        ("NVIDIA A100-SXM4-80GB", 39.4, "8.0", "other", None),  # name and memory disagree
        ("NVIDIA A100-SXM4-80GB", 79.2, "9.0", "other", None),
        ("NVIDIA A100-SXM4-80GB MIG 1g.10gb", 9.5, "8.0", "A100-80GB", "MIG 1g.10gb"),
        ("GRID A100-40C", 39.4, "8.0", "other", "vGPU"),
        ("NVIDIA H100 80GB HBM3", 79.1, "9.0", "H100", None),
        ("NVIDIA H200", 139.8, "9.0", "H200", None),
        ("NVIDIA L4", 22.0, "8.9", "L4", None),
        ("Tesla T4", 14.6, "7.5", "T4", None),
        ("NVIDIA GeForce RTX 3090", 23.7, "8.6", "other", None),
        ("CPU", None, None, "CPU", None),
        ("simulator", None, None, "CPU", None),
    ],
)
def test_devices_are_classed_by_name_memory_and_capability(name, gib, capability, found, part):
    told = devices.describe(name, gib and int(gib * GIB), capability)
    assert (told["class"], told["partition"]) == (found, part) and told["list"] == 1


def test_the_issues_classes_are_listed():
    wanted = {"A30", "A100-40GB", "A100-80GB", "H100", "H200", "L4", "T4", "CPU"}
    assert wanted == set(devices.names())


# sessions


def write_session(desk, name="session.json", **changed):
    path = desk.root / "_build" / name
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(session(**changed)))
    return path


def test_the_receipt_of_a_session(desk):
    found = build.from_file(write_session(desk))
    assert found["subject"] == "kernels/session" and found["device"]["class"] == "A100-80GB"
    assert found["versions"]["torch"] == "2.13.0" and found["outcome"] == "passed"
    assert "kernels.speed" in found["inputs"]["modules"] and found["metrics"][0]["value"] == 1e12
    assert today.differences(found) == [] and sound() == []
    copy_ = desk.root / found["files"][0]["path"]
    assert copy_.name == "20261202100000.json"
    copy_.write_text(copy_.read_text().replace("1000000000000.0", "2000000000000.0"))
    assert any("is not what it names" in told for told in sound())


@pytest.mark.parametrize(
    ("errors", "red", "outcome"),
    [
        (["OutOfMemoryError: CUDA out of memory"], False, "out_of_memory"),
        (["OutOfMemoryError: x", "ValueError: y"], False, "failed"),
        (["CellTimeoutError: x"], False, "timed_out"),
        ([], True, "failed"),
    ],
)
def test_what_did_not_pass_is_recorded_with_its_reason(desk, errors, red, outcome):
    report = session()
    report["stages"][1]["checks"][0]["passed"] = not red
    for number, error in enumerate(errors):
        entry = {"name": f"s{number}", "state": "failed", "error": error, "wall_s": 0.1}
        report["stages"].append(entry)
    found = build.from_file(write_session(desk, stages=report["stages"]))
    assert found["outcome"] == outcome and found["reason"] and sound() == []
    assert receipts.counts(found, ["A100-80GB"]) == f"its outcome is {outcome}"


def test_a_session_that_checked_nothing_is_skipped_and_other_files_are_refused(desk):
    stages = session()["stages"][:1]
    assert build.from_file(write_session(desk, stages=stages))["outcome"] == "skipped"
    for changed in ({"kind": "x"}, {"stages": 3}, {"device": None}):
        with pytest.raises(ReproError, match="is no file of scripts/gpu_session.py"):
            build.from_file(write_session(desk, "other.json", **changed))
    with pytest.raises(ReproError, match="/note: absolute_path") as raised:
        build.from_file(write_session(desk, "leaky.json", note=SECRETS[0]))
    assert "someone" not in str(raised.value)


# runs that did not pass, and repetitions


@pytest.mark.parametrize(
    ("status", "message", "outcome"),
    [
        ("failed", "ValueError: x in the cell 'y'", "failed"),
        ("failed", "took longer than 6 s", "timed_out"),
        ("failed", "CellTimeoutError: a cell", "timed_out"),
        ("failed", "used more than 0.5 GiB of memory", "out_of_memory"),
        ("failed", "torch.OutOfMemoryError: CUDA out of memory.", "out_of_memory"),
        ("lost", "its process was ended by SIGKILL", "aborted"),
    ],
)
def test_every_end_of_a_run_can_be_recorded(desk, monkeypatch, status, message, outcome):
    monkeypatch.setattr(runs, "execute", lambda run: runs.Outcome(run, status, message))
    found = attempt.execute(KEY, "cpu", 42)
    assert found["outcome"] == outcome and found["reason"] == message and found["seeds"] == [42]
    assert found["metrics"] == [] and found["device"]["class"] == "CPU" and sound() == []


def test_a_run_without_its_assets_is_skipped(desk, monkeypatch):
    monkeypatch.setattr(attempt.assets, "lacking", lambda names: "asset x is not here")
    found = attempt.execute(KEY)
    assert found["outcome"] == "skipped" and found["reason"] == "asset x is not here"


def ends(monkeypatch, record):
    def execute(run):
        mine = record | {"inputs": run.inputs, "parameters": run.inputs["parameters"]}
        return runs.Outcome(run, "done", "", json.dumps(executed(mine)))

    monkeypatch.setattr(runs, "execute", execute)


def test_a_repetition_writes_a_counter_receipt(desk, monkeypatch):
    first = build.from_record(desk.record)
    later = made(desk.inputs, 0.505, started="2026-12-03T10:00:00Z")
    ends(monkeypatch, later)
    report = validate.validate("rerun")
    assert report.problems == [f"receipt {first['receipt_id'][:16]}: " + p for p in versions()]
    monkeypatch.setattr(today, "elsewhere", lambda receipt: [])  # of the made-up versions
    report = validate.validate("rerun")
    assert report.problems == []
    (counter,) = [r for r in receipts.everything() if r["kind"] == "counter"]
    assert counter["repeats"] == {
        "receipt_id": first["receipt_id"], "agrees": True, "tolerance": 0.01, "differences": []
    }  # fmt: skip
    assert receipts.current() == [first] and sound() == []
    assert "repeated, 1 of 1 agree" in pages.states(first, receipts.everything())
    ends(monkeypatch, later | {"metrics": made(desk.inputs, 0.6)["metrics"]})
    report = validate.validate("rerun", first["receipt_id"][:6])
    assert "does not repeat here: share was 0.5, is 0.6" in report.problems[0]
    assert sound() == []  # a disagreement is on file, and in order


def versions():
    """What the made-up record of `desk` says otherwise than this environment."""
    return [p for p in today.elsewhere({"versions": {"numpy": "2.4.0"}, "inputs": {"assets": {}}})]


def test_times_of_another_device_are_not_compared():
    old = {
        "outcome": "passed",
        "device": {"class": "A30"},
        "metrics": made({"parameters": {}})["metrics"],
    }
    new = copy.deepcopy(old) | {"device": {"class": "CPU"}}
    new["metrics"][1]["value"] = 99.0
    assert rerun.differences(old, new, 0.01) == []
    assert rerun.differences(old, new | {"device": {"class": "A30"}}, 0.01)
    failed = new | {"outcome": "failed", "reason": "x"}
    assert rerun.differences(old, failed, 0.01) == ["outcome was passed, is failed: x"]


# what they count for


def judged(desk, **evidence):
    claim = copy.deepcopy(CLAIM)
    claim["evidence"]["receipts"] |= evidence
    return claims.unmet(claim)


def test_a_claim_is_met_only_by_the_devices_it_names(desk):
    assert judged(desk) == ["no receipt of kernels/session on A30"]
    found = build.from_file(write_session(desk))
    name = found["receipt_id"][:16]
    assert judged(desk) == [
        "no receipt of kernels/session on A30",
        f"receipt {name} does not count: it is of A100-80GB, not of A30",
    ]
    assert judged(desk, devices=["A30", "A100-40GB"])[1].endswith("not of A30 or A100-40GB")
    assert judged(desk, devices=["A100-80GB"]) == []
    assert judged(desk, devices=["A100-80GB"], of=[KEY])[0].startswith(f"no receipt of {KEY}")
    assert receipts.everything() == [found] and sound() == []  # and it stays on file


def test_a_cpu_receipt_lifts_nothing(desk):
    build.from_record(desk.record)
    claim = {"id": "demo", "evidence": {"notebooks": [KEY], "receipts": {"devices": ["A30"]}}}
    assert claims.unmet(claim)[1].endswith("it is of CPU, not of A30")
    assert claims.unmet({"evidence": {"notebooks": [KEY]}}) is None
    asked = {"evidence": {"notebooks": [], "receipts": {"devices": ["A30", "CPU", "B9"]}}}
    assert claims.odd_devices(asked) == ["CPU", "B9"]


def test_slices_expired_and_stale_receipts_do_not_count(desk, monkeypatch):
    report = session(device="A100-SXM4-80GB MIG 1g.10gb")
    report["stages"][0]["facts"]["memory_bytes"] = 10_000_000_000
    sliced = build.from_file(write_session(desk, **report))
    assert "part of a device (MIG 1g.10gb)" in receipts.counts(sliced, ["A100-80GB"])
    whole = build.from_file(write_session(desk, started="2026-12-02T11:00:00Z"))
    assert receipts.counts(whole, ["A100-80GB"]) == ""
    late = datetime(2028, 1, 1, tzinfo=UTC)
    assert receipts.counts(whole, ["A100-80GB"], late) == "it expired 2027-12-02"
    assert judged(desk, devices=["A100-80GB"]) == []
    monkeypatch.setattr(session_, "inputs", lambda given: whole["inputs"] | {"cells": "0" * 64})
    assert "it is stale (the notebook's code changed)" in judged(desk, devices=["A100-80GB"])[-1]


def test_the_flag_and_the_reproduction_level_hang_on_the_receipt(desk, monkeypatch):
    claim = CLAIM | {
        "deviations": [],
        "needs": {},
        "evidence": {
            "notebooks": [KEY],
            "receipts": {"of": ["kernels/session"], "devices": ["A100-80GB"]},
        },
    }
    monkeypatch.setattr(levels, "_on_file", lambda key, profile: [])
    assert claims.FLAG not in levels.judge(claim).flags
    assert "no receipt of kernels/session on A100-80GB" in levels._lacks_reproduction(claim)
    build.from_file(write_session(desk))
    assert claims.FLAG in levels.judge(claim).flags
    assert not any("receipt" in told for told in levels._lacks_reproduction(claim))


# pages


def test_pages_say_it(desk):
    assert pages.listing().startswith("There are no receipts on file.")
    found = build.from_record(desk.record)
    name = found["receipt_id"][:16]
    text = pages.listing(lambda doc: doc == f"book/receipts/{name}")
    assert f"{{doc}}`{name} </book/receipts/{name}>`" in text and "unsigned" in text
    assert "None of them is of an accelerator" in text and "{doc}" not in pages.listing()
    page = pages.page(name)
    for told in (
        "`share`",
        "0.5",
        "CPU",
        "unsigned",
        found["receipt_id"],
        found["source"]["commit"],
    ):
        assert told in page
    assert "Stale" not in page
    assert pages.path(found).read_text() == f"# Receipt {name}\n\n```{{receipt}} {name}\n```\n"
    page_ = receipts.path(found)
    page_.write_text(page_.read_text().replace("0.5", "0.9"))
    for text in (pages.listing(), pages.page(name)):
        assert "is damaged.** " in text and "not the hash of the body" in text
    page_.write_text(page_.read_text().replace("0.9", "0.5"))
    build.from_file(write_session(desk))
    assert "None of them" not in pages.listing() and "A100-80GB" in pages.listing()


def test_a_stale_receipt_is_shown_as_stale(desk, monkeypatch):
    found = build.from_record(desk.record)
    other = found["inputs"] | {"cells": "0" * 64}
    monkeypatch.setattr(today, "inputs", lambda receipt: other)
    assert pages.states(found, [found]) == ["stale"]
    assert "**Stale.** Changed since: the notebook's code changed" in pages.page(
        found["receipt_id"]
    )
    report = validate.validate("inputs")
    assert any("the notebook's code changed" in told for told in report.problems)


def test_an_unknown_receipt_level_or_old_one_is_named(desk):
    for name in ("", "abc", "f" * 64):
        with pytest.raises(BadParameter, match="accepted: none"):
            receipts.find(name)
    with pytest.raises(BadParameter, match="level='deep'"):
        validate.validate("deep")
    with pytest.raises(BadParameter, match="names no record"):
        build.from_file(write_session(desk))
        build.superseding(receipts.current()[0]["receipt_id"])


def test_the_book_says_what_signing_does_not_prove():
    text = " ".join((ROOT / "book/evidence.md").read_text().split())
    assert "What a signature does not prove" in text
    for told in ("that the machine existed", "that the numbers are right", "when it was signed"):
        assert told in text
    assert "```{receipts}" in (ROOT / "book/ledger.md").read_text()
    assert paths.ROOT == ROOT and manifest.CHAIN.name.startswith("evidence/records/")


def test_a_session_is_repeated_in_the_simulator(desk, monkeypatch):
    stages = session()["stages"]
    report = session(stages=[stages[0], stages[1] | {"name": "right_compaction"}])
    first = build.from_file(write_session(desk, **report))
    monkeypatch.setattr(today, "elsewhere", lambda receipt: [])
    assert validate.validate("rerun").problems == []
    (counter,) = [r for r in receipts.everything() if r["kind"] == "counter"]
    assert counter["repeats"]["receipt_id"] == first["receipt_id"] and counter["repeats"]["agrees"]
    assert counter["checks"]["green"] >= 3 and counter["device"]["name"] == "simulator"
    assert "--device simulator" in " ".join(counter["command"])
    assert sound() == [] and receipts.counts(counter, ["A100-80GB"])  # it counts for no card
    # a kernel that is wrong today: the counter-receipt names the check, and stays on file
    odd = counter["checks"] | {"green": 2, "red": ["compaction.float32"]}
    kept = rerun.session.fields
    monkeypatch.setattr(
        rerun.session,
        "fields",
        lambda report: kept(report) | {"checks": odd, "outcome": "failed", "reason": "red: x"},
    )
    told = rerun.again(first)["repeats"]
    assert told["differences"] == ["compaction.float32 was green, is red"] and not told["agrees"]
