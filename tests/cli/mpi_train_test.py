#!/usr/bin/env python3
"""Trains over the ranks of a real launcher: one answer however many there are, errors said once, and the end when a rank fails.

usage: mpi_train_test.py openmpi|mpich PROGRAM [unittest arguments]      exit 77 where that launcher is not installed
"""
import contextlib
import itertools
import json
import os
import pathlib
import random
import shutil
import signal
import subprocess
import sys
import time
import unittest

LAUNCHERS = {
    "openmpi": ["mpirun.openmpi", "--oversubscribe", "--bind-to", "none", "--mca", "orte_base_help_aggregate", "0"],
    "mpich": ["mpiexec.mpich"],
}
LAUNCHER_NAME = sys.argv.pop(1)
LAUNCHER = LAUNCHERS[LAUNCHER_NAME]

import program  # takes the program from the command line
from program import HANG_S, ProgramTest, patience, processor_seconds_of, sets, sluice, tensors_of
from running_clock import running_seconds

PROGRAM = pathlib.Path(program.PROGRAM).resolve()
program.PROGRAM = str(PROGRAM)
PROGRAM_TESTS = pathlib.Path(__file__).resolve().parent
FOREVER = 10**9
ENVIRONMENT = {**os.environ, "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1", "TERM": "dumb"}  # Open MPI gives its ranks terminals
TRANSLATION = dict(model__name="translation", model__layers=2, model__head_width=8, model__source_context=16, model__target_context=14)
AMOEBANET = dict(model__name="amoebanet-d", model__layers=3, model__filters=16, model__image_size=16, model__classes=4)


