"""The runner is strict where Papermill is not (rows of the failure list are named in each test)."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time

import psutil
import pytest
from project import CHECK, PARAMETERS, Project

from repro.records import MIME as RECORD_MIME


@pytest.fixture
def project(tmp_path) -> Project:
    return Project(tmp_path)


def test_good_run_is_kept_and_not_repeated(project):
    project.write("good", CHECK)
    code, output = project.repro("run", "demo/good")
    assert code == 0 and "1 of 1 checks are green" in output
    (kept,) = project.results()
    before = kept.stat().st_mtime_ns
    code, output = project.repro("run", "demo")
    assert code == 0 and "fresh, nothing to do" in output
    assert kept.stat().st_mtime_ns == before


@pytest.mark.parametrize(
    "arguments, says",
    [
        (("-p", "x=1;import os", "2"), "is unknown to demo/good"),  # row 1: code in a name
        (("-p", "sede", "7"), "'sede' is unknown"),  # row 2: misspelt
        (("-p", "seed", "007"), "seed='007' is not accepted"),  # row 4: type guessed from text
        (("-p", "seed", "x"), "seed='x' is not accepted: it takes an integer"),
        (("-p", "share", "half"), "share='half' is not accepted: it takes a number"),
        (("-p", "record", "/tmp/x"), "record is set by the runner"),
        (("--profile", "huge"), "Profile 'huge' does not exist"),
        (("--seeds", "1;2"), "is not a list like 42,43,44"),
    ],
)
def test_bad_parameter_is_refused_before_anything_runs(project, arguments, says):
    project.write("good", CHECK)
    code, output = project.repro("run", "demo/good", *arguments)
    assert code == 2 and says in output and "Traceback" not in output
    assert project.results() == []


def test_text_parameter_keeps_its_zeros_and_quotes(project):  # row 4, row 11
    project.write("text", 'run.check("kept", word == "007\'\\"\\n;", "text arrives as given")')
    code, output = project.repro("run", "demo/text", "-p", "word", "007'\"\n;")
    assert code == 0, output


@pytest.mark.parametrize(
    "change, says",
    [
        ({"parameters": PARAMETERS + "half: float = share / 2  # derived\n"}, "name: type = lit"),
        ({"parameters": PARAMETERS + "n = 3  # no type\n"}, "only 'name: type = literal'"),
        ({"parameters": PARAMETERS.replace("seed: int = 42", "seed: int = 'a'")}, "not a int"),
        ({"parameters": PARAMETERS.replace("fault", "flaw")}, "'fault: str' is missing"),
        ({"metadata": {"execution": {"allow_errors": True}}}, "allow_errors"),  # row 10
    ],
)
def test_notebook_that_breaks_the_contract_is_refused(project, change, says):  # rows 3, 5, 10
    project.write("bad", CHECK, **change)
    code, output = project.repro("run", "demo/bad")
    assert code == 1 and says in output
    assert project.results() == []


def test_missing_parameters_tag_is_refused(project):  # row 3
    path = project.write("untagged", CHECK)
    content = json.loads(path.read_text())
    content["cells"][1]["metadata"] = {}
    path.write_text(json.dumps(content))
    code, output = project.repro("run", "demo/untagged")
    assert code == 1 and "must carry the tag 'parameters'" in output


@pytest.mark.parametrize(
    "source, says",
    [
        ("import sys; sys.exit(0)", "stopped early"),  # row 6: Papermill's exit code is 0
        ("import os; os.kill(os.getpid(), 9)", "DeadKernelError"),  # row 7
        ("raise ValueError('told you')", "told you in the cell 'raise Value"),
        # row 9: no traceback is shown, nbmake passes
        (
            "class Quiet(Exception):\n    def _render_traceback_(self): return []\nraise Quiet()",
            "Quiet",
        ),
        ("run.check('red', False, 'never')", "red without a planted fault: red"),
        ("run.metric('m', float('nan'), unit='x', direction='none', split='s', n=1)", "finite"),
        ("run.finish = lambda: None", "no record"),
    ],
)
def test_failed_run_is_named_and_leaves_nothing(project, source, says):
    project.write("fails", CHECK, source)
    code, output = project.repro("run", "demo/fails")
    assert code == 1 and says in output and "demo/fails" in output
    assert project.results() == []


def test_planted_fault_is_red_in_the_record_and_not_an_error(project):
    project.write("good", CHECK)
    code, output = project.repro("run", "demo/good", "-p", "fault", "broken")
    assert (
        code == 0
        and "0 of 1 checks are green" in output
        and "'broken' is planted; red: one." in output
    )
    (kept,) = project.results()
    (record,) = (
        output["data"][RECORD_MIME]
        for output in json.loads(kept.read_text())["cells"][-1]["outputs"]
        if RECORD_MIME in output.get("data", {})
    )
    assert record["checks"] == [{"name": "one", "passed": False, "sentence": "one is one"}]
    assert project.states() == {"demo/good": "missing"}  # a faulty run is nobody's live result


def test_earlier_result_survives_a_full_disk(project):  # row 8
    project.write("good", CHECK)
    assert project.repro("run", "demo/good")[0] == 0
    (kept,) = project.results()
    content = kept.read_bytes()
    script = (
        "import os, repro.files as f\n"
        "def full(handle): raise OSError(28, 'No space left on device')\n"
        "f.os.fsync = full\n"
        "from repro.cli import main; main()"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, "run", "demo/good", "--force"],
        cwd=project.folder,
        env=os.environ | {"PYTHONPATH": str(project.folder)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 1 and "No space left on device" in done.stdout
    assert project.results() == [kept] and kept.read_bytes() == content


def test_results_lie_outside_the_notebooks_and_cwd_is_the_notebooks_folder(project):  # 12, 13
    source = "import pathlib\nrun.check('cwd', pathlib.Path.cwd().name == 'demo', 'here')"
    project.write("place", source)
    code, output = project.repro("run", "demo/place")
    assert code == 0, output
    assert all("notebooks" not in p.relative_to(project.folder).parts for p in project.results())


def test_killed_worker_is_retried(project, tmp_path):
    flag = project.folder / "second"
    wait = (
        f"import pathlib, time\nflag = pathlib.Path({str(flag)!r})\n"
        "if not flag.exists():\n    flag.touch()\n    time.sleep(120)"
    )
    project.write("slow", CHECK, wait)
    process = project.start("run", "demo/slow")
    worker = _wait_for_worker(process, flag)
    kernels = worker.children(recursive=True)
    os.kill(worker.pid, signal.SIGKILL)
    output, _ = process.communicate(timeout=120)
    assert process.returncode == 0 and "1 of 1 checks are green" in output
    assert len(project.results()) == 1
    assert not any(_alive(k) for k in kernels), "the killed worker's kernel is still running"


def test_worker_killed_each_time_is_reported(project):
    project.write("dies", CHECK, "import os; os.kill(os.getppid(), 9)")
    code, output = project.repro("run", "demo/dies")
    assert code == 1 and "its process was ended by SIGKILL" in output
    assert project.results() == []


def test_interrupt_keeps_what_finished(project):
    flag = project.folder / "sleeping"
    project.write("a", CHECK)
    project.write(
        "b", CHECK, f"import pathlib, time; pathlib.Path({str(flag)!r}).touch(); time.sleep(120)"
    )
    process = project.start("run", "demo", "--workers", "1")
    worker = _wait_for_worker(process, flag)
    children = worker.children(recursive=True)
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=60)
    assert process.returncode != 0
    assert [p.parent.name for p in project.results()] == ["a"]
    assert not any(_alive(p) for p in [worker, *children])


def test_two_runners_execute_a_run_once(project):
    project.write("slow", CHECK, "import time; time.sleep(3)")
    both = [project.start("run", "demo/slow") for _ in range(2)]
    outputs = [process.communicate(timeout=120)[0] for process in both]
    assert all(process.returncode == 0 for process in both)
    assert sum("nothing to do" in output for output in outputs) == 1
    assert len(project.results()) == 1


@pytest.mark.parametrize(
    "limits, source, says",
    [
        ("notebook_s: 6", "import time; time.sleep(120)", "took longer than 6 s"),
        ("cell_s: 2", "import time; time.sleep(120)", "CellTimeoutError"),
        ("memory_gib: 0.5", "x = bytearray(2**30); import time; time.sleep(120)", "than 0.5 GiB"),
    ],
)
def test_limits(project, limits, source, says):
    profile = f"summary: tight\nseeds: [1]\nlimits: {{{limits}}}\n"
    (project.folder / "profiles" / "tight.yml").write_text(profile)
    project.write("greedy", CHECK, source)
    code, output = project.repro("run", "demo/greedy", "--profile", "tight")
    assert code == 1 and says in output
    assert project.results() == []


def test_profile_writes_records_but_single_parameters_do_not(project):
    (project.folder / "profiles" / "tiny.yml").write_text(
        "summary: tiny\nseeds: [1, 2]\nnotebooks: {demo/good: {word: small}}\n"
    )
    project.write("good", CHECK)
    code, output = project.repro("run", "demo/good", "--profile", "tiny")
    assert code == 0, output
    folder = project.folder / "evidence" / "records" / "demo" / "good" / "tiny"
    assert sorted(p.name for p in folder.iterdir()) == ["seed-1.json", "seed-2.json"]
    record = json.loads((folder / "seed-1.json").read_text())
    assert record["parameters"] == {
        "seed": 1, "device": "auto", "fault": "", "word": "small", "share": 0.5
    }  # fmt: skip
    before = (folder / "seed-1.json").read_bytes()
    assert project.repro("run", "demo/good", "--profile", "tiny", "-p", "share", "0.25")[0] == 0
    assert (folder / "seed-1.json").read_bytes() == before


def test_re_execution_is_held_against_the_record_on_file(project):
    (project.folder / "profiles" / "tiny.yml").write_text(
        "summary: tiny\nseeds: [1]\ntolerance: 0.001\nnotebooks: {demo/good: {word: small}}\n"
    )
    metric = "run.metric('m', 0.5, unit='x', direction='none', split='s', n=1)"
    project.write("good", CHECK, metric)
    command = ("run", "demo/good", "--profile", "tiny")
    assert project.repro(*command)[0] == 0
    path = project.folder / "evidence/records/demo/good/tiny/seed-1.json"
    kept = path.read_text()
    for value, code, says in (
        ("0.5", 0, "all 1 metrics as on file, to 0.001"),
        ("0.5009", 0, "as on file"),
        ("0.502", 1, "not what is on file, to 0.001: m was 0.502, is 0.5"),
    ):
        edited = kept.replace('"value": 0.5', f'"value": {value}')
        path.write_text(edited)
        shutil.rmtree(project.folder / "_build", ignore_errors=True)
        found, output = project.repro(*command)
        assert found == code and says in output
        assert path.read_text() == edited
    assert project.repro(*command, "--force")[0] == 0
    assert '"value": 0.5,' in path.read_text().replace("\n", ",")


CLUSTER = """
from distributed import LocalCluster
if __name__ == "__main__":
    options = dict(n_workers=2, threads_per_worker=1, dashboard_address=None)
    with LocalCluster(**options, resources=RESOURCES) as cluster:
        print(cluster.scheduler_address, flush=True)
        input()
