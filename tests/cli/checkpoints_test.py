#!/usr/bin/env python3
"""Checkpoints as a user meets them: signals and kills, resuming, folders, damage and full disks.

usage: checkpoints_test.py PROGRAM [unittest arguments]
"""
import fcntl
import json
import os
import random
import signal
import subprocess
import unittest

from program import HANG_S, PROGRAM, ProgramTest, sets, sluice, tensors_of


class Checkpoints(ProgramTest):
    def test_resume_on_another_pipeline_gives_the_same_bits(self):
        whole = self.train(out="whole")
        self.train(train__steps=10)
        rest = self.train("--resume", "auto", pipeline__devices="cpu:0,cpu:1,cpu:2", pipeline__schedule="gpipe", pipeline__remat="full")
        self.assertEqual(rest["weights_hash"], whole["weights_hash"])
        self.assertEqual(rest["steps"], 20)

    def test_signal_saves_and_resume_gives_the_uninterrupted_weights(self):
        keys = dict(model__dropout=0.1)
        for number, code in (signal.SIGINT, 130), (signal.SIGTERM, 143):
            run = f"run{number}"
            process = subprocess.Popen([PROGRAM, *self.tiny(output__dir=self.folder / run, train__steps=10**9, **keys)], stdout=subprocess.PIPE, text=True)
            while "step 1/" not in process.stdout.readline():
                self.assertIsNone(process.poll())
            process.send_signal(number)
            process.communicate(timeout=HANG_S)
            self.assertEqual(process.returncode, code)
            steps = int((self.folder / run / "latest").read_text()[len("step-"):]) + 20
            rest, whole = self.train("--resume", "auto", out=run, train__steps=steps, **keys), self.train(out=f"whole{number}", train__steps=steps, **keys)
            self.assertEqual((rest["weights_hash"], rest["steps"]), (whole["weights_hash"], steps))

    def test_kills_at_any_moment_lose_nothing(self):
        keys = dict(train__steps=60, output__save_every=1, output__keep=2)
        whole = self.train(out="whole", **keys)
        generator = random.Random(1)
        for _ in range(8):
            process = subprocess.Popen([PROGRAM, *self.tiny("--resume", "auto", **keys)], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
            try:
                process.communicate(timeout=generator.uniform(0.3, 0.7))
            except subprocess.TimeoutExpired:
                process.kill()
            self.assertNotIn("sluice:", process.communicate()[1] or "")
        self.assertEqual(self.train("--resume", "auto", **keys)["weights_hash"], whole["weights_hash"])
        self.assertEqual(list((self.folder / "run").glob("*.tmp-*")), [])

    def test_the_newest_is_looked_for_once_no_other_training_writes(self):
        self.train(train__steps=1)
        self.write("run/step-00000001/model.safetensors", "damaged")  # whoever looks says so
        with open(self.folder / "run" / "lock") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            for wanted in ("auto", self.folder / "run"):
                done = sluice(*self.tiny("--resume", wanted))
                self.assertEqual(done.returncode, 4, done.stderr)
                self.assertIn("another training writes", done.stderr)
                self.assertNotIn("damaged", done.stderr)

    def test_newest_are_kept_and_others_set_aside(self):
        self.train(train__steps=6, output__save_every=1, output__keep=2)
        names = sorted(path.name for path in (self.folder / "run").glob("step-*"))
        self.assertEqual(names, ["step-00000005", "step-00000006"])
        self.assertEqual((self.folder / "run" / "latest").read_text(), "step-00000006\n")
        self.train(train__steps=2)
        self.assertTrue((self.folder / "run" / "previous-1" / "step-00000006").is_dir())

    def test_patience_ends_a_training_and_the_best_is_kept(self):
        keys = dict(optimizer__lr=0.3, train__steps=60, train__evaluate_every=2, train__patience=3, output__keep_best="true")
        result = self.train(**keys)
        newest = json.loads((self.folder / f"run/step-{result['steps']:08}/evaluations.json").read_text())
        losses = {entry["step"]: entry["loss"] for entry in newest}
        best = min(losses, key=losses.get)
        self.assertEqual(result["steps"], best + 6)
        self.assertEqual(list(losses), list(range(2, best + 7, 2)))
        self.assertEqual([folder.name for folder in (self.folder / "run/best").iterdir() if folder.is_dir()], [f"step-{best:08}"])
        done = sluice("eval", self.folder / "run/best", "--json", "-")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertAlmostEqual(json.loads(done.stdout)["loss"]["validation"], losses[best], places=6)
        again = self.train("--resume", "auto", **keys)
        self.assertEqual(again["weights_hash"], result["weights_hash"], "it has had all its patience")

    def test_one_that_is_pruned_while_it_is_read_gives_way_to_the_next(self):
        keys = dict(train__steps=10**9, output__save_every=1, output__keep=1)
        training = subprocess.Popen([PROGRAM, *map(str, self.tiny(**keys))], stdout=subprocess.DEVNULL)
        try:
            while not (self.folder / "run" / "latest").exists():
                self.assertIsNone(training.poll())
            for _ in range(600):  # one in a hundred or two meets the moment
                done = sluice("inspect", self.folder / "run")
                self.assertEqual((done.returncode, done.stderr), (0, ""))
            self.assertIsNone(training.poll())
        finally:
            training.kill()
            training.communicate()

    def test_frozen_parameters_stay(self):
        self.train(train__steps=1, train__freeze='["embedding.*", "block0.*"]', optimizer__lr=0, optimizer__weight_decay=0)
        start = tensors_of(self.folder / "run/step-00000001/model.safetensors")
        for pipeline in ({}, dict(pipeline__devices='["cpu:0", "cpu:1"]')):
            self.train(train__steps=3, train__freeze='["embedding.*", "block0.*"]', out="tuned", **pipeline)
            tuned = tensors_of(self.folder / "tuned/step-00000003/model.safetensors")
            for name, value in tuned.items():
                self.assertEqual(value == start[name], name.startswith(("embedding.", "block0.")), name)
            states = tensors_of(self.folder / "tuned/step-00000003/optimizer.safetensors")
            self.assertFalse([name for name in states if name.startswith(("embedding.", "block0."))])
        self.refuse(2, "train.freeze", "'blok0.*'", "NODE.*", arguments=["train", "tiny", *sets(train__freeze='["blok0.*"]')])

    def test_files_of_killed_savings_are_removed(self):
        stale = self.folder / "run" / "step-00000003.tmp-1"
        stale.mkdir(parents=True)
        self.train(train__steps=1)
        self.assertFalse(stale.exists())

    def test_damaged_checkpoint_is_refused_and_resume_takes_the_older(self):
        self.train(train__steps=4, output__save_every=2)
        newest = self.folder / "run" / "step-00000004"
        model = newest / "model.safetensors"
        whole = model.read_bytes()
        model.write_bytes(whole[:-1])
        self.refuse(3, "model.safetensors", arguments=["eval", newest])
        flipped = bytearray(whole)
        flipped[len(flipped) // 2] ^= 1
        model.write_bytes(flipped)
        self.refuse(3, "model.safetensors", "checksum", arguments=["eval", newest])
        done = sluice(*self.tiny("--resume", "auto", train__steps=6))
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("sluice: warning: ", done.stderr)
        self.assertIn("step-00000002", done.stdout)

    def test_every_place_of_a_checkpoint_is_watched(self):
        self.train(train__steps=1, model__layers=1, model__dim=8)
        folder = self.folder / "run" / "step-00000001"
        generator = random.Random(1)
        for path in sorted(folder.iterdir()):
            whole = path.read_bytes()
            for position in generator.sample(range(len(whole)), 12):
                changed = bytearray(whole)
                changed[position] ^= 1 << generator.randrange(8)
                path.write_bytes(changed)
                self.refuse(3, path.name, arguments=["inspect", folder])
                path.write_bytes(whole[:position])
                self.refuse(3, path.name, arguments=["inspect", folder])
            path.write_bytes(whole)
        self.assertEqual(sluice("inspect", folder).returncode, 0)

    def test_checkpoint_of_another_model_names_parameter_and_shapes(self):
        self.train(train__steps=1)
        self.refuse(3, "[32]", "[16]", "block0.attention", arguments=self.tiny("--resume", "auto", model__dim=16))

    def test_full_disk_keeps_the_old_checkpoint(self):
        self.train(train__steps=1)
        import resource
        limit = lambda: (signal.signal(signal.SIGXFSZ, signal.SIG_IGN), resource.setrlimit(resource.RLIMIT_FSIZE, (20000, 20000)))
        done = sluice(*self.tiny("--resume", "auto", train__steps=2), preexec_fn=limit)
        self.assertEqual(done.returncode, 4, done.stderr)
        self.assertIn("ulimit -f", done.stderr)
        self.assertEqual([path.name for path in (self.folder / "run").glob("step-*")], ["step-00000001"])
        self.assertEqual(sluice("inspect", self.folder / "run").returncode, 0)

    def test_working_folder_that_is_gone(self):
        gone = self.folder / "gone"
        gone.mkdir()
        leave = lambda: (os.chdir(gone), gone.rmdir())
        done = sluice(*self.tiny(output__dir="run"), preexec_fn=leave)
        self.assertEqual(done.returncode, 4, done.stderr)
        self.assertIn("[output] dir", done.stderr)


if __name__ == "__main__":
    unittest.main()
