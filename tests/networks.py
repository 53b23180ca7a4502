"""Networks for tests that use the machine's own routing: none that the machine has an address in.

What an interrupted run left behind, and what runs at the same time, keeps its addresses: a second bridge with
the address of the first receives no packet.
"""

import re
import secrets
from collections import deque
from pathlib import Path

#: What was given last, and need not have an address yet.
_given: deque[int] = deque(maxlen=16)


def unused_number() -> int:
    """A number N such that nothing on this machine has an address in 10.N.0.0/16 or 172.29.N.0/24."""
    routes = Path("/proc/net/fib_trie").read_text()
    taken = {int(number) for number in re.findall(r"(?<!\d)(?:10|172\.29)\.(\d+)\.\d", routes)}
    free = sorted(set(range(64, 100)) - taken - set(_given))
    assert free, "every network of the tests is in use: remove what interrupted runs left (ip link)"
    _given.append(secrets.choice(free))
    return _given[-1]
