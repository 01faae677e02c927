"""What calls come to (behaviour.py), held to what stands there of Snowskin."""
import os
import shlex
import sys

import pytest

import behaviour
from conftest import BINARY


@pytest.fixture(autouse=True)
def own_command(monkeypatch):
    """The package's command, as its console script starts it."""
    monkeypatch.setenv("PATH", os.path.dirname(BINARY) + os.pathsep + os.environ["PATH"])
    monkeypatch.setenv("MOONCAKE_MASTER", shlex.join(
        [sys.executable, "-c", "import sys; from mooncake import cli; sys.exit(cli.master())"]))


@pytest.mark.parametrize("name", behaviour.CASES)
def test_case(name):
    _, ours, why = behaviour.CASES[name]
    assert behaviour.run(name) == ours
    assert set(why) <= {behaviour.word(seen) for seen in ours}
