"""What the cases share: rounds, clusters, figures, and the look at the numbers when one ends."""

import faulthandler
import os
import time

import pytest

import adapter
from rules import check_numbers

ROUNDS = int(os.environ.get("CASES_ROUNDS", "3"))
CASE_LIMIT_S = 400


def pytest_generate_tests(metafunc):
    if "round_number" in metafunc.fixturenames:
        metafunc.parametrize("round_number", range(1, ROUNDS + 1))


@pytest.fixture(autouse=True)
def limit(round_number):
    """Each round of each case has one, and ends by a trace of all its threads."""
    faulthandler.dump_traceback_later(CASE_LIMIT_S, exit=True)
    yield
    faulthandler.cancel_dump_traceback_later()


@pytest.fixture
def start(request):
    """Starts clusters; when the case has passed their numbers must add up and all must stop."""
    started = []

    def start_one(**options):
        started.append(adapter.Cluster(**options))
        return started[-1]

    yield start_one
    try:
        if not request.node.stash.get(FAILED, False):
            for cluster in started:
                cluster.alive(*filter(None, [cluster.master, *cluster.nodes]))
                if cluster.master is not None:
                    check_numbers(cluster)
                cluster.stop()
    finally:
        for cluster in started:
            cluster.kill()


@pytest.fixture
def standard(start):
    """The set-up S."""
    return start()


@pytest.fixture
def figure(record_property):
    """figure(name, value): what `tools/cases` prints beside the verdict."""
    return lambda name, value: record_property(
        name, "%.3g" % value if isinstance(value, float) else value)


@pytest.fixture(autouse=True)
def took(record_property, round_number):
    began = time.monotonic()
    yield
    record_property("took_s", round(time.monotonic() - began, 1))


FAILED = pytest.StashKey[bool]()


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    report = (yield).get_result()
    if report.when == "call":
        item.stash[FAILED] = report.failed
