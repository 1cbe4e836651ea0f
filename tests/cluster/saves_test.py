#!/usr/bin/env python3
"""Saves of four ranks that are cut short in every way: the old checkpoint or the new one is there, and a resumed training has the bits of
one that nobody disturbed.

usage: saves_test.py openmpi|mpich PROGRAM FILE_FAULTS [--long] [unittest arguments]      exit 77 where that launcher is not installed

--long: every call on every file is cut short, not some of each kind; 200 kills and 100 signals at random moments; 1,000 cuts of power.
"""
import collections
import json
import os
import random
import re
import shutil
import signal
import time

import job_test
from job_test import IS_LONG, RANKS, JobTest, patience, processes_of, sluice
import file_faults

FILE_FAULTS = job_test.next_program()


class EveryCall(JobTest):
    """A training that has one checkpoint, finds the rest of another, does a step and saves: each of its calls on files is a case."""

    def setUp(self):
        super().setUp()
        self.begun = self.folder / "begun"
        self.assertEqual(self.run_over_ranks(self.begun, train__steps=1).code, 0)
        rest = self.begun / "run" / "step-00000002.tmp-1"
        rest.mkdir()
        (rest / "model-00001-of-00004.safetensors").write_bytes(b"half")
        log = self.folder / "log"
        recorded = self.copy("recorded")
        self.launch_with(recorded, log=log)
        self.calls = collections.defaultdict(list)
        for call in file_faults.read_log(log):
            self.calls[call.rank].append(call)
        self.assertEqual(sorted(self.calls), list(range(RANKS)))
        self.hash = self.hash_after(3)

    def copy(self, name):
        shutil.copytree(self.begun, self.folder / name)
        return self.folder / name

    def launch_with(self, folder, **fault):
        before = file_faults.variables(FILE_FAULTS, folder / "run", **fault)
        return self.run_over_ranks(folder, "--resume", "auto", before=before, train__steps=2)

    def cases(self, ways, is_case=lambda call: True):
        """(rank, number of the call from 1, way). Not --long: a call of each kind in the middle of its row, of the root and of another rank,
        and the root's last ones, which come when the new checkpoint has its name."""
        every = [(rank, number + 1) for rank, calls in sorted(self.calls.items()) for number, call in enumerate(calls)
                 if is_case(call)]
        if IS_LONG:
            return [(rank, number, way) for rank, number in every for way in ways]
        some = []
        for rank in (0, RANKS - 1):
            for kind in sorted({call.name for call in self.calls[rank]}):
                numbers = [number for of, number in every if of == rank and self.calls[rank][number - 1].name == kind]
                some += [(rank, numbers[len(numbers) // 2])] if numbers else []
                some += [(rank, numbers[-1])] if rank == 0 and len(numbers) > 1 else []
        return [(rank, number, ways[index % len(ways)]) for index, (rank, number) in enumerate(some)]

    def goes_on(self, folder):
        """Another start has the right bits, and removes what was left. Returns the step of the checkpoint that it found."""
        result, begun, _ = self.resume(folder, 3)
        self.assertEqual(result["weights_hash"], self.hash)
        self.assertEqual([path.name for path in (folder / "run").iterdir() if ".tmp" in path.name], [])
        shutil.rmtree(folder)
        return begun

    def is_committed(self, rank, number, way):
        """Whether the new checkpoint has its name by then: the root gives it."""
        commit = [index for index, call in enumerate(self.calls[0], 1) if call.name == "rename" and call.other_path.endswith("/step-00000002")]
        self.assertEqual(len(commit), 1)
        return rank == 0 and (number > commit[0] or (number == commit[0] and way == "kill-after"))

    def test_a_kill_before_and_after_each_leaves_the_old_checkpoint_or_the_new_one(self):
        def kill(case):
            rank, number, way = case
            folder = self.copy(f"{way}-{rank}-{number}")
            launch = self.launch_with(folder, rank=rank, at=number, do=way)
            self.assertNotEqual(launch.code, 0, "the call was not reached")
            self.assertLess(launch.seconds, patience(30))
            begun = self.goes_on(folder)
            self.assertEqual(begun, 2 if self.is_committed(*case) else 1)
            return begun
        found = collections.Counter(self.each(self.cases(["kill-before", "kill-after"]), kill))
        print(f"{found.total()} kills: {found[1]} left the old checkpoint, {found[2]} the new one", flush=True)
        self.assertEqual(sorted(found), [1, 2])

    def test_a_disk_that_is_full_at_each_ends_the_job_with_the_old_checkpoint_or_the_new_one(self):
        def fill(case):
            rank, number, way = case
            folder = self.copy(f"{way}-{rank}-{number}")
            launch = self.launch_with(folder, rank=rank, at=number, do=way)
            self.assertEqual(launch.code, 4, launch.errors)
            errors = [line for line in launch.errors.splitlines() if line.startswith("sluice: ") and "error: " in line]
            self.assertEqual(len(errors), 1, launch.errors)
            self.assertIn(os.strerror(28), errors[0])
            left = [path.name for path in (folder / "run").glob("step-*.tmp-*")]
            self.assertTrue(not left or way == "no-space-from" or left == ["step-00000002.tmp-1"], left)
            return self.goes_on(folder)
        def takes_room(call):
            return call.offset & os.O_CREAT if call.name == "open" else call.name not in ("unlink", "rmdir")
        found = collections.Counter(self.each(self.cases(["no-space", "no-space-from"], takes_room), fill))
        print(f"{found.total()} full disks: {found[1]} left the old checkpoint, {found[2]} the new one", flush=True)
        self.assertEqual(sorted(found), [1, 2])

    def test_a_save_that_fails_once_on_the_way_is_done_again_before_the_end(self):
        write = next(number for number, call in enumerate(self.calls[2], 1) if call.name == "write")
        folder = self.copy("again")
        before = file_faults.variables(FILE_FAULTS, folder / "run", rank=2, at=write, do="no-space")
        launch = self.run_over_ranks(folder, "--resume", "auto", before=before, train__steps=5, output__save_every=1)
        self.assertEqual(launch.code, 4, launch.errors)
        self.assertIn("step 2 is saved", launch.output)
        self.assertEqual(self.goes_on(folder), 2)

    def test_each_rank_keeps_room_of_its_own(self):
        opened = [call.path for calls in self.calls.values() for call in calls if call.name == "open" and "reserve" in call.path]
        self.assertEqual((len(opened), len(set(opened))), (RANKS, RANKS))


class RandomMoments(JobTest):
    """One training that is stopped again and again, while it starts, steps or saves."""
    KEYS = dict(train__steps=10**9, output__save_every=1, output__keep=2)

    def disturbed(self, times, disturb):
        """Each start goes on from the newest checkpoint, which never is an older one than before."""
        generator = random.Random(5)
        folder, newest, while_starting, started = self.folder / "disturbed", 0, 0, 1
        for _ in range(times):
            launch = self.start(folder, "--resume", "auto", **self.KEYS)
            if generator.random() < 0.2:
                while_starting += 1
                time.sleep(generator.uniform(0, started))
            else:
                self.assertTrue(launch.await_line("step "), launch.process.stderr.read() if launch.process.poll() else "")
                started = time.monotonic() - launch.began  # machines differ, and what else they do
                time.sleep(generator.uniform(0, started / 3))
            said = disturb(launch, generator)
            launch.end()
            self.assertFalse(launch.left(), "processes are left")
            now = self.newest(folder / "run")
            self.assertGreaterEqual(now, newest)
            newest = now
            if said:
                said(launch, newest)
        self.assertGreater(newest, 0)
        result, begun, _ = self.resume(folder, newest + 2)
        self.assertEqual(begun, newest)
        self.assertEqual(result["weights_hash"], self.hash_after(newest + 2))
        left = [path.name for path in (folder / "run").iterdir() if ".tmp" in path.name]
        self.assertEqual(left, [])
        return f"{times} at random moments, {while_starting} of them of the start; step {newest} reached, the bits are those of one undisturbed run"

    def test_kills(self):
        def kill(launch, generator):
            ranks = [process for rank, process in sorted(processes_of(launch.folder).items()) if rank >= 0]
            victim = generator.choice(ranks) if ranks else launch.process.pid
            try:
                os.kill(victim, signal.SIGKILL)
            except ProcessLookupError:
                pass  # it has ended
            if victim == launch.process.pid:
                launch.left(seconds=0)
        print("kills:", self.disturbed(200 if IS_LONG else 4, kill), flush=True)

    def test_signals(self):
        endings = collections.Counter()

        def check(launch, newest):
            match = re.search(r"ended by a signal after step (\d+)", launch.output)
            endings["saved first" if match else "before the first step"] += 1
            if match:
                self.assertEqual(newest, int(match[1]))
            else:
                self.assertNotIn("\nstep ", launch.output, launch.errors)

        def send(launch, generator):
            """To a rank; SIGUSR1 also to the launcher, which passes it on."""
            number = generator.choice([signal.SIGUSR1, signal.SIGUSR1, signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
            ranks = [process for rank, process in sorted(processes_of(launch.folder).items()) if rank >= 0]
            try:
                os.kill(generator.choice(ranks), number) if ranks else os.killpg(launch.process.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
            if not ranks:
                launch.left(seconds=0)
            return check
        print("signals:", self.disturbed(100 if IS_LONG else 4, send), dict(endings), flush=True)


class PowerLoss(JobTest):
    """The files as they may be after a cut of power, replayed from all calls of all ranks (file_faults.Disk)."""

    def record(self):
        """Saves at every step, older ones deleted; then from an earlier checkpoint, so that later ones are moved aside. Returns the calls, and
        the number of the first that the second start made."""
        disk = self.folder / "disk"
        disk.mkdir()
        log = self.folder / "log"
        before = file_faults.variables(FILE_FAULTS, disk, log=log)
        keys = dict(before=before, output__save_every=1, output__keep=2)
        self.assertEqual(self.run_over_ranks(disk, train__steps=4, **keys).code, 0)
        first = len(file_faults.read_log(log))
        again = self.run_over_ranks(disk, "--resume", disk / "run" / "step-00000003", train__steps=6, **keys)
        self.assertEqual(again.code, 0, again.errors)
        calls = file_faults.read_log(log)
        whole = file_faults.Disk(disk)
        for call in calls:
            whole.apply(call)
        there = {path.relative_to(disk): None if path.is_dir() else path.read_bytes() for path in disk.rglob("*")}
        self.assertEqual(whole.after_cut(file_faults.everything), there, "the log lacks calls")
        return disk, calls, first

    def states_at(self, disk, calls, second_start, cuts, ignored=()):
        """(cut, what of the pending calls is there, the files, the oldest step that may be the newest)."""
        replayed, floor = file_faults.Disk(disk, ignored), 0
        for number, call in enumerate(calls):
            if number in cuts:
                for name, choose, generator in cuts[number]:
                    yield number, name, replayed.after_cut(choose, generator), floor
            if number == second_start:
                floor = 3
            replayed.apply(call)
            if call.name == "rename" and call.other_path.endswith("/latest"):
                floor = int(replayed.at(call.other_path).text()[5:])

    def lost(self, state, floor, name):
        """Why the state is none that a training can go on from; empty when it can."""
        folder = self.folder / name
        file_faults.put(state, folder)
        try:
            done = sluice("inspect", folder / "run", "--json", "-")
            if done.returncode != 0 and floor == 0:
                return ""  # nothing was saved yet
            if done.returncode != 0:
                return done.stderr
            steps = json.loads(done.stdout)["steps"]
            return "" if steps >= floor else f"step {steps}, where {floor} was saved"
        finally:
            shutil.rmtree(folder)

    def test_any_cut_leaves_what_was_saved(self):
        disk, calls, second_start = self.record()
        generator = random.Random(6)
        cuts = collections.defaultdict(list)
        for _ in range(1000 if IS_LONG else 60):
            name = generator.choice(["nothing", "everything", "some", "some"])
            choose = file_faults.some(generator) if name == "some" else getattr(file_faults, name)
            cuts[generator.randrange(1, len(calls))].append((name, choose, generator if name == "some" else None))
        states, resumed = list(self.states_at(disk, calls, second_start, cuts)), 0

        def check(index):
            number, name, state, floor = states[index]
            lost = self.lost(state, floor, f"cut{index}")
            self.assertEqual(lost, "", f"cut before call {number} ({calls[number].name} {calls[number].path}), {name} of what is pending")
        self.each(range(len(states)), check)
        wanted = self.hash_after(7)
        for index in random.Random(7).sample(range(len(states)), 20 if IS_LONG else 2):
            folder = self.folder / "again"
            file_faults.put(states[index][2], folder)
            result, _, _ = self.resume(folder, 7)
            self.assertEqual(result["weights_hash"], wanted)
            shutil.rmtree(folder)
            resumed += 1
        print(f"{len(states)} cuts of power in {len(calls)} calls; {resumed} resumed to the same bits", flush=True)

        # What would be lost without the syncs: the replay can fail.
        nothing = {number: [("nothing", file_faults.nothing, None)] for number in range(1, len(calls), len(calls) // 15)}
        for ignored in ("files", "folders"):
            unsafe = self.states_at(disk, calls, second_start, nothing, [ignored])
            self.assertTrue(any(self.lost(state, floor, f"{ignored}{number}") for number, _, state, floor in unsafe), ignored)


if __name__ == "__main__":
    job_test.main()
