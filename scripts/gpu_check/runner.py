"""Runs commands of one section within its time, with their output in its log."""
import dataclasses
import os
import pathlib
import shlex
import signal
import subprocess
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent


@dataclasses.dataclass
class Outcome:
    code: int | None        # None: the time ran out
    output: str

    @property
    def timed_out(self):
        return self.code is None


class Runner:
    """`end` is the section's, on time.monotonic()'s clock."""

    def __init__(self, log, end, environment):
        self.log, self.end, self.environment = log, end, environment
        log.write_text("")

    def left_s(self):
        return max(self.end - time.monotonic(), 0)

    def note(self, text):
        with self.log.open("a") as log:
            log.write(text + "\n")

    def run(self, command, most_s=None, extra_environment=None):
        """Waits for the command, at most until the section's end; then it and its children are ended."""
        command = [str(word) for word in command]
        self.note(f"$ {shlex.join(command)}")
        begin = self.log.stat().st_size
        environment = {**self.environment, **(extra_environment or {})}
        with self.log.open("ab") as log:
            process = subprocess.Popen(command, cwd=ROOT, env=environment, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT,
                                       start_new_session=True)
            try:
                code = process.wait(timeout=min(self.left_s(), most_s or self.left_s()))
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
                code = None
        with self.log.open("rb") as log:
            log.seek(begin)
            return Outcome(code, log.read().decode(errors="replace"))


def last_line(output):
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    return lines[-1] if lines else "no output"
