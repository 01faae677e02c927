"""Command lines as gflags takes them, by tables; and files of the same names."""
import json
import re

# What a value is: a name here, or a tuple of choices.
BOOL, INT, RATIO, TEXT, MILLISECONDS = "bool", "int", "ratio", "text", "milliseconds"

_TRUE = ("1", "true", "yes", "t", "y")
_FALSE = ("0", "false", "no", "f", "n")
_UNITS_MS = {"": 1, "ms": 1, "s": 1000, "m": 60000, "h": 3600000}

# Of the logging library of other programs of this name; scripts pass them.
LOGGING = {
    "logtostderr": BOOL, "alsologtostderr": BOOL, "colorlogtostderr": BOOL, "log_prefix": BOOL,
    "stop_logging_if_full_disk": BOOL, "stderrthreshold": TEXT, "minloglevel": INT, "v": INT,
    "vmodule": TEXT, "log_dir": TEXT, "log_link": TEXT, "max_log_size": INT, "logbuflevel": INT,
    "logbufsecs": INT, "logfile_mode": INT, "timestamp_in_logfile_name": BOOL,
}


class FlagError(Exception):
    """What is wrong, for a person."""


def convert(name, kind, text):
    """The value of a text; FlagError."""
    text = str(text)
    try:
        if kind == BOOL:
            if text.lower() not in _TRUE + _FALSE:
                raise ValueError
            return text.lower() in _TRUE
        if kind == INT:
            return int(text, 0)
        if kind == RATIO:
            return float(text)
        if kind == MILLISECONDS:
            found = re.fullmatch(r"(\d+)\s*(ms|s|m|h)?", text.strip())
            return int(found.group(1)) * _UNITS_MS[found.group(2) or ""]
    except (ValueError, AttributeError):
        raise FlagError("--%s: %r is no %s" % (name, text, kind)) from None
    if isinstance(kind, tuple) and text not in kind:
        raise FlagError("--%s: %r is none of %s" % (name, text, ", ".join(kind)))
    return text


def parse(table, arguments):
    """{name: value} of the flags that are given. table: {name: (kind, default)}."""
    kinds = {name: kind for name, (kind, _) in table.items()} | LOGGING
    given = {}
    arguments = list(arguments)
    while arguments:
        argument = arguments.pop(0)
        if argument == "--" or not argument.startswith("-") or argument == "-":
            rest = arguments if argument == "--" else [argument]
            if rest:
                raise FlagError("%r is no flag" % rest[0])
            break
        name, equals, value = argument.lstrip("-").partition("=")
        name = name.replace("-", "_")
        if name == "flagfile":
            arguments[:0] = _read_flagfile(value if equals else _next(name, arguments))
            continue
        if name not in kinds and name.startswith("no") and kinds.get(name[2:]) == BOOL \
                and not equals:
            given[name[2:]] = False
            continue
        if name not in kinds:
            raise FlagError("unknown command line flag '%s'" % name)
        if not equals:
            value = "true" if kinds[name] == BOOL else _next(name, arguments)
        given[name] = convert(name, kinds[name], value)
    return given


def _next(name, arguments):
    if not arguments:
        raise FlagError("flag '--%s' is missing its argument" % name)
    return arguments.pop(0)


def _read_flagfile(path):
    try:
        with open(path, encoding="utf-8") as file:
            lines = [line.strip() for line in file]
    except OSError as error:
        raise FlagError("--flagfile: %s" % error) from error
    return [line for line in lines if line and not line.startswith("#")]


# ---- files ----

def _flatten(values, prefix, path):
    flat = {}
    for name, value in values.items():
        name = "%s.%s" % (prefix, name) if prefix else str(name)
        if isinstance(value, dict):
            flat |= _flatten(value, name, path)
        elif isinstance(value, list):
            raise FlagError("%s: %s: a list is not taken" % (path, name))
        else:
            flat[name] = "" if value is None else str(value)
    return flat


def _read_yaml(text, path):
    """Maps of scalars, nested by indentation: all that such a file holds."""
    root = {}
    open_maps = [(-1, root)]
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip() or line.lstrip().startswith("#") or line.strip() == "---":
            continue
        found = re.fullmatch(
            r"""(\s*)([\w.-]+)\s*:(?:\s+("(?:[^"\\]|\\.)*"|'[^']*'|[^#]*?))?\s*(?:\s#.*)?""", line)
        if found is None:
            raise FlagError("%s:%d: not understood: %s" % (path, number, line.strip()))
        indent, name, value = len(found.group(1)), found.group(2), found.group(3)
        while open_maps[-1][0] >= indent:
            open_maps.pop()
        if not value:
            open_maps[-1][1][name] = inner = {}
            open_maps.append((indent, inner))
        elif value.startswith(("[", "- ")):
            raise FlagError("%s: %s: a list is not taken" % (path, name))
        else:
            open_maps[-1][1][name] = value[1:-1] if value[0] in "'\"" else value
    return root


def read_file(table, path, other_names=None):
    """{name: value} of a .yaml, .yml or .json file; FlagError."""
    try:
        with open(path, encoding="utf-8") as file:
            text = file.read()
        if path.endswith(".json"):
            values = json.loads(text)
        elif path.endswith((".yaml", ".yml")):
            values = _read_yaml(text, path)
        else:
            raise FlagError("%s: neither .yaml, .yml nor .json" % path)
    except (OSError, ValueError) as error:
        raise FlagError("%s: %s" % (path, error)) from error
    if not isinstance(values, dict):
        raise FlagError("%s: no map of names" % path)
    found = {}
    for name, value in _flatten(values, "", path).items():
        name = (other_names or {}).get(name, name)
        if name not in table:
            raise FlagError("%s: unknown key '%s'" % (path, name))
        if value == "" and table[name][0] != TEXT:
            continue
        found[name] = convert(name, table[name][0], value)
    return found


def help_text(program, table, text):
    lines = ["%s: %s" % (program, text), ""]
    lines += ["  --%s (%s) default: %s" % (
        name, kind if isinstance(kind, str) else "|".join(kind), json.dumps(default))
        for name, (kind, default) in table.items()]
    return "\n".join(lines)
