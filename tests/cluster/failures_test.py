#!/usr/bin/env python3
"""One of four ranks fails in every phase and every way: all end in time, what is known is said, and nothing is left but the last checkpoint.

usage: failures_test.py openmpi|mpich PROGRAM FAILING_RANK FILE_FAULTS [--long] [unittest arguments]
       exit 77 where that launcher is not installed

--long: each rank in each phase in each way, not one of each; 20 kills under scripts/train-until-done.
"""
import json
import os
import pathlib
import random
import shutil
import signal
import subprocess
import time

import job_test
from job_test import ENVIRONMENT, HANG_S, IS_LONG, LAUNCHER, RANKS, SMALL, JobTest, Launch, PROGRAM, patience, processes_of, sets, abandoned_shared_memory
from mpi_train_test import LAUNCHER_NAME
import file_faults

FAILING_RANK = job_test.next_program()
FILE_FAULTS = job_test.next_program()
PHASES = ("start", "forward", "backward", "step", "save")
ACTIONS = {"forward": r" \(F\(stage {rank}, micro-batch 1\) on cpu:{rank}\)", "backward": r" \(B\(stage {rank}, micro-batch 1\) on cpu:{rank}\)",
           "step": r" \(Step on cpu:{rank}\)"}
# What ranks say of one that has stopped: those that wait for it say so, and where; all have finished the step but the one that has stopped in it.
WAITS = {"forward": r"device \d .* has finished .* and waits for .* device {rank} \(cpu:{rank}\)",
         "backward": r"device \d .* has finished .* and waits for .* device {rank} \(cpu:{rank}\)",
         "step": r"\n  device \d \(cpu:\d\) has finished", "save": r"while step 2 was saved"}
TIMEOUT = 5
GRACE = 5      # seconds in which all processes have ended: two, and what a busy machine adds
KILLED = {"openmpi": r"process rank {rank} .* exited on signal 9", "mpich": r"BAD TERMINATION(?s:.)*signal 9"}[LAUNCHER_NAME]


class EveryPhase(JobTest):
    def setUp(self):
        super().setUp()
        self.begun = self.folder / "begun"
        self.assertEqual(self.run_over_ranks(self.begun, train__steps=1).code, 0)

    def launch_failing(self, case):
        rank, phase, way = case
        folder = self.folder / "-".join(map(str, case))
        shutil.copytree(self.begun, folder)
        settings = sets(**SMALL, output__dir=folder / "run", pipeline__devices=f'"{RANKS}x cpu"', **(dict(pipeline__timeout=TIMEOUT) if way == "stop" else {}))[1::2]
        mark = folder / "failed"
        command, before = [FAILING_RANK, phase, rank, way, mark, *settings], []
        if phase == "save":
            command[1] = "none"
            do = {"kill": "kill-before", "exit": "exit-before", "stop": "stop-before", "throw": "no-space"}[way]
            before = file_faults.variables(FILE_FAULTS, folder / "run", rank=rank, calls="write", at=2, do=do, mark=mark)
        launch = Launch(folder, command, before)
        self.addCleanup(launch.kill)
        return folder, launch

    def expect_end(self, case):
        rank, phase, way = case
        folder, launch = self.launch_failing(case)
        launch.end()
        self.assertNotEqual(launch.code, 0)
        text = launch.output + launch.errors
        self.assertFalse(launch.left(), "processes are left")
        seconds = time.time() - (folder / "failed").stat().st_mtime - launch.stood_still
        self.assertLess(seconds, patience((TIMEOUT if way == "stop" else 0) + GRACE), text)
        if way == "throw" and phase == "save":
            self.assertRegex(text, rf"rank {rank}: .*No space left")
        elif way == "throw":
            self.assertRegex(text, rf"rank {rank}(: error| \(on host [^)]*\)): .*made to fail" + ACTIONS.get(phase, "").format(rank=rank))
        elif way == "stop":
            # The watchdog and whoever waits for a message have the same time: either may be first.
            self.assertRegex(text, rf"error: rank {rank} .*has not been heard of for {TIMEOUT} s"
                                   rf"|within {TIMEOUT} s \(pipeline.timeout\)(?s:.)*device {rank} \(cpu:{rank}\)")
            if phase in WAITS:
                self.assertRegex(text, WAITS[phase].format(rank=rank))
        elif way == "kill":
            self.assertRegex(text, KILLED.format(rank=rank))
        self.assertEqual(self.newest(folder / "run"), 1)
        self.assertEqual(self.resume(folder, 2)[1], 1)
        self.assertEqual([path.name for path in (folder / "run").iterdir() if ".tmp" in path.name], [])
        return seconds

    def test_each_ends_all_ranks(self):
        ways = ("kill", "exit", "throw")
        every = [(rank, phase, way) for rank in range(RANKS) for phase in PHASES for way in ways]
        some = [(index % RANKS, phase, ways[index % 3]) for index, phase in enumerate(PHASES)] + [(0, "forward", "kill"), (0, "save", "throw")]
        cases, before = every if IS_LONG else some, abandoned_shared_memory()
        seconds = self.each(cases, self.expect_end)
        self.assertEqual(abandoned_shared_memory() - before, set())
        print(f"{len(cases)} ranks failed; the last process had ended after {max(seconds):.1f} s at most", flush=True)

    def test_each_that_stops_is_named_and_ends_all_ranks(self):
        every = [(rank, phase, "stop") for rank in range(RANKS) for phase in PHASES]
        cases, before = every if IS_LONG else [(1, "start", "stop"), (2, "backward", "stop"), (0, "save", "stop")], abandoned_shared_memory()
        seconds = self.each(cases, self.expect_end)
        self.assertEqual(abandoned_shared_memory() - before, set())
        print(f"{len(cases)} ranks stopped; the last process had ended after {max(seconds):.1f} s at most", flush=True)