"""


@pytest.fixture(params=[{}])
def scheduler(request, project):
    """Address of a Dask scheduler with two workers, which have the resources of the parameter."""
    (project.folder / "cluster.py").write_text(f"RESOURCES = {request.param}\n{CLUSTER}")
    cluster = subprocess.Popen(
        [sys.executable, "cluster.py"],
        cwd=project.folder,
        env=os.environ | {"PYTHONPATH": str(project.folder)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        yield cluster.stdout.readline().strip()
    finally:
        cluster.communicate("\n", timeout=60)


def test_dask_workers_give_the_same_records(project, scheduler):
    project.write("a", CHECK)
    project.write("b", CHECK)
    code, output = project.repro("run", "demo", "--scheduler", scheduler)
    assert code == 0, output
    assert [p.parent.name for p in project.results()] == ["a", "b"]
    assert set(project.states().values()) == {"fresh"}


def test_a_killed_dask_worker_loses_no_run_and_none_is_computed_twice(project, scheduler):
    # The first run kills the worker above it: kernel, repro.worker, Dask's worker.
    killing = (
        "import pathlib, psutil, time\n"
        f"seen = pathlib.Path({str(project.folder / 'seen')!r})\n"
        "first = not seen.exists()\n"
        "seen.open('a').write('x')\n"
        "if first:\n"
        "    psutil.Process().parent().parent().kill()\n"
        "    time.sleep(60)"
    )
    project.write("a", killing, CHECK)
    counting = (
        f"open({str(project.folder / 'counted')!r}, 'a').write('x'); import time\ntime.sleep(4)"
    )
    project.write("b", counting, CHECK)
    both = [project.start("run", "demo", "--scheduler", scheduler) for _ in range(2)]
    for process in both:
        output, _ = process.communicate(timeout=180)
        assert process.returncode == 0, output
    assert [p.parent.name for p in project.results()] == ["a", "b"]
    assert (project.folder / "seen").read_text() == "xx"
    assert (project.folder / "counted").read_text() == "x"


@pytest.mark.parametrize("scheduler", [{}, {"GPU": 1}], ids=["none", "gpu"], indirect=True)
def test_a_run_on_a_gpu_goes_to_a_worker_that_has_one(project, scheduler, request):
    project.write("a", CHECK)
    code, output = project.repro("run", "demo/a", "-p", "device", "cuda", "--scheduler", scheduler)
    if request.node.callspec.id == "gpu":
        assert code == 0, output
    else:
        assert code == 1 and "no worker of the scheduler offers a GPU" in output


def test_plain_papermill_writes_the_same_record(project):
    path = project.write("good", CHECK)
    record = project.folder / "record.json"
    command = [
        sys.executable,
        "-m",
        "papermill",
        str(path),
        str(project.folder / "out.ipynb"),
        "-p",
        "seed",
        "43",
    ]
    done = subprocess.run(
        [*command, "-p", "record", str(record)],
        env=os.environ | {"PYTHONPATH": str(project.folder)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr[-500:]
    plain = json.loads(record.read_text())
    assert project.repro("run", "demo/good", "-p", "seed", "43")[0] == 0
    (kept,) = project.results()
    assert kept.stem == plain["digest"][:16]


def _wait_for_worker(process: subprocess.Popen, flag) -> psutil.Process:
    for _ in range(600):
        if flag.exists():
            for child in psutil.Process(process.pid).children():
                if "repro.worker" in child.cmdline():
                    return child
        time.sleep(0.1)
    process.kill()
    raise AssertionError(f"no worker started: {process.communicate()[0]}")


def _alive(process: psutil.Process) -> bool:
    for _ in range(50):
        if not process.is_running() or process.status() == psutil.STATUS_ZOMBIE:
            return False
        time.sleep(0.1)
    return True


@pytest.mark.parametrize(
    "source",
    [
        "import os; os.write(2, b'x' * 300_000)",  # more than a pipe holds
        "import os, time\nif os.fork() == 0: os.setsid(); time.sleep(100); os._exit(0)",
        "from IPython.display import JSON, display; display(JSON([{'a': 1}]))",
    ],
)
def test_noise_and_children_neither_stop_nor_outlive_a_run(project, source):
    project.write("odd", CHECK, source)
    before = {p.pid for p in psutil.process_iter()}
    code, output = project.repro("run", "demo/odd")
    assert code == 0, output
    left = [p for p in psutil.process_iter(["pid", "environ"]) if p.pid not in before]
    ours = [p for p in left if str(project.folder) in str(p.info["environ"])]
    assert not [p for p in ours if _alive(p)]


@pytest.mark.parametrize(
    "source, says",
    [
        ("run.check('cwd', True, '/srv/ada/secret/x')", "/checks/1/sentence: absolute_path"),
        ("from repro.records import MIME\nfrom IPython.display import display\n"
         "display({MIME: {}, 'text/plain': 'x'}, raw=True)", "no record, or several"),
    ],
)  # fmt: skip
def test_record_that_leaks_or_is_forged_is_refused(project, source, says):
    project.write("odd", CHECK, source)
    code, output = project.repro("run", "demo/odd")
    assert code == 1 and says in output, output
    assert project.results() == []


def test_terminated_runner_takes_its_kernels_along(project):
    flag = project.folder / "sleeping"
    wait = f"import pathlib, time; pathlib.Path({str(flag)!r}).touch(); time.sleep(120)"
    project.write("slow", CHECK, wait)
    process = project.start("run", "demo/slow")
    worker = _wait_for_worker(process, flag)
    family = [worker, *worker.children(recursive=True)]
    process.terminate()
    process.communicate(timeout=60)
    assert not any(_alive(p) for p in family) and project.results() == []


def test_infinite_number_is_refused(project):
    project.write("good", CHECK)
    code, output = project.repro("run", "demo/good", "-p", "share", "nan")
    assert code == 2 and "takes a finite number" in output


def test_a_broken_file_is_one_paragraph(project):
    project.write("one", CHECK)
    profile = project.folder / "profiles" / "odd.yml"
    for text, says in (
        ("summary: [x", "odd.yml is not readable as YAML"),
        ("", "profiles/odd.yml"),
    ):
        profile.write_text(text)
        code, output = project.repro("run", "demo/one", "--profile", "odd")
        assert code == 1 and says in output and "Traceback" not in output
    profile.unlink()
    (project.folder / "_build").write_text("in the way")
    code, output = project.repro("run", "demo/one")
    assert code == 1 and "Traceback" not in output


def test_a_seed_named_twice_runs_once(project):
    project.write("one", CHECK)
    code, output = project.repro("run", "demo/one", "--seeds", "1,1")
    assert code == 0 and output.count("seed 1") == 1
