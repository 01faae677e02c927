"""Small helpers shared by the drivers that run real consumers of `mooncake` without a GPU.

stub_missing(names)   importable stand-ins for compiled GPU modules that are not installed
Checks                one line per check: "ok NAME" or "FAIL NAME why"
Peer / serve          a second process that answers JSON commands on its standard input
Evicted               what became of pages that were read while the pool evicts
while_storing         stores, and reads at the same time
common_args           --master, --host, --port-base, --evict, --trace and the hidden --role
"""

import argparse
import importlib.abc
import importlib.machinery
import importlib.util
import json
import os
import random
import subprocess
import sys
import threading
import traceback
import types

# ---- stand-ins for modules that only exist on GPU machines ---------------------------------


class _Meta(type):
    def __getattr__(cls, name):
        if name.startswith("__"):
            raise AttributeError(name)
        value = Anything()
        setattr(cls, name, value)
        return value


class Anything(metaclass=_Meta):
    """Answers every attribute, call and index; works as a decorator."""

    def __init__(self, *args, **kwargs):
        pass

    def __call__(self, *args, **kwargs):
        if len(args) == 1 and not kwargs and callable(args[0]):
            return args[0]
        return Anything()

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return Anything()

    def __getitem__(self, key):
        return Anything()

    def __mro_entries__(self, bases):
        return ()

    def __or__(self, other):
        return Anything()

    __ror__ = __or__


class _StubModule(types.ModuleType):
    __path__ = []

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        is_class = name.lstrip("_")[:1].isupper()
        value = type(name, (Anything,), {}) if is_class else Anything()
        setattr(self, name, value)
        return value


class _StubFinder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    def __init__(self, versions):
        self.versions = versions

    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in self.versions:
            return importlib.machinery.ModuleSpec(name, self, is_package=True)
        return None

    def create_module(self, spec):
        module = _StubModule(spec.name)
        module.__version__ = self.versions[spec.name.split(".")[0]]
        return module

    def exec_module(self, module):
        pass


def stub_missing(versions):
    """versions: {top-level module: version text}. Installed modules are left alone."""
    missing = {n: v for n, v in versions.items() if importlib.util.find_spec(n) is None}
    if missing:
        sys.meta_path.append(_StubFinder(missing))
    return sorted(missing)


# ---- checks --------------------------------------------------------------------------------


class Checks:
    def __init__(self):
        self.failed = 0
        self.count = 0

    def check(self, name, condition, why=""):
        self.count += 1
        if condition:
            print(f"ok {name}", flush=True)
        else:
            self.failed += 1
            print(f"FAIL {name} {str(why)[:400]}".rstrip(), flush=True)
        return bool(condition)

    def equal(self, name, got, wanted):
        return self.check(name, got == wanted, f"got {got!r}, wanted {wanted!r}")

    def run(self, name, function, *args):
        """Runs a group of checks; an exception in it is one failed check."""
        try:
            return function(*args)
        except Exception as error:
            last = traceback.extract_tb(error.__traceback__)[-1]
            where = f"{os.path.basename(last.filename)}:{last.lineno}"
            self.check(
                name, False, f"{type(error).__name__}: {error} at {where}".replace("\n", " ")
            )
            if os.environ.get("CONSUMER_TRACEBACK"):
                traceback.print_exc()
            return None

    def finish(self):
        print(f"# {self.count} checks, {self.failed} failed", flush=True)
        return 1 if self.failed else 0


# ---- pools that evict ----------------------------------------------------------------------


class Evicted:
    """Pages that were read while others pushed them out: each is whole and right, missing, or
    wrong. Wrong is what the consumer took for a hit with other bytes, or a miss that it wrote."""

    def __init__(self, whole=0, missing=0, wrong=0):
        self.whole, self.missing, self.wrong = whole, missing, wrong

    def page(self, hit, right, untouched=True):
        self.whole += bool(hit and right)
        self.missing += bool(not hit and untouched)
        self.wrong += bool(not right if hit else not untouched)

    def add(self, seen):
        self.whole += seen["whole"]
        self.missing += seen["missing"]
        self.wrong += seen["wrong"]

