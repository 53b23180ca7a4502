#!/usr/bin/env python3
"""Run one benchmark program: `run_program.py [--programs DIR] PROGRAM N`.

DIR holds folders like `shared/bench/programs`, each a MuranoPL package with a `bench.json`, and
beside DIR stands `common.py`. One line of JSON is printed; its keys are those of bench/README.md,
and `warm_seconds`: the same run once more in the same process.
"""

import argparse
import importlib.util
import json
import resource
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "src"))
DEFAULT = str(Path(__file__).resolve().parents[2] / "shared/bench/programs")


def load_common(programs):
    for directory in (programs.parent, Path(DEFAULT).parent):
        file = directory / "common.py"
        if file.is_file():
            spec = importlib.util.spec_from_file_location("common", file)
            module = importlib.util.module_from_spec(spec)
            spec.loader.exec_module(module)
            return module
    raise SystemExit(f"no common.py beside {programs}")


def plain(value):
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    if isinstance(value, (set, frozenset)):
        return [plain(item) for item in value]
    return value


def run_once(runtime, spec, model, n):
    from vetro.muranopl import Limits

    started, cpu = time.perf_counter(), time.process_time()
    session = runtime.session(limits=Limits(collection_items=10_000_000))
    root = session.load(model)
    value = session.call(root, "run", n)
    if spec["kind"] == "model":
        value = {"value": plain(value), "model": session.dump()["Objects"]}
    return plain(value), time.perf_counter() - started, time.process_time() - cpu


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--programs", type=Path, default=Path(DEFAULT))
    parser.add_argument("program")
    parser.add_argument("n", type=int)
    options = parser.parse_args()
    common = load_common(options.programs.resolve())
    directory = options.programs / options.program
    spec = json.loads((directory / "bench.json").read_text())
    model = common.model_for(spec, options.n)

    import_started = time.perf_counter()
    from vetro.muranopl import DirectoryPackage, Runtime

    import_seconds = time.perf_counter() - import_started
    load_started = time.perf_counter()
    runtime = Runtime()
    runtime.add_package(DirectoryPackage(directory))
    runtime.compile_all()
    load_seconds = time.perf_counter() - load_started
    value, seconds, cpu_seconds = run_once(runtime, spec, model, options.n)
    _, warm_seconds, warm_cpu_seconds = run_once(runtime, spec, model, options.n)
    print(
        json.dumps(
            {
                "engine": "vetro",
                "program": options.program,
                "n": options.n,
                "ops": common.ops(spec, options.n),
                "seconds": seconds,
                "cpu_seconds": cpu_seconds,
                "warm_seconds": warm_seconds,
                "warm_cpu_seconds": warm_cpu_seconds,
                "load_seconds": load_seconds,
                "import_seconds": import_seconds,
                "result_digest": common.digest(value),
                "peak_rss_mb": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, 1),
            }
        )
    )


if __name__ == "__main__":
    main()
