"""The library as others get it: installed, and programs compiled against it."""

import os
import shlex
import subprocess

from cluster import DEADLINE_S, SOURCE

BUILD = os.environ["TEST_BUILD"]
CMAKE = os.environ["TEST_CMAKE"]
CC = os.environ["TEST_CC"]
CFLAGS = os.environ["TEST_CFLAGS"]


def call(*command, env=None, timeout=DEADLINE_S * 2, **more):
    """Runs a command that has to succeed; what it wrote to standard output."""
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True,
                          timeout=timeout, env={**os.environ, **(env or {})}, **more)
    if done.returncode != 0:
        raise AssertionError(f"{command}: exit {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


def install(prefix):
    call(CMAKE, "--install", BUILD, "--prefix", prefix)


def library_dir(prefix):
    for folder, _, files in os.walk(prefix):
        if "libsnowskin.a" in files:
            return folder
    raise AssertionError("no libsnowskin.a was installed")


def pkg_config(prefix, *arguments):
    output = call("pkg-config", *arguments,
                  env={"PKG_CONFIG_PATH": os.path.join(library_dir(prefix), "pkgconfig")})
    return shlex.split(output)


def compile_program(prefix, name, folder):
    """-> the path of the program"""
    program = os.path.join(folder, name)
    call(CC, *shlex.split(CFLAGS), "-Wall", "-Wextra", "-Werror", "-pthread",
         os.path.join(SOURCE, "tests/integration/programs", name + ".c"),
         *pkg_config(prefix, "--cflags", "--libs", "snowskin-static"), "-o", program)
    return program
