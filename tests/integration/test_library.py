"""The library as others get it: installed, linked in four ways, with an interface that stays."""

import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import unittest

import installed
from cluster import BINARY, DEADLINE_S, SOURCE, Case, Process
from installed import CC, CFLAGS, CMAKE, call

SANITIZED = "sanitize" in CFLAGS
GOLDEN = os.path.join(SOURCE, "tests/golden")
EXAMPLES = os.path.join(SOURCE, "examples")


def setUpModule():
    global prefix
    prefix = tempfile.mkdtemp()
    installed.install(prefix)


def tearDownModule():
    shutil.rmtree(prefix)


def library_dir():
    return installed.library_dir(prefix)


def pkg_config(*arguments):
    return installed.pkg_config(prefix, *arguments)


class Installed(Case):
    def test_versions_agree(self):
        version = call(BINARY, "--version").split()[1]
        self.assertEqual(call(os.path.join(prefix, "bin/snowskin"), "--version"),
                         f"snowskin {version}\n")
        for name in ("snowskin", "snowskin-static"):
            self.assertEqual(pkg_config("--modversion", name), [version])

    def test_shared_name(self):
        lines = call("readelf", "-d", os.path.join(library_dir(), "libsnowskin.so"))
        with open(os.path.join(prefix, "include/snowskin/api.h")) as header:
            abi = re.search(r"SNOW_ABI (\d+)", header.read()).group(1)
        self.assertIn(f"soname: [libsnowskin.so.{abi}]", lines)
        self.assertNotIn("RUNPATH", lines)
        self.assertTrue(os.path.exists(os.path.join(library_dir(), f"libsnowskin.so.{abi}")))


class Examples(Case):
    """Built against the installed prefix, run against a cluster."""

    @classmethod
    def setUpClass(cls):
        cls.cluster = Process("dev", "--master-listen", "127.0.0.1:0", "--memory", "64MiB",
                              expect="ready")

    @classmethod
    def tearDownClass(cls):
        cls.cluster.stop()

    def setUp(self):
        super().setUp()
        self.folder = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.folder)

    def run_examples(self, shared):
        for name, said in (("put_get", "example/page/2"), ("layers", "32 of 32 layers computed")):
            self.run_example(name, shared, said)

    def run_example(self, name, shared, said):
        program = os.path.join(self.folder, name)
        linked = call("ldd", program)
        self.assertEqual("libsnowskin.so" in linked or "not found" in linked, shared, linked)
        output = call(program, self.cluster.address, env={"LD_LIBRARY_PATH": library_dir()})
        self.assertIn(said, output)

    def build(self, package):
        for name in sorted(os.listdir(EXAMPLES)):
            if name.endswith(".c"):
                call(CC, *shlex.split(CFLAGS), "-Wall", "-Wextra", "-Werror",
                     os.path.join(EXAMPLES, name), *pkg_config("--cflags", "--libs", package),
                     "-o", os.path.join(self.folder, name[:-2]))

    def test_pkg_config_shared(self):
        self.build("snowskin")
        self.run_examples(True)

    def test_pkg_config_static(self):
        self.build("snowskin-static")
        self.run_examples(False)

    def build_by_cmake(self, *options):
        call(CMAKE, "-S", EXAMPLES, "-B", self.folder, f"-DCMAKE_PREFIX_PATH={prefix}",
             f"-DCMAKE_C_COMPILER={CC}", f"-DCMAKE_C_FLAGS={CFLAGS}", *options)
        call(CMAKE, "--build", self.folder)

    def test_find_package_shared(self):
        self.build_by_cmake()
        self.run_examples(True)

    def test_find_package_static(self):
        self.build_by_cmake("-DSTATIC=ON")
        self.run_examples(False)

    def test_no_cluster_is_told(self):
        self.build("snowskin")
        done = subprocess.run([os.path.join(self.folder, "put_get"), "127.0.0.1:1"],
                              capture_output=True, text=True, timeout=DEADLINE_S,
                              env={**os.environ, "LD_LIBRARY_PATH": library_dir()})
        self.assertEqual(done.returncode, 1)
        self.assertIn("the master at 127.0.0.1:1 can not be reached", done.stderr)


