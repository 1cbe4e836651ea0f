#!/usr/bin/env python3
"""Trains over two hosts, which are network namespaces of this machine: one answer, the bytes on the line, and what a cut line does.

usage: two_hosts_test.py openmpi|mpich PROGRAM [--long] [unittest arguments]     exit 77 where this machine or its launcher cannot
       --long: every schedule, layout and number of micro-batches, some minutes
"""
import os
import pathlib
import re
import shlex
import shutil
import statistics
import sys
import time
import unittest

IS_LONG = "--long" in sys.argv
if IS_LONG:
    sys.argv.remove("--long")
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "cli"))
import two_hosts
# Takes launcher and program from the command line.
from mpi_train_test import AMOEBANET, LAUNCHER, LAUNCHER_NAME, PROGRAM, RanksTest
from program import HANG_S, patience
from running_clock import running_seconds

LAYOUTS = ((2, 1), (4, 2), (4, 1))  # devices, devices a rank
LANGUAGE_MODEL = dict(train__steps=4, model__layers=4, model__tied_embeddings="true")
IMAGE_MODEL = dict(AMOEBANET, train__steps=3)
SCHEDULES = {name: dict(pipeline__schedule=name) for name in ("gpipe", "1f1b", "zb-h1", "zb-v")}
SCHEDULES["interleaved"] = dict(pipeline__schedule="interleaved", pipeline__virtual_stages=2)


def combinations():
    """(keys, {schedule: layouts}) of trainings that have one answer."""
    if not IS_LONG:
        yield dict(LANGUAGE_MODEL, pipeline__micro_batches=3), {"zb-v": LAYOUTS, "interleaved": [(2, 1)], "1f1b": [(4, 2)]}
        yield dict(IMAGE_MODEL, pipeline__micro_batches=3), {"gpipe": [(2, 1)], "zb-h1": [(4, 2)]}
        return
    for model in LANGUAGE_MODEL, dict(LANGUAGE_MODEL, train__precision="bf16"), IMAGE_MODEL:
        for micro_batches in 1, 3, 4:
            yield dict(model, pipeline__micro_batches=micro_batches), dict.fromkeys(SCHEDULES, LAYOUTS)


class TwoHostsTest(RanksTest):
    """Ranks lie on two hosts, half of them on each."""

    def setUp(self):
        super().setUp()
        self.hosts = two_hosts.TwoHosts()
        self.addCleanup(self.hosts.end)

    def command(self, ranks, *arguments):
        program = getattr(self, "rank_program", PROGRAM)
        return ["timeout", "-k", "5", str(HANG_S), *self.hosts.launcher(LAUNCHER_NAME, ranks), str(program), *map(str, arguments)]

    def fresh(self, train, *arguments, **keys):
        """Without checkpoints of an earlier training."""
        for folder in "run", "ranks":
            shutil.rmtree(self.folder / folder, ignore_errors=True)
        return train(*arguments, **keys)