def while_storing(check, name, count, store, read):
    """store(number) for each of count; at the same time, in a thread, read(number) of what is
    stored, newer ones more often; then of all, newest first. read gives an Evicted's numbers.
    check(name, good, why) is called for what has to hold: nothing is wrong at any time, and in the
    end some pages are whole and some were evicted."""
    during, after = Evicted(), Evicted()
    stored, errors = [], []
    done = threading.Event()
    draw = random.Random(count)

    def beside():
        try:
            while not done.is_set():
                if not stored:
                    done.wait(0.001)
                    continue
                during.add(read(stored[-1 - int(draw.random() ** 2 * len(stored))]))
        except Exception as error:  # told by the thread that stores
            errors.append(error)

    thread = threading.Thread(target=beside)
    thread.start()
    try:
        for number in range(count):
            store(number)
            stored.append(number)
            if errors:
                break
    finally:
        done.set()
        thread.join()
    if errors:
        raise errors[0]
    for number in reversed(stored):
        after.add(read(number))
    print(f"# {name}: while storing {vars(during)}, afterwards {vars(after)}", flush=True)
    check(f"{name}/while-storing", during.wrong == 0, vars(during))
    check(f"{name}/nothing-wrong", after.wrong == 0, vars(after))
    check(f"{name}/some-whole", after.whole > 0, vars(after))
    check(f"{name}/some-evicted", after.missing > 0, vars(after))


# ---- the second process --------------------------------------------------------------------


class Peer:
    """Runs the same script again with --role NAME; call(op, **args) -> answer."""

    def __init__(self, script, role, arguments, env=None):
        command = [sys.executable, script, "--role", role] + arguments
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=env
        )

    def call(self, op, **arguments):
        self.process.stdin.write(json.dumps({"op": op, **arguments}) + "\n")
        self.process.stdin.flush()
        for line in self.process.stdout:
            if line.startswith("@@"):
                answer = json.loads(line[2:])
                if "error" in answer:
                    raise RuntimeError(f"second process, {op}: {answer['error']}")
                return answer["value"]
            sys.stderr.write(line)
        raise RuntimeError(f"second process ended during {op}, code {self.process.wait()}")

    def end(self, timeout=30):
        try:
            self.process.stdin.close()
        except OSError:
            pass
        try:
            return self.process.wait(timeout)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            return "killed"


def serve(handlers):
    """Answers one JSON command per line until standard input ends."""
    for line in sys.stdin:
        command = json.loads(line)
        try:
            answer = {"value": handlers[command.pop("op")](**command)}
        except Exception as error:
            if os.environ.get("CONSUMER_TRACEBACK"):
                traceback.print_exc()
            answer = {"error": f"{type(error).__name__}: {error}"}
        print("\n@@" + json.dumps(answer), flush=True)


# ---- command line --------------------------------------------------------------------------


def common_args(description):
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--master", required=True, help="HOST:PORT of the running master")
    parser.add_argument("--host", default="127.0.0.1", help="address of this machine")
    parser.add_argument(
        "--port-base",
        type=int,
        default=0,
        help="first of 100 ports to use; 0 lets every part choose its own",
    )
    parser.add_argument("--trace", help="append every call on `mooncake` to this file")
    parser.add_argument(
        "--evict", action="store_true", help="store twice what the pool holds, and nothing else"
    )
    parser.add_argument("--role", default="main", help=argparse.SUPPRESS)
    return parser


def start(args):
    """Applies the common options; call before the consumer is imported."""
    if args.port_base:
        low, high = (40, 69) if args.role == "main" else (70, 99)
        for name in ("RPC", "PRC"):  # both spellings are read upstream
            os.environ[f"MC_MIN_{name}_PORT"] = str(args.port_base + low)
            os.environ[f"MC_MAX_{name}_PORT"] = str(args.port_base + high)
    if args.trace:
        import mooncake_trace

        mooncake_trace.start(args.trace)


def own_name(args, index):
    """host or host:port for a store client; the second process uses other ports."""
    if not args.port_base:
        return args.host
    return f"{args.host}:{args.port_base + index + (0 if args.role == 'main' else 20)}"


def passed_on(args):
    """The arguments a second process needs."""
    out = ["--master", args.master, "--host", args.host, "--port-base", str(args.port_base)]
    return out + (["--trace", args.trace] if args.trace else [])
