#!/usr/bin/env python3
"""Runs mpi_group_check under an MPI's launcher: what groups must do, with several ranks, and how they fail.

usage: mpi_test.py openmpi|mpich PROGRAM      exit 77 where that launcher is not installed
"""
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "cli"))
from running_clock import running_seconds  # noqa: E402

LAUNCHERS = {
    "openmpi": ["mpirun.openmpi", "--oversubscribe", "--bind-to", "none"],
    "mpich": ["mpiexec.mpich"],
}
LIMIT = 600  # seconds after which a launch counts as hanging: however busy the machine, none takes so long


class Launch:
    """What one launch printed, and how it ended."""

    def __init__(self, command, **variables):
        environment = {**os.environ, "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1", **variables}
        begin = running_seconds()
        done = subprocess.run(["timeout", "-k", "5", str(LIMIT), *command], text=True, env=environment, stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        self.seconds, self.code, self.text = running_seconds() - begin, done.returncode, done.stdout

    def expect(self, what, is_so):
        if not is_so:
            sys.exit(f"mpi_test: needed {what}, got exit code {self.code} after {self.seconds:.1f} s and:\n{self.text}")


def processes(program):
    """The ids of running processes of that program; those that have ended but were not waited for do not count."""
    found = set()
    for folder in pathlib.Path("/proc").iterdir():
        try:
            if folder.name.isdigit() and (folder / "exe").resolve() == program and ") Z " not in (folder / "stat").read_text():
                found.add(folder.name)
        except OSError:
            pass  # it has ended, or is not ours
    return found


def expect_no_new_process(program, before):
    deadline = running_seconds() + 5
    while left := processes(program) - before:
        if running_seconds() > deadline:
            sys.exit(f"mpi_test: needed the end of all processes, got {sorted(left)} running")
        time.sleep(0.1)


def run_all(launcher, program):
    def launch(ranks, *words, **variables):
        return Launch([*launcher, "-n", str(ranks), str(program), *words], **variables)

    for ranks in (1, 2, 4):
        suite = launch(ranks, "suite")
        suite.expect("a suite that passes on all ranks", suite.code == 0 and suite.text.count(f"of {ranks}: ") == ranks)
    over_tcp = {"OMPI_MCA_btl": "tcp,self", "OMPI_MCA_btl_tcp_if_include": "lo", "UCX_TLS": "tcp,self"}
    suite = launch(4, "suite", **over_tcp)
    suite.expect("a suite that passes over sockets", suite.code == 0 and suite.text.count("of 4: ") == 4)
    for check in ("AbortEndsAllWaits", "TooLongAMessageIsAnError"):
        with tempfile.TemporaryDirectory() as passed:
            fatal = launch(3, "fatal", check, passed)
            fatal.expect(f"{check} on all ranks", fatal.code != 0 and sorted(os.listdir(passed)) == ["0", "1", "2"])

    # A rank that is killed is missed by the launcher; one that hangs by the others. Each needs 1.5 s to get there.
    killed = launch(3, "kill")
    killed.expect("an end soon after a rank was killed", killed.code in (5, 9, 137) and killed.seconds < 1.5 + 5)
    stopped = launch(3, "stop")
    stopped.expect("a watchdog that names the rank which stopped", "rank 2 (on host " in stopped.text and "has not been heard of for 3 s" in stopped.text)
    # The kernel sends SIGHUP to a stopped process whose group loses its last parent, and MPICH's launcher may answer with that: 1.
    stopped.expect("an end soon after the watchdog's time", stopped.code in (1, 5, 9, 137) and stopped.seconds < 1.5 + 3 + 5)

    missing = launch(2, "size", SLUICE_MPI_PLUGIN="/nowhere/libsluice.so")
    missing.expect("the cure where there is no plugin", missing.code != 0 and "-Dmpi=enabled" in missing.text)


def run_without_launcher(name, program):
    alone = Launch([str(program), "size"])
    alone.expect("one rank without a launcher", alone.code == 0 and "rank 0 of 1" in alone.text)
    plugin = program.parent.parent / "parallel" / "group" / f"libsluice-{name}.so"
    wrong = Launch([str(program), "size"], SLURM_NTASKS="4", SLURM_PROCID="0", SLURM_STEP_ID="0", SLUICE_MPI_PLUGIN=str(plugin))
    wrong.expect("both numbers and the cure where srun has no PMIx",
                 wrong.code == 2 and all(word in wrong.text for word in ("the 4 ranks", "world of 1", "srun --mpi=pmix")))


def main():
    name, program = sys.argv[1], pathlib.Path(sys.argv[2]).resolve()
    launcher = LAUNCHERS[name]
    if shutil.which(launcher[0]) is None:
        print(f"mpi_test: skipped, because there is no {launcher[0]}")
        return 77
    before = processes(program)
    run_without_launcher(name, program)
    run_all(launcher, program)
    expect_no_new_process(program, before)
    return 0


if __name__ == "__main__":
    sys.exit(main())
