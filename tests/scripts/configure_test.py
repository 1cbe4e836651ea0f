#!/usr/bin/env python3
"""scripts/configure, copied into a small Meson project in place of Sluice: whatever an interruption left, it makes a folder that builds."""
import os
import pathlib
import shutil
import subprocess
import tempfile
import unittest

SCRIPT = pathlib.Path(__file__).resolve().parents[2] / "scripts" / "configure"


class Configure(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name) / "it's \"a\" clöne"
        (self.root / "scripts").mkdir(parents=True)
        shutil.copy(SCRIPT, self.root / "scripts")
        (self.root / "meson.build").write_text("project('planted', meson_version: '>=1.0.1')\nmessage('word is', get_option('word'))\n")
        (self.root / "meson_options.txt").write_text("option('word', type: 'string')\n")

    def configure(self, *arguments, **options):
        done = subprocess.run([self.root / "scripts" / "configure", *arguments], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, cwd="/", **options)
        return done.returncode, done.stdout

    def test_again_after_it_was_interrupted(self):
        for left in (("build.ninja",), ("build.ninja", "meson-private/coredata.dat"), ("meson-private/coredata.dat",)):
            with self.subTest(left):
                self.assertEqual(self.configure("build", "-Dword=first")[0], 0)
                for name in left:
                    (self.root / "build" / name).unlink()
                code, output = self.configure("build")
                self.assertEqual(code, 0, output)
                self.assertIn("word is first", output)
                self.assertTrue((self.root / "build" / "build.ninja").exists())
                code, output = self.configure("build", "-Dword=second")
                self.assertEqual((code, "word is second" in output), (0, True), output)
                shutil.rmtree(self.root / "build")

    def test_options_reach_a_folder_of_another_meson(self):
        self.assertEqual(self.configure("build", "-Dword=first")[0], 0)
        (self.root / "build" / "meson-private" / "coredata.dat").write_bytes(b"of another one")
        os.utime(self.root / "build" / "meson-private" / "coredata.dat")
        code, output = self.configure("build", "-Dword=second")
        self.assertEqual((code, "word is second" in output), (0, True), output)

    def test_machine_files_are_kept(self):
        with open(self.root / "meson.build", "a") as build:
            build.write("message('machine is', meson.get_external_property('machine', 'none'))\n")
        machine = self.root / "machine's = file.ini"
        machine.write_text("[properties]\nmachine = 'known'\n")
        for kind in ("--native-file", "--cross-file"):
            with self.subTest(kind):
                self.assertIn("machine is known", self.configure("build", "-Dword=a = 50 %", kind, str(machine))[1])
                (self.root / "build" / "build.ninja").unlink()
                code, output = self.configure("build")
                self.assertEqual((code, "machine is known" in output, "word is a = 50 %" in output), (0, True, True), output)
                shutil.rmtree(self.root / "build")

    def test_says_that_it_cannot_read_what_the_folder_had(self):
        self.assertEqual(self.configure("build", "-Dword=first")[0], 0)
        (self.root / "build" / "build.ninja").unlink()
        (self.root / "build" / "meson-private" / "cmd_line.txt").write_text("word = first\n[options")
        code, output = self.configure("build")
        self.assertEqual((code, "configure: the options that the folder had are gone" in output, "cmd_line.txt" in output), (0, True, True), output)

    def test_a_clone_that_was_moved_is_set_up_where_it_is(self):
        self.assertEqual(self.configure("build", "-Dword=first")[0], 0)
        moved = self.root.parent / "moved"
        self.root.rename(moved)
        self.root = moved
        code, output = self.configure("build")
        self.assertEqual(code, 0, output)
        self.assertIn(f"Source dir: {moved.resolve()}", output)
        self.assertIn("word is first", output)
        self.assertNotIn("Source dir", self.configure("build")[1])      # which needs no more then

    def test_says_what_it_needs(self):
        for arguments in ((), ("-Dword=first",)):
            self.assertEqual(self.configure(*arguments), (2, "usage: scripts/configure BUILD_DIR [-Doption=value]...\n"))
        tools = self.root / "tools"
        tools.mkdir()
        for name in ("bash", "dirname", "sed"):
            (tools / name).symlink_to(shutil.which(name))
        code, output = self.configure("build", env={"PATH": str(tools)})
        self.assertEqual((code, output), (1, "configure: no meson is there; scripts/install-dependencies run installs it\n"))

    def test_is_of_its_own_folder_whatever_CDPATH_has(self):
        other = self.root.parent / "other"
        (other / "scripts").mkdir(parents=True)
        done = subprocess.run(["scripts/configure", "build"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, cwd=self.root,
                              env={**os.environ, "CDPATH": str(other)})
        self.assertEqual(done.returncode, 0, done.stdout)
        self.assertTrue((self.root / "build" / "build.ninja").exists())

    def test_refuses_folders_that_compilers_misread(self):
        for name in ('a"b', "a\\b"):
            root = self.root.parent / name
            shutil.copytree(self.root, root)
            for file in ("meson.build", "meson_options.txt"):
                shutil.copy(SCRIPT.parents[1] / file, root)
            done = subprocess.run([root / "scripts" / "configure", "build"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
            self.assertEqual(done.returncode, 1, done.stdout)
            self.assertIn(f"""built in folders without " and \\ in their names, got {root}""", done.stdout)

    def test_refuses_an_nvcc_that_does_not_know_the_standard(self):
        tools = self.root / "tools"
        tools.mkdir()
        (tools / "nvcc").write_text('#!/bin/sh\nfor word; do [ "$word" != -std=c++20 ] || exit 1; done\n')     # as that of CUDA 11
        (tools / "nvcc").chmod(0o755)
        done = subprocess.run([SCRIPT, self.root.parent / "build", "-Dcuda=enabled"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                              env={**os.environ, "PATH": f"{tools}:{os.environ['PATH']}"})
        self.assertEqual(done.returncode, 1, done.stdout)
        self.assertIn(f"{tools / 'nvcc'}: kernels need an nvcc that takes -std=c++20, as CUDA 12 has it", done.stdout)

    def test_refuses_flags_that_make_compilers_forget_NaN(self):
        for flag in ("-ffast-math", "-Ofast"):
            done = subprocess.run([SCRIPT, self.root.parent / "build"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                                  env={**os.environ, "CXXFLAGS": flag})
            self.assertEqual(done.returncode, 1, done.stdout)
            self.assertIn("leave -ffast-math, -Ofast and -ffinite-math-only out of CXXFLAGS", done.stdout)


if __name__ == "__main__":
    unittest.main()