class OneAnswer(TwoHostsTest):
    def test_of_one_process_and_of_ranks_on_two_hosts(self):
        for keys, schedules in combinations():
            one = self.fresh(self.train, **keys)
            self.assertIsNone(one["between_ranks"])
            for devices in 2, 4:
                threads = self.fresh(self.train, pipeline__devices=f'"{devices}x cpu"', **keys)
                self.assertEqual(threads["weights_hash"], one["weights_hash"])
            for schedule, layouts in schedules.items():
                for devices, devices_a_rank in layouts:
                    with self.subTest(keys=keys, schedule=schedule, devices=devices, devices_a_rank=devices_a_rank):
                        over = self.fresh(self.train_over, devices // devices_a_rank, devices, **keys, **SCHEDULES[schedule])
                        for what in "weights_hash", "loss", "accuracy":
                            self.assertEqual(over[what], one[what], what)
                        self.assertEqual(over["between_ranks"]["step_bytes"], over["between_ranks"]["planned_step_bytes"])
        self.assertEqual([host.processes() for host in self.hosts.hosts], [set(), set()])

    def test_of_replicas(self):
        for model in LANGUAGE_MODEL, dict(LANGUAGE_MODEL, train__precision="bf16"), IMAGE_MODEL:
            keys = dict(model, pipeline__micro_batches=5, pipeline__fold_blocks=4)
            one = self.fresh(self.train, **keys)
            for devices, replicas, ranks in ((2, 2, 2), (4, 2, 2), (4, 2, 4), (4, 4, 4)):
                with self.subTest(keys=keys, devices=devices, replicas=replicas, ranks=ranks):
                    over = self.fresh(self.train_over, ranks, devices, pipeline__replicas=replicas, **keys)
                    for what in "weights_hash", "loss", "accuracy":
                        self.assertEqual(over[what], one[what], what)
                    self.assertEqual(over["between_ranks"]["step_bytes"], over["between_ranks"]["planned_step_bytes"])

    def test_of_one_rank(self):
        self.assertEqual(self.train_over(1, 1, **LANGUAGE_MODEL)["weights_hash"], self.train(**LANGUAGE_MODEL)["weights_hash"])

    def test_is_told_with_the_host_of_every_rank(self):
        done = self.launch(2, *self.tiny(pipeline__devices='"2x cpu"', train__steps=1))
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(done.stdout.splitlines()[0], "2 ranks: 0 on first; 1 on second")


class Bytes(TwoHostsTest):
    def bytes_of(self, devices, steps, **keys):
        """What crossed the line, and what the program says of a step."""
        before = self.hosts.bytes_on_line()
        over = self.fresh(self.train_over, 2, devices, train__steps=steps, **keys)
        return self.hosts.bytes_on_line() - before, over["between_ranks"]["planned_step_bytes"]

    def test_on_the_line_are_those_of_the_plan(self):
        few, many = 5, 45
        for devices, keys in ((2, dict(model__layers=4, pipeline__schedule="zb-v", model__tied_embeddings="true", pipeline__micro_batches=3)),
                              (4, dict(model__layers=4, model__dim=64))):
            with self.subTest(devices=devices, keys=keys):
                start, planned = self.bytes_of(devices, few, **keys)
                whole, again = self.bytes_of(devices, many, **keys)
                self.assertEqual(planned, again)
                a_step = (whole - start) / (many - few)  # without start, validation and end
                print(f"{LAUNCHER_NAME}, {devices} devices: {a_step:.0f} bytes a step on the line, {planned} planned", file=sys.stderr)
                self.assertGreater(a_step, planned)
                self.assertLess(a_step, 1.05 * planned + 4096, "headers of packets, and what ranks tell each other at the end of a step")


class SlowLine(TwoHostsTest):
    SECONDS = 0.05  # one way

    def setUp(self):
        if not os.path.exists("/dev/net/tun"):
            self.skipTest("this machine has no /dev/net/tun")
        super().setUp()
        self.hosts.end()
        self.hosts = two_hosts.TwoHosts(self.SECONDS)
        self.addCleanup(self.hosts.end)

    def test_takes_one_latency_for_a_message(self):
        """There and back with activations and gradients of 128 KiB, and with the gradient's norm: four latencies. A message that asks first takes three.

        The first dozen steps take more: connections are made, and TCP sends a few packets a latency until its window has grown. What else the
        machine does adds to some steps; the fastest has the least of it.
        """
        keys = dict(train__steps=32, train__evaluate_every=0, train__evaluate_batches=1, model__context=128, model__dim=128, model__layers=1,
                    train__batch=4, pipeline__micro_batches=2, pipeline__schedule="gpipe")
        done = self.launch(2, *self.tiny(pipeline__devices='"2x cpu"', **keys))
        self.assertEqual(done.returncode, 0, done.stderr)
        step_ms = [float(found) for found in re.findall(r"^step .* ([\d.]+) ms \|", done.stdout, re.MULTILINE)]
        self.assertGreater(statistics.median(step_ms), 3.5 * self.SECONDS * 1e3, "the line holds nothing back")
        self.assertLess(min(step_ms), 8 * self.SECONDS * 1e3)


class CutLine(TwoHostsTest):
    TIMEOUT = 5  # pipeline.timeout

    def setUp(self):
        super().setUp()
        # What a rank on the other side says does not come over the line.
        self.rank_program = self.folder / "rank"
        self.rank_program.write_text(f"#!/bin/sh\nrank=${{OMPI_COMM_WORLD_RANK:-$PMI_RANK}}\n{shlex.quote(str(PROGRAM))} \"$@\" 2> "
                                     f"{self.folder}/errors-$rank\ncode=$?\necho $code > {self.folder}/code-$rank\nexit $code\n")
        self.rank_program.chmod(0o755)

    def test_ends_all_ranks_with_the_name_of_the_one_that_is_lost(self):
        process, ranks = self.start(2, pipeline__timeout=self.TIMEOUT)
        self.hosts.cut()
        began = time.monotonic()
        self.await_end_of(ranks, self.TIMEOUT + 2)
        print(f"{LAUNCHER_NAME}: all ranks ended {time.monotonic() - began:.1f} s after the cut", file=sys.stderr)
        while len(list(self.folder.glob("code-*"))) < 2 and running_seconds() < began + patience(self.TIMEOUT + 5):
            time.sleep(0.05)
        for rank, other in (0, "rank 1 (on host second)"), (1, "rank 0 (on host first)"):
            errors = (self.folder / f"errors-{rank}").read_text()
            # The watchdog and whoever waits for a message have the same time, of which the first leaves out what this machine stood still.
            self.assertRegex(errors, rf"sluice: rank {rank}: error: ({re.escape(other)} has not been heard of|.*needed a message of {re.escape(other)} within"
                                     rf"|.* within {self.TIMEOUT} s \(pipeline.timeout\)(?s:.)* device {1 - rank} \(cpu:{1 - rank}\))")
            where = rf"device {rank} \(cpu:{rank}\) |this rank had come to step "  # within a step, or before one
            self.assertRegex(errors, rf"\n  ({where})", "where the rank was itself")
            self.assertEqual((self.folder / f"code-{rank}").read_text(), "5\n", errors)
        self.kill(process)  # launchers wait for the other host as long as it takes
        namespaces = [host.namespace for host in self.hosts.hosts]
        self.hosts.end()
        self.assertFalse(two_hosts.processes_of(*namespaces))


if __name__ == "__main__":
    reason = two_hosts.why_not()
    if not reason and shutil.which(LAUNCHER[0]) is None:
        reason = f"{LAUNCHER[0]} is not installed"
    if reason:
        print(reason)
        sys.exit(77)
    unittest.main()
