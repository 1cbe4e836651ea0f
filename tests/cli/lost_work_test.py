#!/usr/bin/env python3
"""Ends trainings in every way that a user, a system or bad numbers can end them: nothing that was trained may be lost.

usage: lost_work_test.py PROGRAM [unittest arguments]
"""
import base64
import ctypes
import json
import os
import pathlib
import random
import resource
import shutil
import signal
import struct
import subprocess
import time
import unittest
import zlib

import program
from program import HANG_S, ProgramTest, patience, processor_seconds, sets, sluice

PROGRAM = program.PROGRAM = str(pathlib.Path(program.PROGRAM).resolve())  # some cases run it in folders of their own
FOREVER = 10**9


def png(side, *, damaged=False):
    """A grey PNG; a damaged one has a whole header and no whole pixels."""
    def chunk(kind, content):
        return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))
    pixels = zlib.compress(b"".join(b"\0" + bytes(range(side)) for _ in range(side)))
    header = struct.pack(">IIBBBBB", side, side, 8, 0, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", b"no pixels" if damaged else pixels) + chunk(b"IEND", b"")


class LostWork(ProgramTest):
    def start(self, *arguments, before=(), run="run", steps=FOREVER, **options):
        """A training that has done its first step; `before` are words before the program."""
        keys = {key: options.pop(key) for key in list(options) if "__" in key}
        options.setdefault("stderr", subprocess.PIPE)
        command = [*before, PROGRAM, *self.tiny(*arguments, output__dir=self.folder / run, train__steps=steps, **keys)]
        process = subprocess.Popen(list(map(str, command)), stdout=subprocess.PIPE, text=True, **options)
        self.addCleanup(process.stdout.close)
        if process.stderr:
            self.addCleanup(process.stderr.close)
        self.addCleanup(process.kill)
        self.await_line(process, "step ")
        return process

    def await_line(self, process, start):
        while line := process.stdout.readline():
            if line.startswith(start):
                return line
        self.fail(f"ended with {process.wait()} before '{start}': {process.stderr.read() if process.stderr else ''}")

    def await_work(self, process, seconds):
        """Until it has taken so many seconds more of the processors."""
        begin = processor_seconds(process)
        while process.poll() is None and processor_seconds(process) - begin < seconds:
            time.sleep(0.01)

    def saved_steps(self, run="run"):
        """Steps of the newest checkpoint, which must be whole; 0 when there is none."""
        if not list((self.folder / run).glob("step-*/state.json")):
            return 0
        done = sluice("inspect", self.folder / run, "--json", "-")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        return json.loads(done.stdout)["steps"]


class Signals(LostWork):
    def test_each_saves_first_also_when_it_comes_three_times(self):
        for number, code in ((signal.SIGHUP, 129), (signal.SIGINT, 130), (signal.SIGUSR1, 138), (signal.SIGTERM, 143), (signal.SIGXCPU, 152)):
            with self.subTest(number):
                process = self.start(run=f"run{number}")
                for _ in range(3):
                    process.send_signal(number)
                    time.sleep(0.001)
                output, _ = process.communicate(timeout=HANG_S)
                self.assertEqual(process.returncode, code)
                self.assertIn("ended by a signal after step", output)
                self.assertGreater(self.saved_steps(f"run{number}"), 0)

    def test_timeout_sends_its_signal_twice(self):
        shutil.which("timeout") or self.skipTest("no timeout(1)")
        process = self.start(before=["timeout", "--preserve-status", str(2 * HANG_S)])
        self.addCleanup(process.terminate)
        process.send_signal(signal.SIGALRM)     # which it gets when its time is over
        process.communicate(timeout=HANG_S)
        self.assertEqual(process.returncode, 143)
        self.assertGreater(self.saved_steps(), 0)

    def test_the_hangup_that_nohup_turns_off_stays_off(self):
        process = self.start(preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN), train__evaluate_every=50, train__evaluate_batches=1)
        process.send_signal(signal.SIGHUP)
        for _ in range(5):
            self.await_line(process, "validation after step")
        self.assertIsNone(process.poll())
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=HANG_S)
        self.assertEqual(process.returncode, 143)

    def test_during_saves_and_validations(self):
        generator = random.Random(1)
        keys = dict(output__save_every=1, output__keep=1, model__dim=256, train__evaluate_every=1, train__evaluate_batches=4)
        for number, code in ((signal.SIGTERM, 143), (signal.SIGUSR1, 138), (signal.SIGHUP, 129)):
            process = self.start("--resume", "auto", **keys)
            time.sleep(generator.uniform(0, 0.3))
            before = self.newest_name()
            process.send_signal(number)
            process.communicate(timeout=HANG_S)
            self.assertEqual(process.returncode, code)
            self.assertGreaterEqual(self.saved_steps(), before)
            self.assertEqual(list((self.folder / "run").glob("*.tmp*")), [])

    def newest_name(self):
        return max((int(path.name[5:]) for path in (self.folder / "run").glob("step-????????")), default=0)

    def test_kills_while_older_checkpoints_are_deleted(self):
        generator = random.Random(2)
        last = 0
        for _ in range(6):
            process = self.start("--resume", "auto", output__save_every=1, output__keep=1, model__dim=256)
            time.sleep(generator.uniform(0, 0.2))
            process.kill()
            process.communicate()
            self.assertGreaterEqual(self.saved_steps(), last)
            last = self.saved_steps()
        self.assertGreater(last, 0)

    def validation_of_minutes(self):
        words = base64.b64encode(random.Random(1).randbytes(9_000_000)).decode()
        return dict(data__kind="text", data__path=self.write("text.txt", words), data__cache=self.folder / "cache", data__validation=0.5,
                    model__vocab=256, model__dim=128, train__evaluate_batches=0)

    def test_validations_and_baselines_end_within_two_seconds(self):
        keys = self.validation_of_minutes()
        short = dict(train__evaluate_batches=1, train__baseline="true")
        for run, steps, line, more in (("between", FOREVER, None, dict(train__evaluate_every=1)), ("after", 1, None, {}),
                                       ("baseline", 1, "validation after step 1", short)):
            with self.subTest(run):
                process = self.start(run=run, steps=steps, **{**keys, **more})
                self.await_line(process, line) if line else self.await_work(process, 1)
                self.assertNotIn("trigram", self.ends_within_two_seconds(process, 143))
                self.assertEqual(self.saved_steps(run), 1)

    def ends_within_two_seconds(self, process, code):
        self.assertIsNone(process.poll())
        begin = processor_seconds(process)
        process.send_signal(signal.SIGTERM)
        output, _ = process.communicate(timeout=HANG_S)
        self.assertLess(processor_seconds() - begin, patience(2))
        self.assertEqual(process.returncode, code)
        return output

    def test_a_validation_ends_within_two_seconds_in_a_mini_batch_of_four(self):
        process = self.start(model__layers=12, model__dim=256, model__context=128, train__batch=96, data__train_samples=200,
                             pipeline__micro_batches=8, train__evaluate_every=1, output__save_minutes=0)
        self.await_work(process, 0.3)
        self.assertIn("validation after step 1: stopped by a signal", self.ends_within_two_seconds(process, 143))
        self.assertEqual(self.saved_steps(), 1)

    def test_planning_and_measuring_end_within_two_seconds(self):
        search = sets(pipeline__devices="64x tpuv3", pipeline__schedule="auto", pipeline__micro_batches="auto", pipeline__remat="auto")
        long_search = sets(model__layers=1000, pipeline__devices="cpu:0,cpu:1,cpu:2,cpu:3", pipeline__schedule="auto", train__batch=64,
                           pipeline__micro_batches="auto")
        for command in (["plan", "transformer-l", *search, *sets(model__layers=400)], self.tiny(*long_search), self.tiny(*sets(pipeline__costs="measured", model__dim=1024)),
                        ["plan", "tiny", "--profile", *sets(model__dim=1024, data__cache=self.folder / "cache")]):
            with self.subTest(command):
                environment = {**os.environ, "SLUICE_CACHE_DIR": str(self.folder / "times")}
                process = subprocess.Popen([PROGRAM, *map(str, command)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment)
                self.await_work(process, 1)
                self.ends_within_two_seconds(process, -signal.SIGTERM)
                self.assertEqual(self.saved_steps(), 0)

    def test_reading_a_checkpoint_ends_within_two_seconds_and_leaves_it(self):
        keys = dict(model__dim=1024, model__layers=4, model__context=8, train__batch=1, pipeline__micro_batches=1)
        self.train(train__steps=1, **keys)
        generator, were_reading = random.Random(3), 0
        for command in 5 * [["eval", self.folder / "run"], self.tiny("--resume", "auto", train__steps=FOREVER, **keys)]:
            process = subprocess.Popen([PROGRAM, *map(str, command)], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
            time.sleep(generator.uniform(0, 0.5))
            were_reading += process.poll() is None
            begin = processor_seconds(process)
            process.send_signal(signal.SIGTERM)
            process.communicate(timeout=HANG_S)
            self.assertLess(processor_seconds() - begin, patience(2))
            self.assertGreaterEqual(self.saved_steps(), 1)
        self.assertGreater(were_reading, 0)


class Hangs(LostWork):
    """A thread is frozen from outside, as in a kernel that never returns."""

    def freeze(self, thread):
        seize, interrupt = 0x4206, 0x4207  # PTRACE_SEIZE, PTRACE_INTERRUPT
        ptrace = ctypes.CDLL(None, use_errno=True).ptrace
        ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
        for request in seize, interrupt:
            if ptrace(request, thread, None, None) != 0:
                self.skipTest(f"may not stop a thread here: {os.strerror(ctypes.get_errno())}")
        os.waitpid(thread, self.ANY_THREAD)

    ANY_THREAD = 0x40000000  # __WALL

    def busiest_worker(self, process):
        def seconds(thread):
            return sum(map(int, (tasks / thread / "stat").read_text().rsplit(")", 1)[1].split()[11:13]))
        tasks = pathlib.Path(f"/proc/{process.pid}/task")
        return int(max((thread.name for thread in tasks.iterdir() if thread.name != str(process.pid)), key=seconds))

    def await_end_of(self, process, thread):
        """The frozen thread ends with the process, which is there until it is asked for."""
        end = time.monotonic() + HANG_S
        while os.waitpid(thread, self.ANY_THREAD | os.WNOHANG)[0] == 0:
            if time.monotonic() > end:
                process.kill()
                os.waitpid(thread, self.ANY_THREAD)
                self.fail("the process waits for its frozen thread")
            time.sleep(0.01)

    def test_a_thread_that_never_returns_is_reported_after_the_timeout_and_ends_the_process(self):
        process = self.start(model__dim=256, pipeline__devices="cpu:0,cpu:1", pipeline__timeout=10, output__save_every=1)
        self.await_line(process, "step ")  # a second step: the checkpoint of the first is whole
        worker = self.busiest_worker(process)
        self.freeze(worker)
        self.await_end_of(process, worker)
        _, errors = process.communicate(timeout=HANG_S)
        self.assertEqual(process.returncode, 5, errors)
        for word in "pipeline.timeout", "device 0 (cpu:0)", "device 1 (cpu:1)", "has not come back from", "is not saved: trainer: a device never came back":
            self.assertIn(word, errors)
        self.assertGreater(self.saved_steps(), 0)


class Output(LostWork):
    def test_closed_pipe_costs_one_warning_and_no_training(self):
        process = self.start(steps=300)
        process.stdout.close()
        errors = process.stderr.read()
        self.assertEqual(process.wait(timeout=HANG_S), 0, errors)
        self.assertEqual(errors.count("sluice: warning: the output cannot be written"), 1, errors)
        self.assertEqual(self.saved_steps(), 300)

    def test_output_that_is_lost_from_the_start(self):
        keys = self.tiny(train__steps=30)
        log = self.write("log", bytes(2_000_000))
        small_files = lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (2_000_000, 2_000_000))
        for target, limit in ((open("/dev/full", "w"), None), (open(log, "a"), small_files)):
            with target:
                shutil.rmtree(self.folder / "run", ignore_errors=True)
                done = subprocess.run([PROGRAM, *map(str, keys)], stdout=target, stderr=subprocess.PIPE, text=True, preexec_fn=limit)
                self.assertEqual(done.returncode, 0, done.stderr)
                self.assertEqual(done.stderr.count("warning"), 1, done.stderr)
                self.assertEqual(self.saved_steps(), 30)

    def test_nobody_reads_errors_either(self):
        process = self.start(steps=300)
        process.stdout.close()
        process.stderr.close()
        self.assertEqual(process.wait(timeout=HANG_S), 0)
        self.assertEqual(self.saved_steps(), 300)


class Errors(LostWork):
    def test_gradients_that_are_not_finite(self):
        keys = dict(train__steps=9, optimizer__lr=1e18, optimizer__clip=0)
        self.refuse(6, "the gradient of step 2 is not finite", "node '", "on cpu:0", "train.on_nonfinite",
                 arguments=self.tiny(pipeline__devices="cpu:0,cpu:1", **keys))
        self.assertEqual(self.saved_steps(), 1)
        skipped = self.train(out="skip", train__on_nonfinite="skip", **keys)
        self.assertEqual((skipped["steps"], skipped["skipped_steps"]), (9, 8))
        self.assertEqual(self.saved_steps("skip"), 9)
        result = self.folder / "result.json"
        self.refuse(6, "all 3 steps of this run were skipped", "optimizer.lr",
                    arguments=self.tiny("--resume", "auto", "--json", result, output__dir=self.folder / "skip", train__on_nonfinite="skip", **{**keys, "train__steps": 12}))
        self.assertEqual(json.loads(result.read_text())["skipped_steps"], 3)
        self.assertEqual(self.saved_steps("skip"), 12)
        self.assertEqual(json.loads(sluice("inspect", self.folder / "skip", "--json", "-").stdout)["weights_hash"],
                         json.loads(sluice("inspect", self.folder / "run", "--json", "-").stdout)["weights_hash"])

    def test_infinite_weights_are_not_saved_and_prune_nothing(self):
        self.train(train__steps=2, output__keep=1)
        for steps in 3, 9:
            self.refuse(6, "not finite", arguments=self.tiny("--resume", "auto", optimizer__lr=1e39, train__steps=steps, output__keep=1,
                                                             output__save_every=1))
            self.assertEqual(self.saved_steps(), 2)
        self.train("--resume", "auto", train__steps=4)

    def test_a_bad_image_at_validation(self):
        for split, names in ("train", "abcdefgh"), ("val", "ab"):
            for label in "01":
                folder = self.folder / "images" / split / label
                folder.mkdir(parents=True)
                for name in names:
                    (folder / f"{name}.png").write_bytes(png(8, damaged=split == "val" and name == "b"))
        keys = dict(model__name="resnet50", model__filters=4, model__classes=2, model__channels=3, model__image_size=8, data__kind="images",
                    data__path=self.folder / "images", data__cache=self.folder / "cache", train__evaluate_every=2, train__steps=9, train__batch=4)
        self.refuse(3, "val/", "b.png", arguments=self.tiny(**keys))
        self.assertEqual(self.saved_steps(), 2)

    def test_a_validation_that_does_not_fit_is_refused_before_the_first_step(self):
        keys = dict(model__name="unet", model__depth=1, model__filters=2, model__classes=64, model__image_size=16, model__dropout=0,
                    train__batch=32, pipeline__micro_batches=32, pipeline__remat="full", pipeline__memory="1MiB")
        plan = json.loads(sluice("plan", "tiny", "--json", "-", *sets(**keys)).stdout)
        self.assertTrue(plan["fits"], plan["reason"])
        self.refuse(4, "the validation does not fit", "cpu:0", "train.batch", arguments=self.tiny(**keys))
        self.assertEqual(self.saved_steps(), 0)

    def test_minutes_between_checkpoints(self):
        process = self.start(output__save_minutes=0.001)
        deadline = time.monotonic() + HANG_S
        while not self.saved_steps() and time.monotonic() < deadline:
            time.sleep(0.1)
        process.kill()
        process.communicate()
        self.assertGreater(self.saved_steps(), 0)


class Refusals(LostWork):
    def nothing_begins(self, code, *words, arguments):
        self.refuse(code, *words, arguments=arguments)
        self.assertEqual(self.saved_steps(), 0)

    def test_files_that_cannot_be_written_at_the_end(self):
        missing = self.folder / "no" / "file"
        for flag in "--report", "--trace", "--json":
            self.nothing_begins(4, flag, missing, arguments=self.tiny(flag, missing))
        self.nothing_begins(4, "output.report", self.folder, arguments=self.tiny(output__report=self.folder))
        kept = self.write("report.html", "an older one")
        self.nothing_begins(2, "train.baseline", "text", arguments=self.tiny("--report", kept, "--trace", self.folder / "new", train__baseline="true"))
        self.assertEqual(kept.read_text(), "an older one")
        self.assertFalse((self.folder / "new").exists())

    def test_a_report_may_lie_in_the_folder_that_the_training_makes(self):
        run = self.folder / "runs" / "first"
        done = sluice(*self.tiny(output__dir=run, output__report=run / "report.html", train__steps=2))
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertTrue((run / "report.html").is_file())

    def test_a_report_goes_into_the_output_folder_whatever_its_name(self):
        run = self.folder / "mine"
        done = sluice(*self.tiny(output__dir=run, output__report="auto", train__steps=1))
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertTrue((run / "report.html").is_file())

    def test_one_file_for_two_results(self):
        same = self.folder / "same"
        for flags in ("--report", "--json"), ("--trace", "--json"), ("--report", "--trace"):
            self.nothing_begins(2, *flags, "needs a file of its own", arguments=self.tiny(flags[0], same, flags[1], self.folder / "." / "same"))
        self.refuse(2, "--html", "--json", "needs a file of its own", arguments=["plan", "tiny", "--json", same, "--html", same])
        self.assertFalse(same.exists())

    def test_empty_words(self):
        for flag in "--resume", "--init":
            self.nothing_begins(2, flag, "got an empty text", arguments=self.tiny(flag, ""))
        for size in "0.5", "0.0000000001GiB":
            self.nothing_begins(2, "pipeline.memory", size, arguments=self.tiny(pipeline__memory=size))

    def test_more_memory_than_the_machine_has(self):
        begin = processor_seconds()
        self.nothing_begins(4, "does not fit this machine", "TiB", "are free",
                            arguments=self.tiny(model__dim=131072, model__layers=2, optimizer__name="adamw"))
        self.assertLess(processor_seconds() - begin, patience(20))

    def test_threads_that_the_system_refuses(self):
        limit = lambda: resource.setrlimit(resource.RLIMIT_AS, (1 << 30, 1 << 30))
        if sluice(*self.tiny(train__steps=1), preexec_fn=limit).returncode != 0:
            self.skipTest("this build needs more address space than the test leaves it")
        shutil.rmtree(self.folder / "run")
        done = sluice(*self.tiny(data__threads=256), preexec_fn=limit)
        self.assertEqual(done.returncode, 4, done.stderr)
        self.assertIn("cannot start a thread of the data loader", done.stderr)

    def test_small_stacks(self):
        limit = lambda: resource.setrlimit(resource.RLIMIT_STACK, (1 << 17, 1 << 17))
        done = sluice(*self.tiny(train__steps=2), preexec_fn=limit)
        self.assertEqual(done.returncode, 0, done.stderr)


class Folders(LostWork):
    def test_resuming_by_any_path_moves_nothing_aside(self):
        self.train(train__steps=1)
        (self.folder / "link").symlink_to(self.folder / "run" / "step-00000001")
        for number, (path, place) in enumerate([(f"{self.folder}/run/step-00000001/", None), (".", self.folder / "run" / "step-00000002"),
                                                (self.folder / "link", None), (f"{self.folder}/run/", None)]):
            done = sluice(*self.tiny("--resume", path, train__steps=number + 2, output__keep=9), cwd=place)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertTrue((self.folder / "run" / "step-00000001").is_dir())
        self.assertEqual([path.name for path in (self.folder / "run").glob("previous-*/step-00000001")], [])

    def test_what_is_the_users_own_is_never_deleted(self):
        run = self.folder / "run"
        run.mkdir()
        (run / "step-00000001").write_text("mine")
        (run / "step-000000002").mkdir()
        for steps in 3, 4:
            done = sluice(*self.tiny("--resume", "auto", train__steps=steps, output__save_every=1, output__keep=1))
            self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("mine", [path.read_text() for path in run.rglob("step-00000001")])
        self.assertTrue((run / "step-000000002").is_dir())
        self.assertEqual(self.saved_steps(), 4)

    def on_small_disk(self, size, script):
        """Runs a script in a folder on a disk of its own."""
        inside = f'mount -t tmpfs -o size={size} tmpfs "$1" && cd "$1" || exit 99; {script}'
        if subprocess.run(["unshare", "-rm", "sh", "-c", 'mount -t tmpfs tmpfs "$1"', "sh", self.folder], capture_output=True).returncode != 0:
            self.skipTest("needs to mount a disk of its own")
        return subprocess.run(["unshare", "-rm", "sh", "-c", inside, "sh", self.folder, PROGRAM], capture_output=True, text=True, timeout=HANG_S)

    def test_a_disk_without_room_is_refused_before_the_first_step(self):
        done = self.on_small_disk("300k", '"$2" train tiny --set output.dir=run')
        self.assertEqual(done.returncode, 4, done.stderr)
        self.assertRegex(done.stderr, r"run: needs \d+ bytes of room for a checkpoint, the disk has \d+ free")
        self.assertIn("output] dir", done.stderr)
        self.assertNotIn("step 1/", done.stdout)

    def test_a_disk_that_fills_up_has_room_for_the_last_save(self):
        script = f'''"$2" train tiny --set output.dir=run --set train.steps={FOREVER} > log 2>&1 & training=$!
            until grep -q "^step 1/" log; do kill -0 $training || exit 98; sleep 0.05; done
            cat /dev/zero > filler 2> /dev/null
            kill -TERM $training; wait $training; code=$?
            "$2" inspect run && exit $code'''
        done = self.on_small_disk("1500k", script)
        self.assertEqual(done.returncode, 143, done.stdout + done.stderr)
        self.assertRegex(done.stdout, r"trained for [1-9]\d* steps")

    def test_a_save_without_room_stops_the_training_and_the_step_is_saved(self):
        script = f'''"$2" train tiny --set output.dir=run --set train.steps={FOREVER} --set output.save_every=1000 > log 2>&1 & training=$!
            until grep -q "^step 1/" log; do kill -0 $training || exit 98; sleep 0.05; done
            cat /dev/zero > filler 2> /dev/null
            wait $training; code=$?
            "$2" inspect run && exit $code'''
        done = self.on_small_disk("1500k", script)
        self.assertEqual(done.returncode, 4, done.stdout + done.stderr)
        self.assertRegex(done.stdout, r"trained for [1-9]\d*000 steps")


if __name__ == "__main__":
    unittest.main()
