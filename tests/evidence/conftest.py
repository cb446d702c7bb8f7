import pytest
from desk import Desk, template


@pytest.fixture(scope="session")
def committed_code(tmp_path_factory):
    return template(tmp_path_factory.mktemp("template"))


@pytest.fixture
def desk(tmp_path, monkeypatch, committed_code):
    """A repository of the test's own; `repro`'s paths lead there."""
    return Desk(tmp_path, monkeypatch, committed_code)
