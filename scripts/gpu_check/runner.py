"""Runs commands of one section within its time, with their output in its log."""
import dataclasses
import os
import pathlib
import re
import shlex
import signal
import subprocess
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
MOST_OUTPUT_BYTES = 8 << 20     # of one command: one that prints for ever fills no disk


@dataclasses.dataclass
class Outcome:
    code: int | None        # None: it was ended before it was done
    output: str
    why: str = ""           # it was ended

    @property
    def ending(self):
        """What became of it, for people."""
        if self.code is None:
            return self.why
        return f"was ended by signal {-self.code}" if self.code < 0 else f"ended with {self.code}"


class Runner:
    """`end` is the section's, on time.monotonic()'s clock. The last `ending_s` of it are kept for ending what hangs."""

    def __init__(self, log, end, ending_s, environment):
        self.log, self.end, self.ending_s, self.environment = log, end - ending_s, ending_s, environment
        log.write_text("")

    def left_s(self):
        return max(self.end - time.monotonic(), 0)

    def note(self, text):
        with self.log.open("a") as log:
            log.write(text + "\n")

    def run(self, command, most_s=None, extra_environment=None):
        """Waits for the command, at most until the section's end; then it and its children are ended."""
        command = [str(word) for word in command]
        self.note(" ".join(["$", *[f"{name}={value}" for name, value in (extra_environment or {}).items()], shlex.join(command)]))
        if self.left_s() == 0:
            return Outcome(None, "", "was not started: the section's time is over")
        begin = self.log.stat().st_size
        with self.log.open("ab") as log:
            try:
                # A group of its own, but no session: what ends all of this driver's session ends the command too.
                process = subprocess.Popen(command, cwd=ROOT, env={**self.environment, **(extra_environment or {})},
                                           stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT, preexec_fn=os.setpgrp)
            except OSError as error:
                return Outcome(None, "", f"could not be started: {error.strerror}")
            try:
                why = self._wait(process, begin, min(self.left_s(), most_s or self.left_s()))
            except BaseException:       # this driver is being ended
                self._end(process)
                raise
        with self.log.open("rb") as log:
            log.seek(begin)
            output = log.read(2 * MOST_OUTPUT_BYTES).decode(errors="replace")
        if why:
            self.note(f"# {why}")
        return Outcome(None if why else process.returncode, output, why)

    def _wait(self, process, begin, most_s):
        """Why it was ended, or nothing when it ended by itself."""
        end, why = time.monotonic() + most_s, ""
        while not why:
            try:
                process.wait(timeout=min(max(end - time.monotonic(), 0), 0.5))
                self._end(process)      # what it may have left running
                return ""
            except subprocess.TimeoutExpired:
                if time.monotonic() >= end:
                    why = "ran past its time"
                elif self.log.stat().st_size - begin > MOST_OUTPUT_BYTES:
                    why = f"printed more than {MOST_OUTPUT_BYTES >> 20} MiB"
        return why if self._end(process) else f"{why} and cannot be ended: it waits for its driver, say"

    def _end(self, process):
        """Ends the group: asked first, because ninja then ends its compilers, which have groups of their own. Whether it is gone."""
        for sign in (signal.SIGTERM, signal.SIGKILL):
            try:
                os.killpg(process.pid, sign)
            except ProcessLookupError:
                return True
            if process.returncode is not None and sign == signal.SIGKILL:
                return True
            try:
                process.wait(timeout=self.ending_s / 2)
            except subprocess.TimeoutExpired:
                pass
        return process.returncode is not None


def first_error(output):
    """Of a compiler, say: what came first is why the rest did."""
    return next((line.strip() for line in output.splitlines() if re.search(r"\berror\b|ERROR", line)), last_line(output))


def last_line(output):
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    return lines[-1] if lines else "no output"