class TrainUntilDone(JobTest):
    """Under scripts/train-until-done: ranks are killed at random moments, and at last one of them cannot be started any more."""
    SCRIPT = pathlib.Path(__file__).resolve().parents[2] / "scripts" / "train-until-done"

    def test_kills_and_then_fewer_ranks(self):
        kills, generator = 20 if IS_LONG else 1, random.Random(8)
        folder = self.folder / "job"
        folder.mkdir()
        steps = 3000 if IS_LONG else 150
        program = folder / "sluice"   # that of a host of which two ranks are lost one day
        program.write_text(f"""#!/bin/sh
rank=${{OMPI_COMM_WORLD_RANK:-${{PMI_RANK:-0}}}}
[ ! -e {folder}/lost ] || [ "$rank" -lt 2 ] || kill -9 $$
exec {PROGRAM} "$@"
""")
        program.chmod(0o755)
        words = self.training(folder, "--json", folder / "result.json", train__steps=steps, output__save_every=10, output__keep=2)[1:]
        command = [self.SCRIPT, "--ranks", RANKS, "--", *LAUNCHER, "-n", "{ranks}", program, *words]
        process = subprocess.Popen(list(map(str, command)), env=ENVIRONMENT, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                   stderr=subprocess.PIPE, text=True, start_new_session=True)
        self.addCleanup(process.stderr.close)
        self.addCleanup(lambda: [os.kill(left, signal.SIGKILL) for left in processes_of(folder).values()])
        self.addCleanup(self.kill, process)
        killed = self.kill_ranks(process, folder, kills, generator)
        self.assertEqual(killed, kills, "needs a longer training")
        (folder / "lost").touch()
        self.kill_ranks(process, folder, 1, generator)
        _, messages = process.communicate(timeout=HANG_S)
        self.assertEqual(process.returncode, 0, messages)
        self.assertIn("2 ranks, from step-", messages)
        self.assertEqual(json.loads((folder / "result.json").read_text())["weights_hash"], self.hash_after(steps))
        print(f"{killed + 1} kills:", messages.splitlines()[-1], flush=True)

    @staticmethod
    def kill_ranks(process, folder, times, generator):
        """After a save since the last kill, or else the script goes on with fewer ranks."""
        killed, newest = 0, folder / "run" / "latest"
        saved = newest.read_text() if newest.exists() else ""
        while process.poll() is None and killed < times:
            time.sleep(0.05)
            if not newest.exists() or newest.read_text() == saved:
                continue
            time.sleep(generator.uniform(0, 0.1))
            saved = newest.read_text()
            ranks = [number for rank, number in sorted(processes_of(folder).items()) if rank >= 0]
            if ranks:
                try:
                    os.kill(generator.choice(ranks), signal.SIGKILL)
                    killed += 1
                except ProcessLookupError:
                    pass
        return killed


if __name__ == "__main__":
    job_test.main()
