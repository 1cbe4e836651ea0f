#!/usr/bin/env python3
"""Checks who includes whom: MAY_INCLUDE, a table of folders, is the architecture.

usage: check_layers.py [ROOT]     exit 1 and one line an offence
       check_layers.py --self-test
"""
import pathlib
import re
import sys
import tempfile

LIBRARY = ["core", "autograd", "layers", "models", "data", "parallel", "training"]
EVERYTHING = LIBRARY + ["cli", "tests", "bench", "examples", "sluice"]
# By folder: what it may include besides itself. A folder without a row of its own is part of the one above it; a name ends with a slash
# where the folders below it are meant too.
MAY_INCLUDE = {
    "core": ["core/"],
    "autograd": ["core/", "autograd/"],
    "layers": ["core/", "autograd/", "layers/"],
    "models": ["core/", "autograd/", "layers/", "models/"],
    "data": ["core/", "data/"],
    "parallel/program": ["core/error.h"],
    "parallel/schedule": ["core/error.h", "parallel/program"],
    "parallel/group": ["core/"],
    "parallel/run": ["core/", "autograd/", "layers/", "parallel/program", "parallel/group"],
    "parallel/plan": ["core/", "autograd/", "layers/", "parallel/group", "parallel/program", "parallel/schedule", "parallel/run", "parallel/trainer.h"],
    "parallel/checkpoint": ["core/", "layers/", "parallel/group", "parallel/run", "parallel/checkpoint.h", "parallel/trainer.h"],
    "parallel": ["core/", "autograd/", "layers/", "parallel/"],
    "training": [room + "/" for room in LIBRARY],
    "sluice": [room + "/" for room in LIBRARY],
    "cli/report": [room + "/" for room in LIBRARY] + ["cli"],
    "cli": [room + "/" for room in LIBRARY] + ["cli/"],
    "tests": [room + "/" for room in EVERYTHING],
    "bench": [room + "/" for room in EVERYTHING],
    "examples": [room + "/" for room in EVERYTHING],
}
# Lists and numbers: no library but the standard one.
PURE = {"parallel/program", "parallel/schedule"}
INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]', re.MULTILINE)


def room_of(name):
    """The row of MAY_INCLUDE that a file belongs to: that of the nearest folder that has one."""
    for folder in pathlib.PurePosixPath(name).parents:
        if folder.as_posix() in MAY_INCLUDE:
            return folder.as_posix()
    return None


def allows(room, target):
    folder = pathlib.PurePosixPath(target).parent.as_posix()
    if folder == room or room_of(target) == room:
        return True
    return any(target == row or (target.startswith(row) if row.endswith("/") else folder == row) for row in MAY_INCLUDE[room])


def offences(root):
    top = sorted({room.split("/")[0] for room in MAY_INCLUDE})
    files = [path for room in top for path in sorted((root / room).rglob("*")) if path.suffix in {".h", ".cpp", ".cu"}]
    for path in files:
        name = path.relative_to(root).as_posix()
        room = room_of(name)
        for bracket, target in INCLUDE.findall(path.read_text(encoding="utf-8")):
            is_ours = "/" in target and target.split("/")[0] in top
            if is_ours and not allows(room, target):
                yield f"{name} includes {target}: {room}/ may include only itself and {', '.join(MAY_INCLUDE[room])}"
            if room in PURE and not is_ours and not (bracket == "<" and re.fullmatch(r"[a-z_]+", target)):  # <vector>, not <fmt/core.h>
                yield f"{name} includes {target}: {room}/ is lists and numbers, so of libraries it may include only the standard one"


def self_test():
    """Plants includes in a small tree; each wrong one, and no right one, must be found."""
    planted = {
        "core/right.cpp": '#include <vector>\n#include "core/error.h"\n#include "build_config.h"\n',
        "core/upward.h": '#include "autograd/var.h"\n',
        "data/sideways.cpp": '#  include <layers/graph.h>\n',
        "models/upward.cpp": '#include "parallel/plan.h"\n',
        "cli/tests.cpp": '#include "tests/ops/op_case.h"\n',
        "parallel/run/executor.cpp": '#include "layers/graph.h"\n#include "parallel/program/program.h"\n',
        "parallel/run/upward.cpp": '#include "parallel/plan.h"\n',
        "parallel/run/ranks.cpp": '#include "parallel/group/group.h"\n',
        "parallel/group/job.cpp": '#include "core/error.h"\n#include "parallel/group/group.h"\n',
        "parallel/group/upward.cpp": '#include "parallel/program/program.h"\n',
        "parallel/program/schedule.h": '#include "core/tensor.h"\n',
        "parallel/program/simulate.cpp": '#include <fmt/core.h>\n',
        "parallel/program/upward.cpp": '#include "parallel/schedule/named.h"\n',
        "parallel/program/verify_rules.h": '#include <map>\n#include "core/error.h"\n#include "parallel/program/program.h"\n',
        "parallel/schedule/named.cpp": '#include "parallel/schedule/named.h"\n#include "parallel/program/schedule.h"\n',
        "training/metrics/bleu.cpp": '#include "training/metrics/bleu.h"\n#include "models/transformer.h"\n#include "parallel/trainer.h"\n',
        "training/upward.cpp": '#include "cli/config.h"\n',
        "parallel/training.cpp": '#include "training/metrics/bleu.h"\n',
        "parallel/plan.cpp": '#include "parallel/plan/choose.h"\n',
        "core/cpu/gemm.cpp": '#include "core/tensor.h"\n',
    }
    wrong = {"training/upward.cpp", "parallel/training.cpp", "core/upward.h", "data/sideways.cpp", "models/upward.cpp", "cli/tests.cpp", "parallel/run/upward.cpp", "parallel/group/upward.cpp",
             "parallel/program/schedule.h", "parallel/program/simulate.cpp", "parallel/program/upward.cpp"}
    with tempfile.TemporaryDirectory() as folder:
        root = pathlib.Path(folder)
        for name, text in planted.items():
            (root / name).parent.mkdir(parents=True, exist_ok=True)
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
