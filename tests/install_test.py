#!/usr/bin/env python3
"""Installs a build into a temporary folder, then builds and runs examples/installed against it, with nothing but pkg-config.

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


def main():
    build_dir, compiler = sys.argv[1], sys.argv[2] if len(sys.argv) > 2 else "g++"
    with tempfile.TemporaryDirectory() as folder:
        run("meson", "install", "-C", build_dir, "--no-rebuild", "--tags", "devel", "--destdir", folder)
        package = next(pathlib.Path(folder).rglob("sluice.pc"), None)
        if package is None:
            return "install_test: no sluice.pc was installed"
        environment = {**os.environ, "PKG_CONFIG_PATH": str(package.parent)}
        program = pathlib.Path(folder) / "example"
        run("make", "-C", EXAMPLE, f"PROGRAM={program}", f"CXX={compiler}", env=environment)
        output = run(program)
    losses = [float(loss) for loss in re.findall(r"loss (\S+)", output)]
    if len(losses) < 2 or not losses[-1] < losses[0] / 10:
        return f"install_test: needed a loss that falls tenfold, got:\n{output}"
    return None


if __name__ == "__main__":
    sys.exit(main())
