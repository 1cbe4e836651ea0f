#!/usr/bin/env python3
"""scripts/install-dependencies, gpu-check-prepare and quickstart on systems that lack something; stand-ins play the system."""
import os
import pathlib
import re
import shutil
import subprocess
import tempfile
import unittest

SCRIPTS = pathlib.Path(__file__).resolve().parents[2] / "scripts"


class FreshSystem(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name)
        self.tools = self.root / "tools"
        self.program("tools/id", "echo 0")      # root, who needs no sudo

    def program(self, name, body):
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"#!/bin/sh\n{body}\n")
        path.chmod(0o755)

    def run_script(self, path, *arguments):
        done = subprocess.run([path, *arguments], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, cwd=self.root,
                              env={**os.environ, "PATH": f"{self.tools}:{os.environ['PATH']}"})
        return done.returncode, done.stdout


class InstallDependencies(FreshSystem):
    def setUp(self):
        super().setUp()
        self.program("tools/dpkg-query", "")    # nothing is installed
        self.program("tools/apt-cache", "")     # and no package is known

    def test_says_whether_archives_lack_a_package_or_cannot_be_reached(self):
        self.program("tools/apt-get", "exit 0")
        code, output = self.run_script(SCRIPTS / "install-dependencies", "run")
        self.assertEqual(code, 1, output)
        self.assertIn("use Debian 12", output)
        # Without a network `apt-get update` warns and ends with 0, unless it is asked not to.
        self.program("tools/apt-get", 'for word; do [ "$word" != APT::Update::Error-Mode=any ] || exit 100; done')
        code, output = self.run_script(SCRIPTS / "install-dependencies", "run")
        self.assertEqual(code, 1, output)
        self.assertIn("no package 'meson' in the package lists of this system; make 'apt-get update' work", output)

    def test_says_what_it_cannot_install_without_root_or_sudo(self):
        self.program("tools/id", "echo 1000")
        self.program("tools/apt-get", "")
        self.program("tools/meson", "echo 1.0.1")
        self.program("tools/g++", "echo 12.2.0")
        for name in ("bash", "env", "sort"):
            (self.tools / name).symlink_to(shutil.which(name))
        for lacking, code, words in (("meson", 1, "needs root or sudo to install: meson\n"),
                                     ("libprotobuf-dev", 1, "needs root or sudo to install: libprotobuf-dev\n"),   # Debian 13's sentencepiece.pc asks for it
                                     ("ccache", 0, "optional and needs root or sudo to install: ccache\n")):
            self.program("tools/dpkg-query", f'[ "$3" = {lacking} ] || printf installed')
            done = subprocess.run([SCRIPTS / "install-dependencies", "run"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                                  env={"PATH": str(self.tools)})
            self.assertEqual(done.returncode, code, done.stdout)
            self.assertIn(words, done.stdout)


class GpuCheckPrepare(FreshSystem):
    def test_without_pip_it_says_so_and_keeps_what_is_there(self):
        self.program("scripts/gpu-check-prepare", "")
        shutil.copy(SCRIPTS / "gpu-check-prepare", self.root / "scripts")
        self.program(".gpu-check/bin/meson", "")
        self.program("tools/apt-get", "")
        self.program("tools/python3", "echo No module named pip; exit 1")
        code, output = self.run_script(self.root / "scripts" / "gpu-check-prepare")
        self.assertEqual(code, 1, output)
        self.assertIn("needs pip: apt-get install python3-pip", output)
        self.assertTrue((self.root / ".gpu-check" / "bin" / "meson").exists())


class Quickstart(FreshSystem):
    def setUp(self):
        super().setUp()
        for name in ("quickstart", "gpu-arch"):
            (self.root / "scripts").mkdir(exist_ok=True)
            shutil.copy(SCRIPTS / name, self.root / "scripts")
        self.program("scripts/install-dependencies", "")
        self.program("scripts/configure", 'echo "configured: $*"')
        self.program("tools/ninja", "")
        self.program("build/cli/sluice", "")

    def configured(self, capability):
        self.program("tools/nvidia-smi", f"echo {capability}")
        code, output = self.run_script(self.root / "scripts" / "quickstart", "text")
        self.assertEqual(code, 0, output)
        return re.search("^configured: (.*)$", output, re.MULTILINE)[1]

    def test_a_GPU_without_a_toolkit_is_left_out(self):
        self.assertEqual(self.configured(8.9), "build -Dgpu_arch=89 -Dcuda=auto")

    def test_a_GPU_that_kernels_are_not_written_for_is_left_out(self):
        for capability in (6.1, 7.5, "[N/A]"):
            self.assertEqual(self.configured(capability), "build -Dcuda=disabled")
        self.assertEqual(self.configured(12.0), "build -Dgpu_arch=120 -Dcuda=auto")


if __name__ == "__main__":
    unittest.main()
