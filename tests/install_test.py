#!/usr/bin/env python3
"""Installs a build into a temporary folder, then builds and runs examples/installed against it as users do: with pkg-config alone, and with
CMake's find_package, in a project that has headers of the same names as Sluice's.

usage: install_test.py BUILD_DIR [COMPILER]     the build must be complete
"""
import os
import pathlib
import re
import subprocess
import sys
import tempfile

EXAMPLE = pathlib.Path(__file__).resolve().parent.parent / "examples" / "installed"


def run(*command, **options):
    done = subprocess.run(command, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, **options)
    if done.returncode != 0:
        sys.exit(f"install_test: '{' '.join(map(str, command))}' ended with {done.returncode}:\n{done.stdout}")
    return done.stdout


def only(folder, name):
    found = list(folder.rglob(name))
    if len(found) != 1:
        sys.exit(f"install_test: needed one {name} below the installation, got {found}")
    return found[0]


def own_headers(include, folder):
    """A header that stops the compiler for every name that an installed header has in Sluice's tree, but sluice/sluice.h."""
    for header in include.rglob("*.h"):
        name = header.relative_to(include / "sluice")
        if name != pathlib.Path("sluice.h"):
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_text(f"#error \"{name} is the user's\"\n")
    return folder


# They take the compiler longer than many of Sluice's own, or are of what no user sees.
SLOW = {"<algorithm>", "<chrono>", "<cmath>", "<condition_variable>", "<filesystem>", "<iomanip>", "<iostream>", "<mutex>", "<ranges>", "<regex>",
        "<sstream>", "<stop_token>", "<thread>", "<unordered_map>", "<variant>", '"sluice/core/arena.h"', '"sluice/core/cuda/cuda.h"', '"sluice/core/ops/elementwise_rules.h"',
        '"sluice/parallel/run/executor.h"', '"sluice/parallel/run/stage.h"'}


def unwanted_includes(include):
    """What installed headers include besides each other and the standard library, or of that although it is slow."""
    lines = {line for header in include.rglob("*.h") for line in re.findall(r"^#include\s+(\S+)", header.read_text(), re.MULTILINE)}
    return sorted(line for line in lines if line in SLOW or not re.fullmatch(r'<[a-z_]+>|"sluice/[\w/]+\.h"', line))


def learns(program):
    losses = [float(loss) for loss in re.findall(r"loss (\S+)", run(program))]
    return len(losses) > 1 and losses[-1] < losses[0] / 10


def with_pkg_config(package, _, folder, compiler, flags):
    program = folder / "by_make"
    run("make", "-C", EXAMPLE, f"PROGRAM={program}", f"CXX={compiler}", f"CXXFLAGS={flags}",
        env={**os.environ, "PKG_CONFIG_PATH": str(package.parent)})
    return program


def with_cmake(_, include, folder, compiler, flags):
    run("cmake", "-S", EXAMPLE, "-B", folder / "by_cmake", f"-DCMAKE_PREFIX_PATH={include.parent}", f"-DCMAKE_CXX_COMPILER={compiler}",
        f"-DCMAKE_CXX_FLAGS={flags}")
    run("cmake", "--build", folder / "by_cmake")
    return folder / "by_cmake" / "example"


def main():
    build_dir, compiler = sys.argv[1], sys.argv[2] if len(sys.argv) > 2 else "g++"
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        run("meson", "install", "-C", build_dir, "--no-rebuild", "--tags", "devel", "--destdir", folder / "installed")
        package, include = only(folder, "sluice.pc"), only(folder, "sluice.h").parent.parent
        if unwanted := unwanted_includes(include):
            return f"install_test: installed headers include {unwanted}"
        flags = f"-O2 -I{own_headers(include, folder / 'own')}"
        for build in (with_pkg_config, with_cmake):
            if not learns(build(package, include, folder, compiler, flags)):
                return f"install_test: needed a loss that falls tenfold from the program of {build.__name__}"
    return None


if __name__ == "__main__":
    sys.exit(main())
