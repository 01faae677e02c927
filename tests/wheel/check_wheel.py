"""Holds a wheel to what people may rely on:  check_wheel.py WHEEL FOLDER MODULE...

FOLDER: where it was installed; MODULE: what programs import of it."""
import email
import pathlib
import re
import resource
import subprocess
import sys
import zipfile

WHEEL_BYTES_MAX = 5 << 20
IMPORT_S_MAX = 0.1
# What every Linux of that glibc has; the rest has to be inside.
OF_THE_SYSTEM = re.compile(r"lib(c|m|dl|rt|pthread)\.so\.\d+|ld-linux-x86-64\.so\.2|"
                           r"ld-linux-aarch64\.so\.1")
IMPORT = """
import os, sys
before = os.listdir("/proc/self/task")
for name in sys.argv[1:]:
    __import__(name)
assert os.listdir("/proc/self/task") == before, "an import started a thread"
"""


def objdump(option, path):
    return subprocess.run(["objdump", option, path], capture_output=True, text=True,
                          check=True).stdout


def glibc_of(paths):
    """The newest version of glibc that a symbol needs."""
    found = {tuple(map(int, version.split(".")))
             for path in paths for version in re.findall(r"GLIBC_(\d+\.\d+)", objdump("-T", path))}
    return max(found)


def check_libraries(paths):
    inside = {path.name for path in paths}
    for path in paths:
        for needed in re.findall(r"NEEDED\s+(\S+)", objdump("-p", path)):
            assert needed in inside or OF_THE_SYSTEM.fullmatch(needed), \
                "%s needs %s, which is not in the wheel" % (path.name, needed)


def check_tag(wheel, paths):
    with zipfile.ZipFile(wheel) as archive:
        name = next(name for name in archive.namelist() if name.endswith(".dist-info/WHEEL"))
        tags = email.message_from_bytes(archive.read(name)).get_all("Tag")
    said = [re.fullmatch(r"cp311-abi3-manylinux_(\d+)_(\d+)_\w+", tag) for tag in tags]
    assert said and all(said), tags
    needed = glibc_of(paths)
    assert all(tuple(map(int, match.groups())) >= needed for match in said), (tags, needed)
    return tags[0]


def import_seconds(folder, modules):
    """CPU time of a start with these imports, above that of a start without: the least of some,
    for other processes cost a little too."""
    def run(code, *arguments):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run([sys.executable, "-c", code, *arguments], check=True,
                       env={"PYTHONPATH": str(folder)})
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime

    bare = min(run("") for _ in range(7))
    least = run(IMPORT, *modules)
    for turn in range(30):
        if turn >= 6 and least - bare <= IMPORT_S_MAX:
            break
        least = min(least, run(IMPORT, *modules))
    return max(0, least - bare)


def main():
    wheel, folder, modules = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2]), sys.argv[3:]
    size = wheel.stat().st_size
    assert size <= WHEEL_BYTES_MAX, "%d bytes" % size
    paths = [path for path in folder.rglob("*")
             if path.is_file() and path.read_bytes()[:4] == b"\x7fELF"]
    assert paths
    check_libraries(paths)
    tag = check_tag(wheel, paths)
    seconds = import_seconds(folder, modules)
    assert seconds <= IMPORT_S_MAX, "import of %s: %.3f s of CPU" % (modules, seconds)
    print("%s: %.1f MB, %s, import %.0f ms" % (wheel.name.split("-")[0], size / 1e6, tag,
                                               seconds * 1e3))


main()
