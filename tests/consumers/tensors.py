"""Runs the tests of tensors (tests/mooncake) where torch is installed, on the packages that are
installed there; they start masters of their own.

  python tensors.py --master 127.0.0.1:50051
"""

import os
import pathlib
import sys

import mooncake
import pytest

TESTS = pathlib.Path(__file__).resolve().parent.parent / "mooncake"


class Lines:
    """One line a test: "ok NAME" or "FAIL NAME why"; one that was skipped has failed."""

    def pytest_runtest_logreport(self, report):
        if report.when == "call" or report.outcome != "passed":
            good = report.outcome == "passed"
            name = report.nodeid.rpartition("::")[2]
            print("ok %s" % name if good else "FAIL %s %s" % (name, report.longreprtext),
                  flush=True)

    def pytest_collectreport(self, report):
        if report.outcome != "passed":
            print("FAIL %s %s" % (report.nodeid, report.longrepr), flush=True)


def main():
    os.environ["TEST_BINARY"] = str(
        pathlib.Path(mooncake.__file__).parent / "bin/mooncake_master"
    )
    return pytest.main(
        ["-p", "no:cacheprovider", "-p", "no:terminal", "-W", "error",
         str(TESTS / "test_tensors.py"), str(TESTS / "test_parallelism.py")],
        plugins=[Lines()],
    )


if __name__ == "__main__":
    sys.exit(main())
