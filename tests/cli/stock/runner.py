"""Runs the console programs of the virtual environment it is started in, one after another.

Each line of standard input is a JSON object with ``argv`` and ``stdin``; each answer is one with
``code``, ``out`` and ``err``. Programs are loaded once: a command takes as long as its requests.
"""

import contextlib
import importlib.metadata
import io
import json
import sys
import traceback

PROGRAMS = ("murano", "openstack")


def run(program, argv, text):
    """Run a program as its console script does; its exit code and what it printed."""
    out = io.TextIOWrapper(io.BytesIO(), "utf-8", write_through=True)
    err = io.StringIO()
    kept = sys.argv, sys.stdin
    sys.argv, sys.stdin = argv, io.StringIO(text)
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            code = program(argv[1:])
    except SystemExit as end:
        code = end.code
    except BaseException:
        code = 1
        err.write(traceback.format_exc())
    finally:
        sys.argv, sys.stdin = kept
    out.flush()
    return {
        "code": code or 0,
        "out": out.buffer.getvalue().decode("utf-8", "replace"),
        "err": err.getvalue(),
    }


def main():
    """Serve until standard input ends."""
    answers = sys.stdout
    scripts = importlib.metadata.entry_points(group="console_scripts")
    programs = {one.name: one.load() for one in scripts if one.name in PROGRAMS}
    for line in sys.stdin:
        asked = json.loads(line)
        done = run(programs[asked["argv"][0]], asked["argv"], asked["stdin"])
        answers.write(json.dumps(done) + "\n")
        answers.flush()


if __name__ == "__main__":
    main()
