"""Sizes as people write them: 4gb, "16 MB", 1048576."""
import re

_UNITS = {"": 0, "b": 0, "k": 10, "kb": 10, "m": 20, "mb": 20, "g": 30, "gb": 30, "t": 40,
          "tb": 40}


def parse_size(value):
    """Bytes; ValueError names what is wrong."""
    if isinstance(value, int) and not isinstance(value, bool):
        number = value
    else:
        found = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([a-zA-Z]*)\s*", str(value))
        if found is None or found.group(2).lower() not in _UNITS:
            raise ValueError("%r is no size, as 4gb or 16 MB are" % (value,))
        number = int(float(found.group(1)) * 2 ** _UNITS[found.group(2).lower()]) \
            if "." in found.group(1) \
            else int(found.group(1)) << _UNITS[found.group(2).lower()]
    if not 0 <= number < 2**63:
        raise ValueError("%r is out of range" % (value,))
    return number
