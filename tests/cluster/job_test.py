"""What the tests of failing jobs share: a launch in a folder of its own, its ranks, and that nothing of it is left.

A test that imports this takes: openmpi|mpich PROGRAM, further programs, [--long] [unittest arguments]
"""
import concurrent.futures
import json
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

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "cli"))
from mpi_train_test import ENVIRONMENT, LAUNCHER, PROGRAM, RanksTest  # takes launcher and program from the command line
from program import HANG_S, patience, sets, sluice
from running_clock import running_seconds

IS_LONG = "--long" in sys.argv
if IS_LONG:
    sys.argv.remove("--long")
RANKS = 4
AT_A_TIME = 3   # launches, most of whose time is the launcher's
SMALL = dict(model__layers=2, model__dim=16, model__vocab=32, train__evaluate_batches=0)
RANK_VARIABLES = ("OMPI_COMM_WORLD_RANK=", "PMI_RANK=")


def next_program():
    """A further program of the command line."""
    return pathlib.Path(sys.argv.pop(1)).resolve()


def processes_of(folder):
    """{rank, -1 for a launcher: process} of those that name the folder in their commands; without those that have only not been waited for."""
    found = {}
    for process in pathlib.Path("/proc").iterdir():
        try:
            if process.name.isdigit() and f"{folder}/".encode() in (process / "cmdline").read_bytes() and ") Z " not in (process / "stat").read_text():
                words = (process / "environ").read_bytes().decode(errors="replace").split("\0")
                is_rank = (process / "exe").resolve().name not in ("env", "timeout", "mpirun", "orterun", "mpiexec.hydra", "hydra_pmi_proxy")
                rank = [word for word in words if word.startswith(RANK_VARIABLES)] if is_rank else []
                found[int(rank[0].split("=")[1]) if rank else -1 - int(process.name)] = int(process.name)
        except OSError:
            pass  # it has ended
    return found


def abandoned_shared_memory():
    """Names that no process has mapped: jobs of others come and go meanwhile."""
    names = set(os.listdir("/dev/shm"))
    for process in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            names -= set(re.findall(r" /dev/shm/(\S+)", (process / "maps").read_text()))
        except OSError:
            pass  # it has ended
    return names


class Launch:
    """One launch of all ranks, whose processes can be told by a folder that is in their command. Its launcher has temporary files of its own:
    those of Open MPI that begin and end at once make and remove the same folder under each other."""

    def __init__(self, folder, command, before=(), ranks=RANKS, limit=HANG_S):
        self.folder, self.began, self.began_running = folder, time.monotonic(), running_seconds()
        self.temporary = tempfile.TemporaryDirectory(prefix="launch-", ignore_cleanup_errors=True)
        words = ["timeout", "-k", "5", str(limit), *LAUNCHER, "-n", str(ranks), *before, *command]
        self.process = subprocess.Popen(list(map(str, words)), env={**ENVIRONMENT, "TMPDIR": self.temporary.name}, stdin=subprocess.DEVNULL,
                                        text=True, start_new_session=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE)

    def end(self):
        """Waits for the end of the launcher and of all ranks, which end with it."""
        self.output, self.errors = self.process.communicate()
        self.code, self.seconds = self.process.returncode, running_seconds() - self.began_running
        self.stood_still = time.monotonic() - self.began - self.seconds
        return self

    def left(self, seconds=3):
        """Processes that are still there so long after the launcher; they are killed."""
        deadline = running_seconds() + patience(seconds)
        while (alive := processes_of(self.folder)) and running_seconds() < deadline:
            time.sleep(0.05)
        for process in alive.values():
            try:
                os.kill(process, signal.SIGKILL)
            except ProcessLookupError:
                pass
        return alive

    def await_line(self, start):
        """Whether it said so before its end."""
        while line := self.process.stdout.readline():
            if line.startswith(start):
                return True
        return False

    def kill(self):
        RanksTest.kill(self.process)
        self.left(seconds=0)
        self.temporary.cleanup()
        self.process.stdout.close()
        self.process.stderr.close()


class JobTest(RanksTest):
    def training(self, folder, *arguments, **keys):
        keys = dict(SMALL, output__dir=folder / "run", pipeline__devices=f'"{RANKS}x cpu"', output__keep=1) | keys
        return [PROGRAM, "train", "tiny", *arguments, *sets(**keys)]

    def start(self, folder, *arguments, before=(), ranks=RANKS, **keys):
        folder.mkdir(exist_ok=True)
        launch = Launch(folder, self.training(folder, *arguments, **keys), before, ranks)
        self.addCleanup(launch.kill)
        return launch

    def run_over_ranks(self, folder, *arguments, **options):
        launch = self.start(folder, *arguments, **options).end()
        self.assertFalse(launch.left(), "processes are left")
        return launch

    def resume(self, folder, steps):
        """One process goes on to so many steps. Returns its results, the step that it began with, and all that it said."""
        done = sluice(*self.training(folder, "--resume", "auto", "--json", "-", train__steps=steps, pipeline__devices="cpu:0")[1:])
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertNotIn("warning", done.stderr)
        begun = re.search(r"continuing from .*/step-(\d+)", done.stderr)
        return json.loads(done.stdout), int(begun[1]) if begun else 0, done.stderr

    def hash_after(self, steps):
        """Of a training that nobody disturbed."""
        whole = sluice(*self.training(self.folder / f"whole{steps}", "--json", "-", train__steps=steps, pipeline__devices="cpu:0")[1:])
        self.assertEqual(whole.returncode, 0, whole.stderr)
        return json.loads(whole.stdout)["weights_hash"]

    def newest(self, run):
        """Steps of the newest checkpoint, which must be whole; 0 where there is none."""
        done = sluice("inspect", run, "--json", "-")
        if not list(run.glob("step-*/state.json")):
            return 0
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        return json.loads(done.stdout)["steps"]

    def each(self, cases, run):
        """Runs all cases, some at a time. A case that fails is told with its name, and fails the test when all have run."""
        def attempt(case):
            try:
                return run(case), None
            except Exception as error:  # also assertions
                print(f"failed: {case}: {error}", flush=True)
                return None, f"{case}: {error}"
        with concurrent.futures.ThreadPoolExecutor(AT_A_TIME) as pool:
            results = list(pool.map(attempt, cases))
        failures = [failure for _, failure in results if failure]
        self.assertFalse(failures, f"{len(failures)} of {len(cases)} failed:\n" + "\n".join(failures))
        return [result for result, _ in results]


def main():
    if shutil.which(LAUNCHER[0]) is None:
        print(f"{LAUNCHER[0]} is not installed")
        sys.exit(77)
    unittest.main()
