"""Reads the YAML tables that cases of tests stand in."""

from pathlib import Path
from typing import Any

import yaml

# libyaml reads a table in a tenth of the time of PyYAML's own reader; every process of a run reads all tables
# (decision 0785). A PyYAML that was built without it reads them too.
_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def read_table(path: Path) -> Any:
    """What a table says."""
    return yaml.load(path.read_bytes(), _LOADER)