class RanksTest(ProgramTest):
    def command(self, ranks, *arguments):
        return ["timeout", "-k", "5", str(HANG_S), *LAUNCHER, "-n", str(ranks), str(PROGRAM), *map(str, arguments)]

    def launch(self, ranks, *arguments):
        return subprocess.run(self.command(ranks, *arguments), capture_output=True, text=True, env=ENVIRONMENT,
                              stdin=subprocess.DEVNULL)

    def train_over(self, ranks, devices, *arguments, out="ranks", **keys):
        done = self.launch(ranks, "train", "tiny", "--json", self.folder / "ranks.json", *arguments,
                           *sets(output__dir=self.folder / out, pipeline__devices=f'"{devices}x cpu"', **keys))
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads((self.folder / "ranks.json").read_text())

    def start(self, ranks, *arguments, **keys):
        """A training that has done its first step, and the processes of its ranks."""
        keys.setdefault("train__steps", FOREVER)
        before = self.ranks_alive()
        process = subprocess.Popen(self.command(ranks, *self.tiny(*arguments, pipeline__devices=f'"{ranks}x cpu"', **keys)), text=True,
                                   env=ENVIRONMENT, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, start_new_session=True)
        for stream in (process.stdout, process.stderr):
            self.addCleanup(stream.close)
        self.addCleanup(self.kill, process)
        while line := process.stdout.readline():
            if line.startswith("step "):
                return process, sorted(self.ranks_alive() - before)
        self.fail(f"ended with {process.wait()}: {process.stderr.read()}")

    @staticmethod
    def kill(process):
        try:
            os.killpg(process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        process.wait()

    @staticmethod
    def kill_rank(rank):
        """Whether it was still there."""
        try:
            os.kill(rank, signal.SIGKILL)
            return True
        except ProcessLookupError:
            return False

    @staticmethod
    def ranks_alive():
        """Processes of the program; those that have ended but were not waited for do not count."""
        alive = set()
        for folder in pathlib.Path("/proc").iterdir():
            try:
                if folder.name.isdigit() and (folder / "exe").resolve() == PROGRAM and ") Z " not in (folder / "stat").read_text():
                    alive.add(int(folder.name))
            except OSError:
                pass  # it has ended
        return alive

    def await_end_of(self, ranks, seconds):
        deadline = running_seconds() + patience(seconds)
        while (left := self.ranks_alive() & set(ranks)) and running_seconds() < deadline:
            time.sleep(0.05)
        self.assertFalse(left, f"still running after {seconds} s")

    def expect_end(self, process, ranks, seconds):
        """Within so many seconds all ranks have ended, and the launcher does. Returns what was said on standard error."""
        self.await_end_of(ranks, seconds)
        _, errors = process.communicate(timeout=HANG_S)
        return errors


class OneAnswer(RanksTest):
    def test_of_a_transformer(self):
        for keys in (dict(), dict(pipeline__schedule="zb-v", model__tied_embeddings="true"), dict(pipeline__schedule="interleaved", pipeline__virtual_stages=2),
                     dict(train__precision="bf16", optimizer__ema=0.9, pipeline__micro_batches=3)):
            keys |= dict(train__steps=6, model__layers=4)
            one = self.train(pipeline__devices='"4x cpu"', **keys)
            for ranks in (2, 4):
                with self.subTest(keys=keys, ranks=ranks):
                    over_ranks = self.train_over(ranks, 4, **keys)
                    for what in ("weights_hash", "loss", "devices", "parameters"):
                        self.assertEqual(over_ranks[what], one[what])

    def test_of_an_image_model_with_running_statistics(self):
        keys = dict(AMOEBANET, train__steps=3, pipeline__micro_batches=3)
        one = self.train(**keys)
        over_ranks = self.train_over(2, 2, **keys)
        for what in ("weights_hash", "loss", "accuracy"):
            self.assertEqual(over_ranks[what], one[what])

    def test_of_replicas(self):
        keys = dict(train__steps=4, model__layers=4, model__tied_embeddings="true", pipeline__micro_batches=5, pipeline__fold_blocks=4)
        one = self.train(**keys)
        for devices, replicas, ranks in ((4, 2, 2), (4, 2, 4), (4, 4, 4), (2, 2, 2)):
            with self.subTest(devices=devices, replicas=replicas, ranks=ranks):
                over_ranks = self.train_over(ranks, devices, pipeline__replicas=replicas, **keys)
                for what in ("weights_hash", "loss"):
                    self.assertEqual(over_ranks[what], one[what])
                for device in over_ranks["devices"]:
                    self.assertEqual(device["peak_bytes"], device["predicted_peak_bytes"])
                bytes_sent = over_ranks["between_ranks"]
                self.assertEqual(bytes_sent["step_bytes"], bytes_sent["planned_step_bytes"])

    def test_of_replicas_with_a_searched_order(self):
        keys = dict(train__steps=2, pipeline__micro_batches=5, pipeline__fold_blocks=4)
        searched = dict(pipeline__replicas=2, pipeline__schedule="auto", pipeline__virtual_stages=2)
        planned = sluice("plan", "tiny", *sets(pipeline__devices='"4x cpu"', **keys, **searched))
        self.assertIn("schedule auto", planned.stdout, "the test needs an order that no schedule has")
        self.assertEqual(self.train_over(2, 4, **keys, **searched)["weights_hash"], self.train(**keys)["weights_hash"])

    def test_of_translation(self):
        keys = dict(TRANSLATION, train__steps=12, pipeline__fold_blocks=2)
        one = self.train(**keys)
        for devices, replicas, ranks in ((2, 1, 2), (4, 2, 4)):
            with self.subTest(devices=devices, replicas=replicas, ranks=ranks):
                over_ranks = self.train_over(ranks, devices, pipeline__replicas=replicas, **keys)
                for what in ("weights_hash", "loss"):
                    self.assertEqual(over_ranks[what], one[what])

    def test_of_replicas_that_come_and_go(self):
        keys = dict(model__layers=4, pipeline__micro_batches=4)
        whole = self.train(train__steps=9, pipeline__fold_blocks=4, **keys)
        self.train_over(4, 4, train__steps=3, pipeline__replicas=4, **keys)
        self.train_over(2, 4, "--resume", "auto", train__steps=6, pipeline__replicas=2, pipeline__shard_optimizer="false", **keys)
        last = self.train("--resume", "auto", out="ranks", train__steps=9, **keys)
        self.assertEqual(last["weights_hash"], whole["weights_hash"])

    def test_of_a_training_that_goes_over_to_other_ranks(self):
        whole = self.train(train__steps=9)
        self.train_over(2, 2, train__steps=3)
        self.train_over(4, 4, "--resume", "auto", train__steps=6)
        self.assertEqual(self.train("--resume", "auto", out="ranks", train__steps=9)["weights_hash"], whole["weights_hash"])
        done = sluice("eval", self.folder / "ranks")
        self.assertEqual((done.returncode, done.stderr), (0, ""))

    def test_of_the_text_in_the_report(self):
        text = self.write("text.txt", "each micro-batch goes to the next device, and its gradient comes back. " * 300)
        keys = dict(data__kind="text", data__path=text, data__cache=self.folder / "cache", model__vocab=256, train__steps=4)
        pages = [self.folder / name for name in ("one.html", "ranks.html")]
        self.train("--report", pages[0], **keys)
        self.train_over(2, 2, "--report", pages[1], **keys)
        samples = [page.read_text().partition("A sample of text")[2].partition("</pre>")[0] for page in pages]
        self.assertIn("The", samples[0])
        self.assertEqual(*samples)

    def test_of_ranks_that_were_dealt_out_over_two_hosts(self):
        dealt = 'hostname host$((${OMPI_COMM_WORLD_RANK:-$PMI_RANK} % 2)) && exec "$0" "$@"'
        on_two_hosts = ["unshare", "-u", "sh", "-c", dealt]
        if subprocess.run(["unshare", "-u", "hostname", "other"], capture_output=True).returncode != 0:
            self.skipTest("host names of its own need root")
        command = self.command(4, *self.tiny("--json", self.folder / "r.json", pipeline__devices='"4x cpu"', train__steps=3, model__layers=4))
        at = command.index(str(PROGRAM))
        done = subprocess.run(command[:at] + on_two_hosts + command[at:], capture_output=True, text=True, env=ENVIRONMENT,
                              stdin=subprocess.DEVNULL)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("4 ranks: 0, 1 on host0; 2, 3 on host1", done.stdout)
        one = self.train(pipeline__devices='"4x cpu"', train__steps=3, model__layers=4)
        self.assertEqual(json.loads((self.folder / "r.json").read_text())["weights_hash"], one["weights_hash"])


class Resharding(RanksTest):
    """From one number of ranks and stages to another, over the end of an epoch: all that a checkpoint keeps is that of one process."""
    KEYS = dict(optimizer__ema=0.9, data__train_samples=40, train__batch=8, output__keep=1, train__evaluate_batches=1)
    SAVED, ENDED = 4, 7  # of 5 steps an epoch
    RANKS = (1, 2, 4, 8)
    FEW = {(1, 8), (8, 2), (4, 1), (2, 4)}

    def saved_tensors(self, run):
        """Of all parts together, by the kind of file; and the state."""
        folder = self.folder / run / (self.folder / run / "latest").read_text().strip()
        state = json.loads((folder / "state.json").read_text())
        tensors = {}
        for path in folder.glob("*.safetensors"):
            kind = tensors.setdefault(path.name.split("-")[0].split(".")[0], {})
            for name, tensor in tensors_of(path).items():
                self.assertNotIn(name, kind)
                kind[name] = tensor
        return state["step"], state["weights_hash"], tensors

    def test_of_every_number_of_ranks_into_every_other(self):
        pairs = set(itertools.product(self.RANKS, self.RANKS)) if os.environ.get("SLUICE_EVERY_RESHARDING") else self.FEW
        self.train(out="whole", train__steps=self.ENDED, **self.KEYS)
        whole = self.saved_tensors("whole")
        self.assertEqual(set(whole[2]), {"model", "optimizer", "ema"})
        for before in sorted({before for before, _ in pairs}):
            self.train_over(before, before, out=f"saved{before}", train__steps=self.SAVED, **self.KEYS)
            saved = self.folder / f"saved{before}" / f"step-{self.SAVED:08}"
            self.assertEqual(json.loads((saved / "state.json").read_text())["format"], 2 if before > 1 else 1)
            done = sluice("inspect", saved, "--verify")
            self.assertEqual((done.returncode, done.stderr), (0, ""))
            for after in sorted(after for one, after in pairs if one == before):
                with self.subTest(before=before, after=after):
                    self.train_over(after, after, "--resume", saved, out=f"from{before}to{after}", train__steps=self.ENDED, **self.KEYS)
                    self.assertEqual(self.saved_tensors(f"from{before}to{after}"), whole)

    def test_of_a_damaged_part_is_found_in_any_of_them(self):
        self.train_over(2, 2, out="run", train__steps=2, output__save_every=1, optimizer__ema=0.9)
        newest, older = (self.folder / "run" / f"step-{step:08}" for step in (2, 1))
        parts = sorted(newest.glob("*-0000?-of-00002.safetensors"))
        self.assertEqual(len(parts), 6)
        for path in parts:
            whole = path.read_bytes()
            flipped = bytearray(whole)
            flipped[-1] ^= 1
            for damaged in (bytes(flipped), whole[:-1], whole + b"\0", (older / path.name).read_bytes()):
                path.write_bytes(damaged)
                self.refuse(3, path.name, "use an older checkpoint", arguments=["inspect", newest, "--verify"])
            path.unlink()
            self.refuse(3, path.name, arguments=["inspect", newest, "--verify"])
            path.write_bytes(whole)
        for one, other in ((0, 1), (2, 3), (4, 5)):  # of the same checkpoint, the other rank's
            whole = parts[one].read_bytes()
            parts[one].write_bytes(parts[other].read_bytes())
            self.refuse(3, parts[one].name, "use an older checkpoint", arguments=["inspect", newest, "--verify"])
            parts[one].write_bytes(whole)
        done = sluice("inspect", newest, "--verify", "--json", "-")
        self.assertEqual((done.returncode, json.loads(done.stdout)["verified"][0]["parts"]), (0, 2))


class Errors(RanksTest):
    def expect_error(self, code, *words, ranks=2, arguments):
        done = self.launch(ranks, *arguments)
        self.assertEqual(done.returncode, code, done.stderr)
        lines = [line for line in done.stderr.splitlines() if "error: " in line and line.startswith("sluice: ")]
        self.assertEqual(len(lines), 1, done.stderr)
        for word in words:
            self.assertIn(word, lines[0])

    def test_that_all_ranks_have_are_said_once(self):
        two = dict(pipeline__devices='"2x cpu"')
        self.expect_error(2, "rank 0", "train.steps", arguments=self.tiny("--set", "train.step=3"))
        self.expect_error(2, "needs equally many devices", "2 ranks", arguments=self.tiny(pipeline__devices='"3x cpu"'))
        self.expect_error(4, "does not fit", "lacks", arguments=self.tiny(pipeline__memory="100KiB", **two))
        self.expect_error(4, "output folder cannot be written", arguments=self.tiny(output__dir="/proc/nowhere", **two))
        self.expect_error(2, "pipeline.replan", "one process", arguments=self.tiny(pipeline__replan="true", **two))
        self.expect_error(3, "nowhere.txt", arguments=self.tiny(data__kind="text", data__path=self.folder / "nowhere.txt", **two))

    def test_of_ranks_that_were_started_otherwise(self):
        two = dict(pipeline__devices='"2x cpu"', train__evaluate_every=1)
        for flags in (["--report", self.folder / "r.html"], ["--resume", "auto"], sets(output__keep_best="true")):
            with self.subTest(flags):
                command = self.command(1, *self.tiny(**two))
                command += [":", "-n", "1", str(PROGRAM), *map(str, self.tiny(*flags, **two))]
                done = subprocess.run(command, capture_output=True, text=True, env=ENVIRONMENT, stdin=subprocess.DEVNULL)
                self.assertEqual(done.returncode, 2, done.stderr)
                self.assertRegex(done.stderr, r"rank 1: (--report|--resume|output.keep_best): needs what the root has, (nothing|false), got .*; start all ranks")

    def test_of_ranks_that_read_other_data(self):
        for rank, sentence in enumerate(("each micro-batch goes to the next device. ", "its gradient comes back from that device. ")):
            (self.folder / f"host{rank}").mkdir()
            (self.folder / f"host{rank}" / "text.txt").write_text(sentence.ljust(48) * 300)
        keys = dict(data__kind="text", data__path="text.txt", data__cache=self.folder / "cache", model__vocab=256, train__steps=1)
        command = self.command(2, *self.tiny(pipeline__devices='"2x cpu"', **keys))
        at = command.index(str(PROGRAM))
        elsewhere = ["sh", "-c", f'cd {self.folder}/host${{OMPI_COMM_WORLD_RANK:-$PMI_RANK}} && exec "$0" "$@"']
        done = subprocess.run(command[:at] + elsewhere + command[at:], capture_output=True, text=True, env=ENVIRONMENT, stdin=subprocess.DEVNULL)
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertRegex(done.stderr, r"rank 1: training loop: needs samples with the hash as on the root, '.* equal data sets")

    def test_of_commands_for_one_process(self):
        done = self.launch(2, "eval", self.folder)
        self.assertEqual(done.returncode, 2)
        self.assertIn("runs as one process, got 2 ranks", done.stderr)


class Failures(RanksTest):
    def test_of_a_killed_rank_end_the_job_and_leave_the_last_checkpoint(self):
        for victim in (0, 1):
            with self.subTest(victim):
                shutil.rmtree(self.folder / "run", ignore_errors=True)
                process, ranks = self.start(2, output__save_every=1, pipeline__timeout=5)
                while not (self.folder / "run" / "latest").exists():
                    time.sleep(0.01)
                os.kill(ranks[victim], signal.SIGKILL)
                self.expect_end(process, ranks, 7)
                self.assertNotEqual(process.returncode, 0)
                done = sluice("inspect", self.folder / "run", "--json", "-")
                self.assertEqual((done.returncode, done.stderr), (0, ""))
                steps = json.loads(done.stdout)["steps"] + 2
                resumed = self.train("--resume", "auto", train__steps=steps)
                self.assertEqual(resumed["weights_hash"], self.train(out=f"whole{victim}", train__steps=steps)["weights_hash"])

    def test_of_a_stopped_rank_end_the_job_and_name_it(self):
        process, ranks = self.start(2, pipeline__timeout=5)
        os.kill(ranks[1], signal.SIGSTOP)
        errors = self.expect_end(process, ranks[:1], 8)
        self.kill(process)
        for rank in self.ranks_alive() & set(ranks):
            self.kill_rank(rank)
        # Whoever waits for a message may be faster than the watchdog where the machine stood still.
        self.assertRegex(errors, r"rank 1|within 5 s \(pipeline.timeout\)(?s:.)* device 1 \(cpu:1\)")

    def test_of_a_rank_that_stops_while_the_plan_is_made_end_the_job(self):
        before = self.ranks_alive()
        long_plan = dict(pipeline__costs="measured", pipeline__schedule="auto", model__layers=48, model__dim=256, model__vocab=4000, train__batch=32)
        command = self.command(2, *self.tiny(pipeline__devices='"2x cpu"', pipeline__timeout=4, **long_plan))
        process = subprocess.Popen(command, text=True, env={**ENVIRONMENT, "XDG_CACHE_HOME": str(self.folder)}, stdin=subprocess.DEVNULL,
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True)
        for stream in (process.stdout, process.stderr):
            self.addCleanup(stream.close)
        self.addCleanup(self.kill, process)
        root, other = self.await_work_of_the_root(process, before)
        self.addCleanup(self.kill_rank, root)
        os.kill(root, signal.SIGSTOP)
        self.assertIn("rank 0 (on host", self.expect_end(process, [other], 8))

    def await_work_of_the_root(self, process, before):
        """Two ranks that have found each other, of which the root works and the other one waits for it. Until then both do the same."""
        while process.poll() is None:
            with contextlib.suppress(FileNotFoundError, ProcessLookupError):
                seconds = sorted((processor_seconds_of(rank), rank) for rank in self.ranks_alive() - before)
                if len(seconds) == 2 and seconds[1][0] - seconds[0][0] > 2:
                    return seconds[1][1], seconds[0][1]
            time.sleep(0.05)
        self.fail(f"ended with {process.returncode}: {process.stderr.read()}")

    def test_of_ranks_at_random_moments_are_survived_with_train_until_done(self):
        random.seed(4)
        keys = dict(train__steps=600, output__save_every=20, pipeline__devices='"4x cpu"')
        whole = self.train(out="whole", **keys)
        script = PROGRAM_TESTS.parents[1] / "scripts" / "train-until-done"
        before = self.ranks_alive()
        command = [script, "--ranks", "4", "--", *LAUNCHER, "-n", "{ranks}", PROGRAM, *self.tiny("--json", self.folder / "r.json", **keys)]
        process = subprocess.Popen(list(map(str, command)), env=ENVIRONMENT, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                   stderr=subprocess.PIPE, text=True, start_new_session=True)
        self.addCleanup(self.kill, process)
        self.addCleanup(process.stderr.close)
        killed = 0
        while process.poll() is None and killed < 3:
            time.sleep(random.uniform(1, 2.5))
            ranks = sorted(self.ranks_alive() - before)
            if ranks:
                killed += self.kill_rank(random.choice(ranks))
        _, messages = process.communicate(timeout=HANG_S)
        self.assertEqual(process.returncode, 0, messages)
        self.assertGreater(killed, 0, "needs a longer training")
        self.assertEqual(json.loads((self.folder / "r.json").read_text())["weights_hash"], whole["weights_hash"])

    def test_a_signal_saves_together_first(self):
        process, ranks = self.start(2)
        os.kill(ranks[1], signal.SIGUSR1)
        output, _ = process.communicate(timeout=HANG_S)
        self.assertIn("ended by a signal after step", output)
        done = sluice("inspect", self.folder / "run")
        self.assertEqual((done.returncode, done.stderr), (0, ""))

    def test_a_signal_in_an_evaluation_ends_at_its_step(self):
        process, ranks = self.start(2, train__evaluate_every=1, train__evaluate_batches=1000000)  # minutes
        os.kill(ranks[1], signal.SIGUSR1)
        output, _ = process.communicate(timeout=HANG_S)
        self.assertIn("validation after step 1: stopped by a signal", output)
        self.assertIn("ended by a signal after step 1", output)


if __name__ == "__main__":
    if shutil.which(LAUNCHER[0]) is None:
        print(f"{LAUNCHER[0]} is not installed")
        sys.exit(77)
    unittest.main()