class Processes(Case):
    """Programs that fork, exit in the middle of calls, and are interrupted."""

    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.mkdtemp()
        cls.program = installed.compile_program(prefix, "trials", cls.folder)

    @classmethod
    def tearDownClass(cls):
        shutil.rmtree(cls.folder)

    def cluster(self):
        return Process("dev", "--master-listen", "127.0.0.1:0", "--memory", "64MiB",
                       expect="ready")

    def test_forks(self):
        cluster = self.cluster()
        call(self.program, "fork_alone", cluster.address)
        if "address" not in CFLAGS:  # its allocator does not survive a fork beside other threads
            call(self.program, "fork", cluster.address)
        cluster.stop()

    def test_exits_with_calls_under_way(self):
        cluster = self.cluster()
        for _ in range(20):
            call(self.program, "exit", cluster.address)
        cluster.stop()

    def test_signals(self):
        cluster = self.cluster()
        call(self.program, "signals", cluster.address)
        cluster.stop()

    def test_the_other_side_goes_away(self):
        for _ in range(5):
            cluster = self.cluster()
            program = subprocess.Popen([self.program, "pipe", cluster.address], text=True,
                                       stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)
            self.assertEqual(program.stdout.readline(), "ready\n")
            cluster.kill()
            self.assertEqual(program.wait(timeout=DEADLINE_S), 0)
            program.stdout.close()


class Cxx(Case):
    PROGRAM = """
        #include <snowskin/snowskin.h>
        int main()
        {
            struct snow_options options;
            struct snow_put put = {};
            snow_options_init(&options);
            put.depth = SNOW_DEPTH_UNKNOWN;
            return options.verify == 1 && put.depth != 0 && snow_version()[0] != 0 &&
                   snow_status_verdict(SNOW_OK) == SNOW_DONE ? 0 : 1;
        }
    """

    def test_header_is_cxx(self):
        compilers = [name for name in ("g++", "clang++") if shutil.which(name)]
        self.assertTrue(compilers, "no C++ compiler; tools/deps installs one")
        for compiler in compilers:
            for standard in ("c++11", "c++20"):
                with tempfile.TemporaryDirectory() as folder:
                    program = os.path.join(folder, "program")
                    call(compiler, f"-std={standard}", "-Wall", "-Wextra", "-pedantic", "-Werror",
                         "-x", "c++", "-", "-x", "none", "-o", program,
                         *([] if SANITIZED else pkg_config("--libs", "snowskin")),
                         *(["-c"] if SANITIZED else []),
                         *pkg_config("--cflags", "snowskin"), input=self.PROGRAM)
                    if not SANITIZED:
                        call(program, env={"LD_LIBRARY_PATH": library_dir()})


class Interface(Case):
    """Programs that were compiled yesterday run with today's library."""

    def test_symbols(self):
        with open(os.path.join(SOURCE, "src/client/snowskin.map")) as file:
            mapped = re.findall(r"^ +(snow_\w+);", file.read(), re.M)
        lines = call("nm", "-D", "--defined-only", os.path.join(library_dir(), "libsnowskin.so"))
        shared = re.findall(r" T (\w+)@@SNOWSKIN_\d+$", lines, re.M)
        self.assertEqual(sorted(shared), sorted(mapped))
        lines = call("nm", "-g", "--defined-only", os.path.join(library_dir(), "libsnowskin.a"))
        self.assertEqual(sorted(re.findall(r"^\w{16} \w (\w+)$", lines, re.M)), sorted(mapped))

    def test_numbers(self):
        """Sizes, offsets and values; what the file has stays, what is new is appended to it."""
        with open(os.path.join(GOLDEN, "abi_v1.txt")) as file:
            recorded = file.read().splitlines()
        now = call(sys.executable, os.path.join(SOURCE, "tools/abi"), "numbers",
                   env={"CC": CC}).splitlines()
        self.assertEqual([line for line in recorded if line not in now], [],
                         "programs that are compiled already would break")
        self.assertEqual([line for line in now if line not in recorded], [],
                         "append these lines to tests/golden/abi_v1.txt")

    @unittest.skipIf(SANITIZED or shutil.which("abidiff") is None, "needs abidiff, a plain build")
    def test_description(self):
        """What libabigail sees, types of arguments included."""
        done = subprocess.run(
            ["abidiff", os.path.join(GOLDEN, "abi_v1.abi"),
             os.path.join(library_dir(), "libsnowskin.so")],
            capture_output=True, text=True, timeout=DEADLINE_S)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr +
                         "\nmeant? tools/abi describe writes tests/golden/abi_v1.abi again")


if __name__ == "__main__":
    unittest.main()
