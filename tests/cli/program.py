"""What tests of the built program share: running it, and a folder for each test. The program is the first argument of the command line.
"""
import json
import os
import pathlib
import resource
import shutil
import subprocess
import sys
import tempfile
import unittest

PROGRAM = os.path.abspath(sys.argv.pop(1) if len(sys.argv) > 1 else "build/cli/sluice")  # tests run it in other folders


def patience(seconds):
    """A limit of the processor's seconds, longer where programs are slow by construction."""
    return seconds * int(os.environ.get("SLUICE_TIME_LIMIT_FACTOR", "1"))


HANG_S = patience(600)  # when a program counts as hanging: however busy the machine, none takes so long


def processor_seconds_of(process):
    """What a running process has taken of the processors, by its number. Unlike time, what else the machine does hardly changes it."""
    return sum(map(int, pathlib.Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()[11:13])) / os.sysconf("SC_CLK_TCK")


def processor_seconds(running=None):
    """What the programs that have ended took of the processors, and a running one so far."""
    ended = resource.getrusage(resource.RUSAGE_CHILDREN)
    so_far = processor_seconds_of(running.pid) if running and running.poll() is None else 0
    return ended.ru_utime + ended.ru_stime + so_far


def sluice(*arguments, **options):
    return subprocess.run([PROGRAM, *map(str, arguments)], capture_output=True, text=True, timeout=HANG_S, **options)


def sets(**keys):
    """table__key=value -> --set table.key=value"""
    return [word for key, value in keys.items() for word in ("--set", f"{key.replace('__', '.')}={value}")]


def fitting(keys):
    """Without the key that only made-up data has, where the data come from files."""
    if keys.get("data__kind", "synthetic") != "synthetic":
        del keys["data__train_samples"]
    return keys


def tensors_of(path):
    """name -> (dtype, shape, bytes) of a safetensors file."""
    content = path.read_bytes()
    begin = 8 + int.from_bytes(content[:8], "little")
    return {name: (entry["dtype"], entry["shape"], content[begin + entry["data_offsets"][0]:begin + entry["data_offsets"][1]])
            for name, entry in json.loads(content[8:begin]).items()}


def idx(values, *shape):
    """An IDX file of bytes."""
    return bytes([0, 0, 8, len(shape)]) + b"".join(size.to_bytes(4, "big") for size in shape) + bytes(values)


class ProgramTest(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="sluice-test-"))
        self.addCleanup(shutil.rmtree, self.folder)

    def train(self, *arguments, out="run", **keys):
        done = sluice("train", "tiny", "--json", "-", *arguments, *sets(output__dir=self.folder / out, **keys))
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(done.stdout)

    def refuse(self, code, *words, arguments):
        """The program must end with `code` and one line that has all the words."""
        done = sluice(*arguments)
        self.assertEqual(done.returncode, code, done.stderr)
        lines = [line for line in done.stderr.splitlines() if line.startswith("sluice: error: ")]
        self.assertEqual(len(lines), 1, done.stderr)
        for word in words:
            self.assertIn(str(word), lines[0])
        return lines[0]

    def tiny(self, *arguments, **keys):
        keys.setdefault("output__dir", self.folder / "run")
        return ["train", "tiny", *arguments, *sets(**keys)]

    def write(self, name, content):
        path = self.folder / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path
