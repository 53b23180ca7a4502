"""Where the time of a run of tests goes: seconds by test file, said at its end."""

from collections import Counter
from typing import Any

SHOWN = 25


def tell_times(terminal: Any) -> None:
    """Print the files whose tests took most, with their number of tests, and the sum of all files."""
    seconds: Counter[str] = Counter()
    tests: Counter[str] = Counter()
    for reports in terminal.stats.values():
        for report in reports:
            if getattr(report, "duration", None) is not None and hasattr(report, "when"):
                file = report.nodeid.partition("::")[0]
                seconds[file] += report.duration
                tests[file] += report.when == "call"
    if sum(tests.values()) < 200:
        return  # nobody waits for these
    terminal.section(f"{sum(seconds.values()):.0f} s of tests, by file")
    for file, spent in seconds.most_common(SHOWN):
        terminal.write_line(f"{spent:7.1f} s {tests[file]:5} {file}")
