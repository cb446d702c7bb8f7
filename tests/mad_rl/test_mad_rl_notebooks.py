"""The notebooks keep the contract, and rest on what they should and no more."""

import pytest

from repro import digest, notebooks
from repro.mad_rl import rewards_faults, simulation_faults, training_faults

FAULTS = {
    "rewards": rewards_faults.FAULTS,
    "simulation": simulation_faults.FAULTS,
    "training": training_faults.FAULTS,
}
ASSETS = {"rewards": (), "simulation": (), "training": ("smollm2-135m",)}


@pytest.mark.parametrize("name", FAULTS)
def test_notebook_rests_on_its_chapter(name):
    notebook = notebooks.read(f"mad_rl/{name}")
    assert notebook.assets == ASSETS[name] and len(FAULTS[name]) >= 3
    inputs = digest.inputs(notebook, notebook.values())
    assert "repro.mad_rl.rewards" in inputs["modules"]
    assert ("torch" in inputs["packages"]) == (name == "training")
    other = {"repro.actkv", "repro.toolsearcher", "repro.recursive_opsd"}
    assert not any(m.startswith(tuple(other)) for m in inputs["modules"])


@pytest.mark.parametrize("name", FAULTS)
def test_fault_names_in_the_text_exist(name):
    notebook = notebooks.read(f"mad_rl/{name}")
    comment = notebook.parameters["fault"].comment
    assert comment.split()[-1] in FAULTS[name]
