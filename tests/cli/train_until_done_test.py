#!/usr/bin/env python3
"""Runs scripts/train-until-done: a training whose processes are killed comes to its end, with the bits of one that nobody disturbed.

usage: train_until_done_test.py PROGRAM [unittest arguments]
"""
import json
import os
import pathlib
import random
import shutil
import signal
import stat
import subprocess
import time
import unittest

from program import HANG_S, PROGRAM, ProgramTest

SCRIPT = pathlib.Path(__file__).resolve().parents[2] / "scripts" / "train-until-done"
KILLS = 5


def until_done(*arguments, **options):
    return subprocess.run([SCRIPT, *map(str, arguments)], capture_output=True, text=True, timeout=HANG_S, **options)


class TrainUntilDone(ProgramTest):
    def stand_in(self, body):
        """A program that stands in for the training; it says where it saves."""
        path = self.write("stand-in", f'#!/bin/sh\nfor word; do [ "$word" != --print-config ] || {{ printf "[output]\\ndir = \\"{self.folder}\\"\\n"; exit; }}; done\n{body}\n')
        path.chmod(path.stat().st_mode | stat.S_IXUSR)
        return path

    def test_killed_at_random_moments(self):
        random.seed(4)
        steps = 3000
        whole = self.train(out="whole", train__steps=steps)
        command = [PROGRAM, *self.tiny("--json", self.folder / "result.json", train__steps=steps, output__save_every=50)]
        process = subprocess.Popen([SCRIPT, "--", *map(str, command)], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        kills = 0
        while process.poll() is None and kills < KILLS:
            time.sleep(random.uniform(0.2, 1.2))
            for child in self.children_of(process.pid):
                try:
                    os.kill(child, signal.SIGKILL)
                    kills += 1
                except ProcessLookupError:
                    pass  # it has ended by itself
        _, messages = process.communicate(timeout=HANG_S)
        self.assertEqual(process.returncode, 0, messages)
        killed = messages.count("ended with exit code 137")     # not one that was at its end when the kill came
        self.assertIn(killed, range(1, kills + 1), "needs a longer training")
        self.assertEqual(json.loads((self.folder / "result.json").read_text())["weights_hash"], whole["weights_hash"])
        self.assertIn(f"done after {killed + 1} starts", messages)

    @staticmethod
    def children_of(parent):
        """The trainings that it has started; not the small tools of a shell."""
        children = []
        for folder in pathlib.Path("/proc").glob("[0-9]*"):
            try:
                if int((folder / "stat").read_text().rpartition(")")[2].split()[1]) == parent and str((folder / "exe").resolve()) == PROGRAM:
                    children.append(int(folder.name))
            except OSError:
                pass  # it has ended
        return children

    def test_counts_seconds_whatever_the_locale_has_for_a_point(self):
        def writes_commas(name):
            return subprocess.run(["bash", "-c", "printf %.1f 1"], env={**os.environ, "LC_ALL": name}, capture_output=True, text=True).stdout == "1,0"

        names = subprocess.run(["locale", "-a"], capture_output=True, text=True).stdout.split()
        locale = next(filter(writes_commas, names), None)
        if not locale:
            self.skipTest("no locale of this machine has a comma")
        ran = self.folder / "ran"
        program = self.stand_in(f'[ -e "{ran}" ] || {{ touch "{ran}"; sleep 0.3; exit 5; }}')
        done = until_done("--", program, "train", env={**os.environ, "LC_ALL": locale})
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertRegex(done.stderr, r"done after 2 starts; [0-9]+\.[0-9] s of work were lost")
        self.assertNotIn("0.0 s of work", done.stderr)

    def test_gives_up_what_no_start_can_mend(self):
        done = until_done("--", PROGRAM, *self.tiny("--set", "train.stepz=3"))
        self.assertEqual(done.returncode, 2)
        self.assertIn("did you mean 'train.steps'", done.stderr)
        done = until_done("--", PROGRAM, *self.tiny(data__kind="text", data__path=self.folder / "nowhere.txt"))
        self.assertEqual(done.returncode, 3)
        self.assertIn("no other start can mend", done.stderr)
        for wrong in ([], ["--"], ["--ranks", "0", "--", PROGRAM], ["--pause", "-1", "--", PROGRAM, "train", "tiny"], ["--ranks"], ["--", "true"]):
            self.assertEqual(until_done(*wrong).returncode, 2, wrong)

    def test_goes_on_with_fewer_ranks_when_nothing_moves(self):
        program = self.stand_in('echo "$2" >> "$(dirname "$0")/starts"; [ "$2" -le 2 ] || exit 5')
        done = until_done("--ranks", 6, "--pause", 0, "--", program, "train", "{ranks}")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual((self.folder / "starts").read_text().split(), ["6", "6", "3", "3", "2"])

    def test_names_the_ranks_in_arguments_of_the_training_too(self):
        done = until_done("--ranks", 2, "--", PROGRAM, *self.tiny("--set", "pipeline.micro_batches={ranks}"))
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_finds_the_checkpoints_in_a_folder_of_any_name(self):
        for name in ('with "quotes"', "with \\ a backslash", "with\ta tab", 'both \\" of them', "ü's"):
            folder = self.folder / name
            folder.mkdir()
            program = self.write("stand-in", f"#!/bin/sh\nfor word; do [ \"$word\" != --print-config ] || exec {PROGRAM} \"$@\"; done\n"
                                 "[ ! -e \"${4#*=}/latest\" ] || exit 0\necho step-00000001 > \"${4#*=}/latest\"; exit 5\n")
            program.chmod(program.stat().st_mode | stat.S_IXUSR)
            done = until_done("--most-starts", 2, "--", program, "train", "tiny", "--set", f"output.dir={folder}")
            self.assertIn("the newest checkpoint is step-00000001", done.stderr, name)

    def test_gives_up_after_the_most_starts(self):
        done = until_done("--most-starts", 3, "--", self.stand_in("exit 5"), "train")
        self.assertEqual(done.returncode, 5)
        self.assertIn("not done after 3 starts", done.stderr)

    def test_waits_ever_longer_for_a_training_that_dies_at_once(self):
        done = until_done("--most-starts", 3, "--", self.stand_in(f'date +%s.%N >> "{self.folder}/starts"; exit 5'), "train")
        first, second, third = map(float, (self.folder / "starts").read_text().split())
        self.assertGreater(second - first, 0.95)
        self.assertGreater(third - second, 1.95)
        self.assertEqual([line for line in done.stderr.splitlines() if "waits" in line],
                         ["train-until-done: waits 1 s", "train-until-done: waits 2 s"])

    def test_gives_up_a_training_that_brings_nothing(self):
        done = until_done("--ranks", 2, "--pause", 0, "--", self.stand_in(f'echo "$2" >> "{self.folder}/starts"; exit 4'), "train", "{ranks}")
        self.assertEqual(done.returncode, 4, done.stderr)
        self.assertEqual((self.folder / "starts").read_text().split(), ["2"] * 2 + ["1"] * 10)
        self.assertIn("gives up: 10 starts in a row brought no new checkpoint", done.stderr)

    def test_does_not_give_up_a_training_that_moves_at_times(self):
        program = self.stand_in(f'echo x >> "{self.folder}/starts"; starts=$(wc -l < "{self.folder}/starts")\n'
                                f'[ "$starts" != 9 ] || echo step-00000001 > "{self.folder}/latest"; [ "$starts" = 18 ] || exit 5')
        done = until_done("--pause", 0, "--", program, "train")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("done after 18 starts", done.stderr)

    def test_a_signal_while_it_waits_is_the_end(self):
        for name in ("INT", "TERM"):
            process = subprocess.Popen([SCRIPT, "--pause", "60", "--", self.stand_in("exit 5"), "train"], stderr=subprocess.PIPE, text=True,
                                       preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL))     # as a terminal starts it
            while "waits 60 s" not in process.stderr.readline():
                pass
            began = time.monotonic()
            process.send_signal(getattr(signal, f"SIG{name}"))
            _, messages = process.communicate(timeout=HANG_S)
            self.assertIn(f"stopped by SIG{name}", messages)
            self.assertEqual(process.returncode, 128 + getattr(signal, f"SIG{name}"), messages)
            self.assertLess(time.monotonic() - began, 50)

    def test_a_signal_goes_to_the_training_and_is_the_end(self):
        process = subprocess.Popen([SCRIPT, "--", PROGRAM, *map(str, self.tiny(train__steps=10**9))], stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, text=True)
        self.addCleanup(process.stdout.close)
        self.addCleanup(process.stderr.close)
        while not process.stdout.readline().startswith("step "):
            pass
        process.send_signal(signal.SIGTERM)
        output, messages = process.communicate(timeout=HANG_S)
        self.assertEqual(process.returncode, 143, messages)
        self.assertIn("ended by a signal after step", output)
        self.assertIn("stopped by SIGTERM", messages)

    def test_an_interrupt_before_the_first_step_is_the_end(self):
        begun = self.folder / "begun"
        process = subprocess.Popen([SCRIPT, "--", self.stand_in(f'touch "{begun}"; exec sleep 60'), "train"], stderr=subprocess.PIPE, text=True,
                                   preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL))     # as a terminal starts it
        while not begun.exists():
            time.sleep(0.01)
        process.send_signal(signal.SIGINT)
        _, messages = process.communicate(timeout=HANG_S)
        self.assertIn("stopped by SIGINT", messages)
        self.assertEqual(process.returncode, 130, messages)

    def test_a_signal_between_two_starts_is_the_end(self):
        script = self.folder / "script"     # whose number the first start notes, for a date that sends the signal
        program = self.stand_in(f'[ ! -e "{script}" ] || exec sleep 30; echo $PPID > "{script}"; exit 5')
        date = self.write("date", f'#!/bin/sh\n[ ! -s "{script}" ] || {{ kill -TERM "$(cat "{script}")"; : > "{script}"; }}\nexec {shutil.which("date")} "$@"\n')
        date.chmod(date.stat().st_mode | stat.S_IXUSR)
        done = until_done("--", program, "train", env={**os.environ, "PATH": f"{self.folder}:{os.environ['PATH']}"})
        self.assertIn("stopped by SIGTERM", done.stderr)
        self.assertEqual(done.returncode, 143, done.stderr)


if __name__ == "__main__":
    unittest.main()
