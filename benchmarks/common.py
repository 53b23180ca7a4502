"""Engine-neutral parts of the stand-in benchmark: both runners use this module."""

import hashlib
import json


def canonical(value):
    """The one JSON text of a value."""
    return json.dumps(
        value, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False
    )


def digest(value):
    """What two runs of a program must agree on."""
    return hashlib.sha256(canonical(value).encode("ascii")).hexdigest()


def ops(spec, n):
    """How many of the program's units of work a run with n does."""
    return int(spec["ops"] * n)


def model_for(spec, n):
    """The object model a run starts from."""
    return {"Objects": {"?": {"id": "root", "type": spec["class"]}}}
