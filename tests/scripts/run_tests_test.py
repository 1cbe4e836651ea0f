#!/usr/bin/env python3
"""The test runner must notice what is not there: run on a small Meson project in place of Sluice."""
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

SCRIPTS = pathlib.Path(__file__).resolve().parents[2] / "scripts"
sys.path.insert(0, str(SCRIPTS))
import test_list  # noqa: E402

HANG_S = 600    # however busy the machine, nothing here takes so long
PROJECT = """project('planted', meson_version: '>=1.0.1')
true_program = find_program('true')
{tests}
"""


def run(names):
    """Exit code and last line of the runner over a project with tests of these names, which all pass."""
    with tempfile.TemporaryDirectory() as folder:
        root = pathlib.Path(folder)
        tests = "\n".join(f"test('{name}', true_program, suite: 'planted')" for name in names)
        (root / "meson.build").write_text(PROJECT.format(tests=tests))
        subprocess.run(["meson", "setup", root / "build", root], check=True, stdout=subprocess.DEVNULL)
        done = subprocess.run([sys.executable, SCRIPTS / "run_tests.py", root / "build"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              text=True)
        return done.returncode, done.stdout


class Runner(unittest.TestCase):
    def test_all_that_the_list_names_passes(self):
        code, output = run(test_list.TESTS)
        self.assertEqual((code, output.splitlines()[-1]), (0, f"{len(test_list.TESTS) + 1} passed, 0 failed, 0 skipped"), output)

    def test_a_missing_suite_is_a_failure_with_its_name(self):
        code, output = run(set(test_list.TESTS) - {"schedule"})
        self.assertEqual(code, 1, output)
        self.assertRegex(output.splitlines()[-1], "^[0-9]+ passed, 1 failed, 0 skipped$")
        self.assertIn("FAILED list of tests schedule", output)

    def test_what_a_machine_may_lack_is_skipped_with_the_reason(self):
        code, output = run(set(test_list.TESTS) - {"cudnn_plans"})
        self.assertEqual(code, 0, output)
        self.assertRegex(output.splitlines()[-1], "passed, 0 failed, 1 skipped$")
        self.assertIn("skipped: cudnn_plans, which needs nvcc", output)

    def test_a_test_that_the_list_does_not_name_is_a_failure(self):
        code, output = run([*test_list.TESTS, "newcomer"])
        self.assertEqual(code, 1, output)
        self.assertIn("FAILED list of tests newcomer", output)

    def test_it_says_at_the_start_how_long_it_takes(self):
        _, output = run(test_list.TESTS)
        self.assertTrue(re.match(r"run_tests: \d+ build steps, about \d+ s on \d+ cores .*; then \d+ tests, about \d+ s\n", output), output)


class ProgramsUnderTest(unittest.TestCase):
    """Each starts a program of its own, which is to end with it, whatever ends it."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name)

    def start(self, after, timeout_s=1000):
        """The runner over two tests that start a program, whose number they note, and then do what `after` says."""
        script = self.root / "hang"
        script.write_text(f"#!/bin/sh\nsleep 1000 & echo $! >>{self.root}/started\n{after}\n")
        script.chmod(0o755)
        tests = "\n".join(f"test('{name}', find_program('{script}'), suite: 'planted', timeout: {timeout_s}, is_parallel: false)" for name in ("core", "data"))
        (self.root / "meson.build").write_text(PROJECT.format(tests=tests))
        shutil.rmtree(self.root / "build", ignore_errors=True)
        subprocess.run(["meson", "setup", self.root / "build", self.root], check=True, stdout=subprocess.DEVNULL)
        runner = subprocess.Popen([sys.executable, SCRIPTS / "run_tests.py", self.root / "build"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        self.addCleanup(runner.communicate)
        self.addCleanup(runner.kill)
        return runner

    def started(self):
        """By number, waited for."""
        end = time.monotonic() + HANG_S
        while time.monotonic() < end:
            numbers = (self.root / "started").read_text().split() if (self.root / "started").exists() else []
            if numbers:
                return [int(number) for number in numbers]
            time.sleep(0.01)
        self.fail("no program was started")

    def runs(self, number):
        try:
            return pathlib.Path(f"/proc/{number}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
        except (FileNotFoundError, ProcessLookupError):
            return False

    def expect_ended(self, numbers):
        """The kernel may still be busy with the end of one that was killed."""
        end = time.monotonic() + HANG_S / 10
        while left := [number for number in numbers if self.runs(number)]:
            if time.monotonic() > end:
                for number in left:
                    os.kill(number, signal.SIGKILL)
                self.fail(f"{left} still run")
            time.sleep(0.01)

    def test_past_its_time_ends_with_what_it_started(self):
        for timeout_s in 1, 10, 100:    # on a busy machine the time can be over before a test has begun
            (self.root / "started").unlink(missing_ok=True)
            output = self.start("wait", timeout_s).communicate(timeout=HANG_S)[0]
            self.assertIn("ran past its time limit", output)
            numbers = (self.root / "started").read_text().split() if (self.root / "started").exists() else []
            self.expect_ended([int(number) for number in numbers])
            if len(numbers) == 2:
                return
        self.fail(f"2 programs were to be started, got {numbers}")

    def test_that_leaves_a_program_behind_does_not_wait_for_it(self):
        runner = self.start("echo done")
        output = runner.communicate(timeout=HANG_S)[0]
        self.assertNotIn("ran past its time limit", output)
        self.expect_ended(self.started())

    def test_ends_with_the_runner(self):
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            with self.subTest(number):
                (self.root / "started").unlink(missing_ok=True)
                runner = self.start("wait")
                self.started()
                runner.send_signal(number)
                runner.communicate(timeout=HANG_S)
                self.assertNotEqual(runner.returncode, 0)
                self.assertEqual(len(self.started()), 1)    # the second test did not begin
                self.expect_ended(self.started())


class List(unittest.TestCase):
    def test_sanitized_folders_lack_what_the_list_says(self):
        for sanitizer in test_list.SANITIZERS:
            built = {name for name, expected in test_list.TESTS.items() if sanitizer not in expected.not_with}
            self.assertEqual(test_list.absent(built, sanitizer), ([], []))
            errors, _ = test_list.absent(built - {"core"}, sanitizer)
            self.assertEqual([name for name, _ in errors], ["core"])


if __name__ == "__main__":
    unittest.main()
