"""The name of a store among others, and where its memory is reached: both from local_hostname."""
import os
import random
import socket

MIN_PORT, MAX_PORT, RETRIES = 12300, 14300, 20


def env_number(name, default):
    try:
        return int(os.environ[name])
    except (KeyError, ValueError):
        return default


def split(text):
    """(host, port or None) of host, host:port, [v6], [v6]:port, v6.  ValueError."""
    if text.startswith("["):
        host, closed, rest = text[1:].partition("]")
        if not closed or (rest and not rest.startswith(":")):
            raise ValueError("%r is no address" % text)
        port = rest[1:]
    elif text.count(":") == 1:
        host, _, port = text.partition(":")
    else:
        host, port = text, ""
    if not host:
        raise ValueError("%r names no host" % text)
    if not port:
        return host, None
    if not port.isdigit() or not 0 < int(port) < 65536:
        raise ValueError("%r has no port of 1 to 65535" % text)
    return host, int(port)


def join(host, port):
    return "[%s]:%d" % (host, port) if ":" in host else "%s:%d" % (host, port)


def own_address(host):
    """An address of this host that the name stands for; None: it stands for none."""
    try:
        found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except OSError:
        return None
    found.sort(key=lambda entry: entry[0] != socket.AF_INET)
    for family, _, _, _, address in found:
        try:
            with socket.socket(family, socket.SOCK_STREAM) as probe:
                probe.bind((address[0], 0))
            return address[0]
        except OSError:
            continue
    return None


def hold(address, port):
    """A socket that keeps the port for this process; OSError: another has it."""
    held = socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET,
                         socket.SOCK_STREAM)
    try:
        held.bind((address, port))
    except OSError:
        held.close()
        raise
    return held


def free_ports():
    """Ports to try, at most as many as the environment allows."""
    low = env_number("MC_STORE_CLIENT_MIN_PORT", MIN_PORT)
    high = env_number("MC_STORE_CLIENT_MAX_PORT", MAX_PORT)
    tries = max(env_number("MC_STORE_CLIENT_SETUP_RETRIES", RETRIES), 1)
    count = max(high - low + 1, 1)
    return random.sample(range(low, low + count), min(count, tries))
