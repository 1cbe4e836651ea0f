#!/usr/bin/env python3
"""Checks who includes whom: MAY_INCLUDE is the architecture, and the pure part of parallel knows nothing of tensors.

usage: check_layers.py [ROOT]     exit 1 and one line an offence
       check_layers.py --self-test
"""
import pathlib
import re
import sys
import tempfile

ROOMS = ["core", "autograd", "layers", "models", "data", "parallel", "cli", "tests", "bench", "examples", "sluice"]
MAY_INCLUDE = {
    "core": {"core"},
    "autograd": {"core", "autograd"},
    "layers": {"core", "autograd", "layers"},
    "models": {"core", "autograd", "layers", "models"},
    "data": {"core", "data"},
    "parallel": {"core", "autograd", "layers", "parallel"},
    "sluice": {"core", "autograd", "layers", "models", "data", "parallel"},
    "cli": set(ROOMS) - {"tests", "bench", "examples"},
    "tests": set(ROOMS),
    "bench": set(ROOMS),
    "examples": set(ROOMS),
}
# Lists and numbers: these may include each other, core/error.h and the standard library.
PURE = re.compile(r"parallel/(topology|partition|schedule\w*|program\w*|dataflow|lower|links|replay|simulate|verify\w*|stage_c\w+|cut_oracle|plan_(bound|cut|remat|search)|search_watch)\.(h|cpp)")
INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]', re.MULTILINE)


def sources(root, room):
    return sorted(path for path in (root / room).rglob("*") if path.suffix in {".h", ".cpp", ".cu"})


def offences(root):
    for room, allowed in MAY_INCLUDE.items():
        for path in sources(root, room):
            name = path.relative_to(root).as_posix()
            for bracket, target in INCLUDE.findall(path.read_text(encoding="utf-8")):
                folder = target.split("/")[0]
                if "/" in target and folder in MAY_INCLUDE and folder not in allowed:
                    yield f"{name} includes {target}: {room}/ may include only {', '.join(sorted(allowed))}"
                if PURE.fullmatch(name) and not is_pure(bracket, target):
                    yield f"{name} includes {target}: the pure part of parallel may include only itself, core/error.h and the standard library"


def is_pure(bracket, target):
    if bracket == "<":
        return re.fullmatch(r"[a-z_]+", target) is not None     # <vector>, not <fmt/core.h>
    return target == "core/error.h" or PURE.fullmatch(target) is not None


def self_test():
    """Plants includes in a small tree; each wrong one, and no right one, must be found."""
    planted = {
        "core/right.cpp": '#include <vector>\n#include "core/error.h"\n#include "build_config.h"\n',
        "core/upward.h": '#include "autograd/var.h"\n',
        "data/sideways.cpp": '#  include <layers/graph.h>\n',
        "models/upward.cpp": '#include "parallel/plan.h"\n',
        "cli/tests.cpp": '#include "tests/ops/op_case.h"\n',
        "parallel/executor.cpp": '#include "layers/graph.h"\n',
        "parallel/schedule.h": '#include "core/tensor.h"\n',
        "parallel/simulate.cpp": '#include <fmt/core.h>\n',
        "parallel/verify_rules.h": '#include <map>\n#include "core/error.h"\n#include "parallel/program.h"\n',
    }
    wrong = {"core/upward.h", "data/sideways.cpp", "models/upward.cpp", "cli/tests.cpp", "parallel/schedule.h", "parallel/simulate.cpp"}
    with tempfile.TemporaryDirectory() as folder:
        root = pathlib.Path(folder)
        for name, text in planted.items():
            (root / name).parent.mkdir(exist_ok=True)
            (root / name).write_text(text)
        found = {line.split()[0] for line in offences(root)}
    if found != wrong:
        return f"check_layers: missed {sorted(wrong - found)}, blamed {sorted(found - wrong)}"
    return None


def main():
    if sys.argv[1:] == ["--self-test"]:
        return self_test()
    root = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else pathlib.Path(__file__).resolve().parent.parent
    return "\n".join(offences(root)) or None


if __name__ == "__main__":
    sys.exit(main())
