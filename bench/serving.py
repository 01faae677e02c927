"""A cluster of real processes, for the programs of this folder."""
import json
import subprocess
import time

LOOK_S = 0.1
UNITS = {"KiB": 10, "MiB": 20, "GiB": 30}


def bytes_of(text):
    for unit, shift in UNITS.items():
        if text.endswith(unit):
            return int(text[:-len(unit)]) << shift
    return int(text)


class Cluster:
    """A master with these flags, and nodes of that memory each that have mounted."""

    def __init__(self, binary, nodes, memory, slot, *flags):
        self.binary = binary
        self.processes = []
        self.address = self.start("master", "--listen", "127.0.0.1:0", *flags, says="master")
        for _ in range(nodes):
            self.start("node", "--master", self.address, "--memory", str(memory), "--slot",
                       str(slot), says="ready")
        while self.counters()["ready_bytes"] < nodes * memory:
            time.sleep(LOOK_S)

    def start(self, *arguments, says):
        """-> what stands behind that word in the first line that begins with it"""
        process = subprocess.Popen([self.binary, *arguments], stdout=subprocess.PIPE, text=True)
        self.processes.append(process)
        for line in process.stdout:
            word, _, rest = line.strip().partition(" ")
            if word == says:
                return rest
        raise SystemExit(f"{arguments[0]} ended")

    def counters(self):
        done = subprocess.run([self.binary, "stat", "--json", "--master", self.address],
                              capture_output=True, text=True, check=True)
        return json.loads(done.stdout)["counters"]

    def kill_node(self, number):
        process = self.processes[1 + number]
        process.kill()
        process.wait()

    def stop(self):
        for process in reversed(self.processes):
            process.terminate()
            process.wait()
