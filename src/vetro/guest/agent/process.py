"""Run a program to its end with its output captured in files.

Files, not pipes: a script that leaves a daemon behind passes it the same standard output, and a
reader of a pipe would then wait for the daemon. The files also show what a script had printed
when its plan is killed.
"""

import os
import subprocess

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Dict

    _Map = Dict[str, Any]
else:
    _Map = dict

LARGEST_OUTPUT = 8 << 20
OUTPUT_FOLDER = ".output"


class Output(str):
    """A script's output: in a result that is too large it may be cut, keeping its end."""


class Outcome(_Map):
    """`exitCode`, `stdout`, `stderr`; readable as keys and as attributes."""

    def __getattr__(self, name: str) -> object:
        try:
            return self[name]
        except KeyError:
            raise AttributeError(
                "A script result has no %r, only %s" % (name, ", ".join(self))
            ) from None


def run(
    command: "str | list[str]",
    folder: str,
    output_folder: str,
    capture_stdout: bool = True,
    capture_stderr: bool = True,
    standard_input: "str | None" = None,
) -> Outcome:
    """Run a shell text (str) or an argument list in `folder`; wait for it.

    Output is decoded as UTF-8, stripped; empty or not captured is None. Raises OSError when
    the program cannot be started.
    """
    os.makedirs(output_folder, mode=0o700, exist_ok=True)
    number = len(os.listdir(output_folder)) // 2 + 1
    names = [os.path.join(output_folder, "%04d.%s" % (number, kind)) for kind in ("out", "err")]
    with open(names[0], "w+b") as out, open(names[1], "w+b") as err:
        child = subprocess.Popen(
            command,
            shell=isinstance(command, str),  # the command line is shell text by contract
            cwd=folder,
            stdin=subprocess.DEVNULL if standard_input is None else subprocess.PIPE,
            stdout=out if capture_stdout else subprocess.DEVNULL,
            stderr=err if capture_stderr else subprocess.DEVNULL,
        )
        if standard_input is not None and child.stdin is not None:
            try:
                with child.stdin:
                    child.stdin.write(standard_input.encode("utf-8"))
            except BrokenPipeError:
                pass  # the program does not read its input; its exit code gives the outcome
        code = child.wait()
        return Outcome(exitCode=code, stdout=_text(out), stderr=_text(err))


def last_output(output_folder: str) -> "dict[str, str | None]":
    """The output so far of the last started program, for a plan that was killed."""
    result: "dict[str, str | None]" = {"stdout": None, "stderr": None}
    try:
        names = sorted(os.listdir(output_folder))
    except OSError:
        return result
    for kind, key in (("out", "stdout"), ("err", "stderr")):
        matching = [name for name in names if name.endswith("." + kind)]
        if matching:
            with open(os.path.join(output_folder, matching[-1]), "rb") as stream:
                result[key] = _text(stream)
    return result


def _text(stream: "Any") -> "Output | None":
    size = stream.seek(0, os.SEEK_END)
    stream.seek(max(0, size - LARGEST_OUTPUT))
    text = stream.read().decode("utf-8", "replace").strip()
    if size > LARGEST_OUTPUT:
        text = "[the first %d bytes are left out]\n%s" % (size - LARGEST_OUTPUT, text)
    return Output(text) if text else None
