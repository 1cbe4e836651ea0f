#!/usr/bin/env python3
"""Bad files, bad words, closed streams and missing resources: every row is a command, what stands around it, and how it has to end.

usage: hostile_test.py PROGRAM [unittest arguments]
"""
import json
import os
import pathlib
import pty
import re
import resource
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).parent))
from program import HANG_S, PROGRAM, ProgramTest, idx, patience, processor_seconds, sets, sluice  # noqa: E402  (it takes the program's path from the arguments)

NOBODY = 54321  # a user who owns nothing and runs nothing


def ways_to(path):
    return [path, *path.resolve().parents]


def others_may_run():
    """Whether another user reaches the program."""
    return os.geteuid() == 0 and all(part.stat().st_mode & stat.S_IXOTH for part in ways_to(pathlib.Path(PROGRAM)))


def as_nobody():
    if os.geteuid() == 0:
        os.setuid(NOBODY)


def without_threads():
    as_nobody()
    resource.setrlimit(resource.RLIMIT_NPROC, (1, 1))
    os.environ["ASAN_OPTIONS"] = os.environ.get("ASAN_OPTIONS", "") + ":detect_leaks=0"  # which would start a thread


def closing(*streams):
    return lambda: [os.close(stream) for stream in streams]


class Row:
    """`command` and the values of `keys` may be functions of the test, for what has to be made before."""

    def __init__(self, name, command, code, *words, out="pipe", err="pipe", prepare=None, absent=(), needs=None, **keys):
        self.name, self.command, self.code, self.words, self.keys = name, command, code, words, keys
        self.out, self.err, self.prepare, self.absent, self.needs = out, err, prepare, absent, needs


def full(command, name=None, **options):
    """A row for output that is lost."""
    return Row(f"{name or ' '.join(map(str, command))} to a full disk", command, 4, "cannot be written", out="/dev/full", **options)


DOTS = ".".join(["a"] * 40000)
TINY = ("train", "tiny")

ROWS = [
    # What ended the process.
    Row("standard error that is full", ("inspect", "nosuch"), 2, err="/dev/full"),
    Row("standard error that is closed", ("inspect", "nosuch"), 2, err=None, prepare=closing(2)),
    Row("a warning to a full standard error", lambda t: ("eval", t.damaged_newest()), 0, err="/dev/full"),
    Row("generate with a full standard error", lambda t: ("generate", t.text_run, "--prompt", "a"), 0, err="/dev/full"),
    Row("threads refused", TINY, 4, "thread", "ulimit -u", prepare=without_threads, needs=others_may_run),
    Row("a dotted key of 40000 parts", lambda t: ("inspect", t.write("dots.toml", f"[model]\n{DOTS} = 1\n")), 2, "dots.toml:2", "parts"),
    Row("a table's name of 40000 parts", lambda t: ("inspect", t.write("dots.toml", f"\n\n[{DOTS}]\n")), 2, "dots.toml:3", "parts"),
    Row("an inline table of 40000 parts", lambda t: ("inspect", t.write("dots.toml", f"[model]\nname = {{ {DOTS} = 1 }}\n")), 2, "dots.toml:2"),
    Row("a device with a key of 40000 parts", lambda t: ("plan", "tiny"), 2, "dots.toml:1", "parts",
        pipeline__devices=lambda t: "2x " + str(t.write("dots.toml", f"{DOTS} = 1\n"))),
    Row("lists in lists", lambda t: ("inspect", t.write("deep.toml", "[model]\nname = " + "[" * 100000 + "]" * 100000)), 2, "deep.toml:2"),
    Row("a state of 100000 nested objects", lambda t: ("inspect", t.with_state('{"a":' * 100000 + "1" + "}" * 100000)), 3, "state.json", "nests"),
    Row("a state of 100000 nested lists", lambda t: ("eval", t.with_state("[" * 100000 + "]" * 100000)), 3, "state.json"),
    Row("a state that is no JSON", lambda t: ("eval", t.with_state("\0" * 1000)), 3, "state.json"),
    Row("a state that is a list", lambda t: ("generate", t.with_state("[]\n")), 3, "state.json"),
    Row("an empty state to verify", lambda t: ("inspect", t.with_state(""), "--verify"), 3, "state.json"),
    Row("a config to verify", ("inspect", "tiny", "--verify"), 2, "--verify", "tiny"),
    Row("nothing to verify", ("inspect", "/nothing/here", "--verify"), 2, "--verify", "/nothing/here"),
    Row("an empty state", lambda t: ("inspect", t.with_state("")), 3, "state.json"),

    Row("patience without validations", TINY, 2, "train.patience", "got 3", "train.evaluate_every", train__patience=3),

    # Output that is lost.
    full(("plan", "tiny", "--json", "-")),
    full(("plan", "tiny")),
    full(("inspect", "tiny")),
    full(("inspect", "tiny", "--json", "-")),
    full(lambda t: ("inspect", t.text_run, "--verify"), "inspect --verify"),
    full(lambda t: ("inspect", t.text_run, "--verify", "--json", "-"), "inspect --verify --json -"),
    full(lambda t: ("eval", t.text_run), "eval"),
    full(lambda t: ("eval", t.text_run, "--json", "-"), "eval --json -"),
    full(lambda t: ("generate", t.text_run, "--prompt", "a", "--tokens", 3), "generate"),
    full(("train", "tiny", "--json", "-"), train__steps=1),
    full(("train", "tiny", "--print-config")),
    full(("--help",)),
    full(("train", "--help")),
    full(("--man",)),
    full(("--version",)),
    full(("--completion", "bash")),
    Row("eval without standard output", lambda t: ("eval", t.text_run), 4, "cannot be written", out=None, prepare=closing(1)),
    Row("generate without standard output", lambda t: ("generate", t.text_run, "--prompt", "a"), 4, out=None, prepare=closing(1)),
    Row("no standard streams at all", lambda t: ("inspect", t.text_run), 4, out=None, err=None, prepare=closing(0, 1, 2)),
    Row("inspect without standard input", ("inspect", "tiny"), 0, prepare=closing(0)),

    # Configs that are none.
    Row("a folder as config", lambda t: ("train", t.folder), 2, "got a folder", "--resume"),
    Row("a device as config", ("train", "/dev/zero"), 2, "/dev/zero", "regular file"),
    Row("a pipe as config", lambda t: ("train", t.pipe()), 2, "regular file"),
    Row("a config that may not be read", lambda t: ("inspect", t.unreadable("locked.toml")), 2, "locked.toml", prepare=as_nobody, needs=others_may_run),
    Row("a config in a folder that may not be read", lambda t: ("inspect", t.unreadable_folder() / "a.toml"), 2, "a.toml", prepare=as_nobody,
        needs=others_may_run),
    Row("a config that is a loop of links", lambda t: ("plan", t.loop()), 2, "loop", "cannot be read"),
    Row("a config with a name that is too long", ("plan", "x" * 5000), 2, "cannot be read"),
    Row("a config below a file", lambda t: ("plan", t.write("file", "") / "a.toml"), 2, "a.toml"),
    Row("a config with NUL", lambda t: ("plan", t.write("nul.toml", b"[model]\nname = \"a\0b\"\n")), 2, "nul.toml"),
    Row("a config that is not UTF-8", lambda t: ("plan", t.write("latin.toml", b"[output]\ndir = \"caf\xe9\"\n")), 2, "latin.toml"),
    Row("a config in UTF-16", lambda t: ("plan", t.write("wide.toml", "[model]\n".encode("utf-16"))), 2, "wide.toml"),
    Row("a config that is an image", lambda t: ("plan", t.write("p.toml", b"\x89PNG\r\n\x1a\n" * 100)), 2, "p.toml"),
    Row("a huge config", lambda t: ("plan", t.sparse("huge.toml", 1 << 40)), 2, "huge.toml", "at most"),
    Row("a key that stands twice", lambda t: ("plan", t.write("two.toml", "[train]\nsteps = 1\nsteps = 2\n")), 2, "two.toml:3"),
    Row("a key outside of any table", lambda t: ("plan", t.write("bare.toml", "steps = 1\n")), 2, "bare.toml:1", "[train]"),
    Row("a table that is a list of tables", lambda t: ("plan", t.write("l.toml", "[[train]]\nsteps = 1\n")), 2, "l.toml:1"),
    Row("a date as a value", lambda t: ("plan", t.write("d.toml", "[train]\nsteps = 2020-01-01\n")), 2, "d.toml:2", "train.steps"),
    Row("an empty name of a config", ("plan", ""), 2, "config"),
    Row("an empty config is all defaults", lambda t: ("inspect", t.write("empty.toml", "")), 0),

    # The command line.
    Row("output.dir that is not UTF-8", TINY, 2, "UTF-8", output__dir=b"/tmp/\xff"),
    Row("a config's name that is not UTF-8", ("train", b"\xff\xfe"), 2, "UTF-8", "argument 2"),
    Row("a prompt that is not UTF-8", lambda t: ("generate", t.text_run, "--prompt", b"caf\xe9"), 2, "UTF-8", "'caf'"),
    Row("--set twice takes the last", ("inspect", "tiny", "--set", "model.layers=0x2", "--set", "model.layers=1"), 0),
    Row("--set of nothing", ("inspect", "tiny", "--set", "="), 2, "--set"),
    Row("--set without a value", ("inspect", "tiny", "--set", "train.steps="), 2, "train.steps"),
    Row("--set of two keys", ("inspect", "tiny", "--set", "train.steps=1\nbatch=2"), 2, "train.steps"),
    Row("--set of an unclosed text", ("inspect", "tiny", "--set", "output.dir=\"a"), 2, "output.dir"),
    Row("a flag given twice", ("inspect", "tiny", "--json", "-", "--json", "/dev/null"), 2, "--json", "once"),
    Row("an empty file for --json", ("inspect", "tiny", "--json", ""), 2, "--json"),
    Row("--json into a missing folder", ("inspect", "tiny", "--json", "/nothing/here/a.json"), 4, "/nothing/here"),
    Row("--json into a folder", lambda t: ("inspect", "tiny", "--json", t.folder), 4),
    Row("two configs", ("train", "tiny", "tiny"), 2, "tiny"),

    Row("a value that moves a terminal's cursor", ("inspect", "tiny"), 2, "model.name", "?[31mred", absent=("\033",), model__name="\033[31mred"),
    Row("a value of 100000 letters", ("inspect", "tiny"), 2, "model.name", "xxx...", model__name="x" * 100000),
    Row("a schedule of a file that is not there", ("plan", "tiny"), 3, "nothing.csv", pipeline__schedule="nothing.csv"),
    Row("a link that is a device", ("plan", "tiny"), 2, "/dev/zero", pipeline__link="/dev/zero"),
    Row("a device that is a loop of links", ("plan", "tiny"), 2, "loop", pipeline__devices=lambda t: f"2x {t.loop()}"),
    Row("more devices than there are numbers", ("plan", "tiny"), 2, "99999999999999999999x", pipeline__devices="99999999999999999999x meta"),
    Row("no devices", ("plan", "tiny"), 2, "at least one device", pipeline__devices="0x meta"),

    # Numbers.
    Row("an integer above its largest", ("inspect", "tiny"), 2, "model.layers", "from 1 to 100000", "100001", model__layers=100001),
    Row("an integer far above its largest", ("inspect", "tiny"), 2, "from 1 to 4294967295", "9000000000000000000", train__steps=9 * 10**18),
    Row("an integer that is no 64 bits", ("inspect", "tiny"), 2, "train.seed", "from 0", train__seed=2**63),
    Row("micro-batches that would fill the memory", ("plan", "tiny"), 2, "pipeline.micro_batches", "at most 1048576", "16777216", train__batch=2**24, pipeline__micro_batches=2**24),
    Row("a decay of 1", ("plan", "tiny"), 2, "optimizer.beta1", "< 1", optimizer__beta1=1),
    Row("an epsilon of 0", ("plan", "tiny"), 2, "optimizer.epsilon", "> 0", optimizer__epsilon=0),
    Row("minimum_lr above lr", ("plan", "tiny"), 2, "optimizer.minimum_lr", "optimizer.lr", optimizer__schedule="cosine", optimizer__minimum_lr=1),
    Row("--tokens that overflow", lambda t: ("generate", t.text_run, "--prompt", "a", "--tokens", 2**63 - 1), 2, "--tokens", "from 1 to 31"),
    Row("--tokens beyond the context", lambda t: ("generate", t.text_run, "--prompt", "a", "--tokens", 32), 2, "--tokens", "from 1 to 31"),
    Row("translate with a language model", lambda t: ("translate", t.text_run, "--to", "de"), 2, "translation", "transformer-lm"),
    Row("translate with 0 beams", lambda t: ("translate", t.text_run, "--to", "de", "--beams", 0), 2, "--beams"),
    Row("translate with a length penalty of nan", lambda t: ("translate", t.text_run, "--to", "de", "--length-penalty", "nan"), 2, "--length-penalty"),
    Row("--tokens of 0", lambda t: ("generate", t.text_run, "--prompt", "a", "--tokens", 0), 2, "--tokens"),
    Row("--temperature nan", lambda t: ("generate", t.text_run, "--prompt", "a", "--temperature", "nan"), 2, "--temperature"),
    Row("--temperature inf", lambda t: ("generate", t.text_run, "--prompt", "a", "--temperature", "inf"), 2, "--temperature"),
    Row("--top-p 0", lambda t: ("generate", t.text_run, "--prompt", "a", "--top-p", 0), 2, "top-p"),
    Row("--top-k beyond the vocabulary", lambda t: ("generate", t.text_run, "--prompt", "a", "--tokens", 3, "--top-k", 2**62), 0),

    # Words.
    Row("a number that begins with its point", ("plan", "tiny"), 2, "optimizer.ema", "< 1, got '.9'; in TOML that is 0.9", optimizer__ema=".9"),
    Row("a number that ends with its point", ("plan", "tiny"), 2, "optimizer.lr", "got '5.'; in TOML that is 5", optimizer__lr="5."),
    Row("remat that is no node", ("plan", "tiny"), 2, "pipeline.remat", "nosuch", "none, full, auto", absent=("''",), pipeline__remat="nosuch"),
    Row("remat that is nearly a node", ("plan", "tiny"), 2, "did you mean 'block0.attention'", pipeline__remat="block0.atention"),
    Row("remat=full that does not fit", ("plan", "tiny"), 4, absent=('remat = "full"', "remat=full"), pipeline__remat="full", pipeline__memory="300KiB",
        on_stdout=True),
    Row("an empty output.dir", TINY, 2, "output.dir", "not empty", output__dir=""),
    Row("empty devices", TINY, 2, "pipeline.devices", pipeline__devices="[]"),
    Row("a gap in the devices", TINY, 2, "pipeline.devices", pipeline__devices="cpu:0,,cpu:1"),
    Row("data.kind that this version does not read", TINY, 2, "data.kind", "text, synthetic, idx, cifar, images, parallel",
        data__kind="video"),
    Row("micro_batches beside a schedule of a file", lambda t: ("plan", "tiny"), 2, "pipeline.micro_batches", "order.csv", pipeline__micro_batches=8,
        pipeline__schedule=lambda t: t.schedule()),
    Row("micro_batches that are left to the file", lambda t: ("plan", "tiny"), 0, pipeline__micro_batches="auto", pipeline__schedule=lambda t: t.schedule()),
    Row("micro_batches that nobody set beside a schedule of a file", lambda t: ("plan", t.write("c.toml", t.small_config)), 0,
        pipeline__schedule=lambda t: t.schedule()),
    Row("a key of another model by --set", ("inspect", "resnet50"), 2, "model.heads", "transformer-lm", model__heads=4),
    Row("a key of another model in a file", lambda t: ("inspect", t.write("r.toml", "[model]\nname = \"resnet50\"\nheads = 4\n")), 2, "r.toml:3", "model.heads"),
    Row("a key of another data set", ("inspect", "tiny"), 2, "data.class_names", "idx", data__class_names="a,b"),
    Row("a key of another optimizer", ("inspect", "tiny"), 2, "optimizer.momentum", "sgd", optimizer__momentum=0.5),
    Row("a key of another schedule", ("inspect", "tiny"), 2, "optimizer.decay", "exponential", optimizer__decay=0.5),
    Row("keys that another model makes foreign", ("inspect", "tiny"), 0, "sluice: note:", "model.heads", "left out", model__name="resnet50"),

    # Data.
    Row("a text in UTF-16", TINY, 3, "UTF-16", "iconv -f UTF-16", absent=("8859",), data__kind="text", model__vocab=256,
        data__path=lambda t: t.write("wide.txt", "words ".encode("utf-16") * 1000)),
    Row("a text in UTF-16 without a mark", TINY, 3, "UTF-16", absent=("8859",), data__kind="text", model__vocab=256,
        data__path=lambda t: t.write("wide.txt", "é words ".encode("utf-16-le") * 1000)),
    Row("a pipe as text", TINY, 3, "regular file", data__kind="text", model__vocab=256, data__path=lambda t: t.pipe()),
    Row("a loop of links as text", TINY, 3, "loop", data__kind="text", model__vocab=256, data__path=lambda t: t.loop()),
    Row("a cache that cannot be written", TINY, 0, "sluice: warning:", "cache", data__kind="text", model__vocab=256, train__steps=1,
        data__path=lambda t: t.corpus(), data__cache=lambda t: t.write("file", "") / "cache"),
    Row("a cache that cannot be written, of images", TINY, 0, "sluice: warning:", "cache", model__name="resnet50", model__filters=4, model__classes=3,
        model__image_size=16, data__train_samples=64, train__steps=1, data__cache=lambda t: t.write("file", "") / "cache"),
    Row("no validation split", ("train", "tiny", "--json", "-"), 0, '"validation": null', data__kind="text", model__vocab=256, train__steps=1, data__validation=0,
        data__path=lambda t: t.corpus(), data__cache=lambda t: t.folder / "cache", on_stdout=True),
    Row("a validation split that is not there, in words", TINY, 0, "no validation split", data__kind="text", model__vocab=256, train__steps=1, data__validation=0,
        data__path=lambda t: t.corpus(), data__cache=lambda t: t.folder / "cache", on_stdout=True, absent=("nan",)),
    Row("no validation split and a baseline", ("train", "tiny", "--json", "-"), 0, '"trigram": null', data__kind="text", model__vocab=256, train__steps=1,
        data__validation=0, train__baseline="true", data__path=lambda t: t.corpus(), data__cache=lambda t: t.folder / "cache", on_stdout=True),
    Row("eval without a validation split", lambda t: ("eval", t.text_run), 0, "no validation split", absent=("nan",), data__validation=0, on_stdout=True),
    Row("eval without a validation split, as JSON", lambda t: ("eval", t.text_run, "--json", "-"), 0, '"validation": null', '"perplexity": null', '"trigram": null', '"bits_per_byte": null',
        data__validation=0, on_stdout=True),

    # Checkpoints.
    Row("a checkpoint that is a file", lambda t: ("eval", t.write("step-00000001", "")), 3, "step-00000001"),
    Row("a checkpoint that is a loop of links", lambda t: ("eval", t.loop()), 3, "loop"),
    Row("a name of a checkpoint that is too long", ("eval", "x" * 5000), 3, "xxx"),
    Row("a folder without checkpoints", lambda t: ("generate", t.folder, "--prompt", "a"), 3, "found none"),
    Row("an empty name of a checkpoint", ("eval", ""), 3, "found none"),
    Row("eval reads no optimizer states", lambda t: ("eval", t.without_states()), 0),
    Row("generate reads no optimizer states", lambda t: ("generate", t.without_states(), "--prompt", "a", "--tokens", 3), 0),
    Row("inspect proves the optimizer's states too", lambda t: ("inspect", t.without_states()), 3, "optimizer.safetensors"),
    Row("eval needs no room for optimizer states", lambda t: ("eval", t.text_run), 0, pipeline__memory=lambda t: t.bytes_of_evaluation()),
    Row("links that point nowhere beside checkpoints", lambda t: ("inspect", t.with_dangling_link()), 0, "sluice: warning:", "step-99999999"),
]


class Hostile(ProgramTest):
    """The rows are added below, a test each."""

    @classmethod
    def setUpClass(cls):
        cls.shared = pathlib.Path(tempfile.mkdtemp(prefix="sluice-hostile-"))
        cls.addClassCleanup(shutil.rmtree, cls.shared)
        text = cls.shared / "corpus.txt"
        text.write_text("the pipeline sends each micro batch to the next device. " * 400)
        cls.text_run = cls.shared / "run"
        cls.text_keys = dict(data__kind="text", data__path=text, data__cache=cls.shared / "cache", model__vocab=256)
        done = sluice("train", "tiny", *sets(output__dir=cls.text_run, train__steps=2, output__save_every=1, **cls.text_keys))
        assert done.returncode == 0, done.stderr

    # Things that rows need.
    def corpus(self):
        return self.text_keys["data__path"]

    def copied(self):
        return pathlib.Path(shutil.copytree(self.text_run, self.folder / "copy"))

    def with_state(self, text):
        folder = self.copied() / "step-00000002"
        (folder / "state.json").write_text(text)
        return folder

    def damaged_newest(self):
        run = self.copied()
        (run / "step-00000002" / "model.safetensors").write_bytes(b"")
        return run

    def without_states(self):
        folder = self.copied() / "step-00000002"
        (folder / "optimizer.safetensors").unlink()
        return folder

    def with_dangling_link(self):
        run = self.copied()
        (run / "step-99999999").symlink_to("nowhere")
        return run

    def bytes_of_evaluation(self):
        """Room for the weights and for what a forward makes, but not for weights and optimizer states."""
        done = sluice("plan", "tiny", "--json", "-", *sets(model__vocab=256))
        device = json.loads(done.stdout)["devices"][0]
        return device["parameter_bytes"] + device["optimizer_bytes"] // 2

    def pipe(self):
        os.mkfifo(self.folder / "pipe")
        return self.folder / "pipe"

    def loop(self):
        (self.folder / "loop").symlink_to("loop")
        return self.folder / "loop"

    def unreadable(self, name):
        path = self.write(name, "")
        path.chmod(0)
        self.folder.chmod(0o755)
        return path

    def unreadable_folder(self):
        folder = self.folder / "locked"
        folder.mkdir(mode=0)
        self.folder.chmod(0o755)
        return folder

    def sparse(self, name, size):
        path = self.write(name, "")
        os.truncate(path, size)
        return path

    small_config = "[model]\nlayers = 2\ndim = 16\nheads = 2\ncontext = 16\n[data]\nkind = \"synthetic\"\n"

    def schedule(self):
        path = self.folder / "order.csv"
        done = sluice("plan", "tiny", "--csv", path)
        assert done.returncode == 0, done.stderr
        return path

    def run_row(self, row):
        if row.needs and not row.needs():
            self.skipTest("needs root, and a program that other users may run")
        keys = {key: value(self) if callable(value) else value for key, value in row.keys.items() if key != "on_stdout"}
        command = list(row.command(self) if callable(row.command) else row.command)
        if command[0] == "train":
            self.folder.chmod(0o777)
            keys.setdefault("output__dir", self.folder / "run")
        command = [PROGRAM, *(word if isinstance(word, bytes) else str(word) for word in command)]
        for key, value in keys.items():
            name = key.replace("__", ".")
            command += ["--set", name.encode() + b"=" + value if isinstance(value, bytes) else f"{name}={value}"]
        with open("/dev/full", "wb") as no_room:
            stream = lambda wanted: {"pipe": subprocess.PIPE, "/dev/full": no_room}.get(wanted)
            return subprocess.run(command, stdout=stream(row.out), stderr=stream(row.err), preexec_fn=row.prepare, timeout=HANG_S)

    def check(self, row):
        done = self.run_row(row)
        text = ((done.stdout if row.keys.get("on_stdout") else done.stderr) or b"").decode()
        self.assertEqual(done.returncode, row.code, (done.stderr or b"").decode()[-2000:])
        for word in row.words:
            self.assertIn(word, text)
        # The random letters of a temporary folder's name can spell "nan".
        printed = text + (done.stderr or b"").decode()
        for folder in (self.folder, self.shared):
            printed = printed.replace(str(folder), "FOLDER")
        for word in row.absent:
            self.assertNotIn(word, printed)
        if row.code != 0 and row.err == "pipe" and not row.keys.get("on_stdout"):
            errors = [line for line in done.stderr.decode().splitlines() if line.startswith("sluice: error: ")]
            self.assertEqual(len(errors), 1, done.stderr)
            self.assertLess(len(errors[0]), 12000)


def add_rows():
    for row in ROWS:
        name = "test_" + re.sub(r"\W+", "_", row.name).strip("_")
        assert not hasattr(Hostile, name), name
        setattr(Hostile, name, lambda self, row=row: self.check(row))


add_rows()


class EveryKey(ProgramTest):
    """Each key of every model, data set and optimizer, with values that are none."""

    CONFIGS = [("tiny", {}), ("tiny", dict(optimizer__name="sgd", optimizer__schedule="exponential")),
               ("tiny", dict(optimizer__name="rmsprop", optimizer__schedule="cosine")), ("amoebanet-d-fashion", {}), ("resnet50", {}), ("unet", {}),
               ("t-6-8192-16", {})]

    def keys(self):
        """{"table.key": (value, config)} over all configs."""
        found = {}
        for name, changes in self.CONFIGS:
            done = sluice("train", name, "--print-config", *sets(**changes))
            table = ""
            for line in done.stdout.splitlines():
                if line.startswith("["):
                    table = line[1:-1]
                elif " = " in line:
                    key, value = line.split(" = ", 1)
                    found.setdefault(f"{table}.{key}", (value, name, changes))
        return found

    def end_of(self, key, value, name, changes):
        return sluice("inspect", name, *sets(**changes), "--set", f"{key}={value}")

    def test_numbers_refuse_what_is_none(self):
        keys = {key: rest for key, rest in self.keys().items() if re.fullmatch(r"-?[\d.e+-]+", rest[0])}
        self.assertGreater(len(keys), 40)
        for key, (_, name, changes) in keys.items():
            for value in "-1", "nan", "-inf", "9223372036854775808", "1e400":
                done = self.end_of(key, value, name, changes)
                self.assertEqual((done.returncode, key in done.stderr), (2, True), (key, value, done.stderr))

    def test_words_refuse_lists_of_lists_and_name_their_key(self):
        keys = {key: rest for key, rest in self.keys().items() if rest[0].startswith(('"', "[", "t", "f"))}
        self.assertGreater(len(keys), 20)
        for key, (_, name, changes) in keys.items():
            for value in "[[1]]", "[1, \"a\"]", "[{a=1}]":
                done = self.end_of(key, value, name, changes)
                self.assertEqual((done.returncode, key in done.stderr), (2, True), (key, value, done.stderr))

    def test_empty_texts_are_taken_or_refused_before_any_work(self):
        for key, (value, name, changes) in self.keys().items():
            if not value.startswith(('"', "[")):
                continue
            done = sluice("train", name, *sets(**{"train__steps": 1, "output__dir": self.folder / "run", **changes}), "--set", f"{key}=") if name == "tiny" \
                else self.end_of(key, "", name, changes)
            self.assertIn(done.returncode, (0, 2), (key, done.stderr))
            self.assertNotIn("''; did you mean ''", done.stderr)

    def test_only_keys_that_apply_are_shown(self):
        for name, there, not_there in ("tiny", "heads", "filters"), ("resnet50", "filters", "heads"), ("unet", "convolutions", "aux_head"), \
                ("t-6-8192-16", "source_context", "context"):
            shown = sluice("train", name, "--print-config").stdout
            self.assertRegex(shown, rf"(?m)^{there} = ")
            self.assertNotRegex(shown, rf"(?m)^{not_there} = ")


class Texts(ProgramTest):
    def test_documents_have_the_exit_codes_of_the_program(self):
        told = re.findall(r"(?m)^  (\d+) +(.+)$", sluice("--help").stdout.split("Exit codes:")[1])
        self.assertGreater(len(told), 7)
        page = (pathlib.Path(__file__).parents[2] / "docs" / "cli.md").read_text().split("## Exit codes")[1].split("\n## ")[0]
        documented = re.findall(r"(?m)^\| (\d+) \| (.+) \|$", page.replace("`", ""))
        self.assertEqual(told, documented)
        manual = sluice("--man").stdout
        for code, meaning in told:
            self.assertIn(f".B {code}\n\\&{meaning}\n", manual)


class Streams(ProgramTest):
    def test_a_closed_standard_output_writes_no_file(self):
        subprocess.run([PROGRAM, *map(str, self.tiny(train__steps=2))], preexec_fn=closing(1), stderr=subprocess.PIPE, timeout=HANG_S)
        self.assertEqual((self.folder / "run" / "lock").read_bytes(), b"")
        self.assertEqual(sluice("inspect", self.folder / "run").returncode, 0)

    def test_a_dumb_terminal_gets_neither_colours_nor_moves(self):
        for kind, is_plain in ("dumb", True), ("xterm", False):
            try:
                parent, child = pty.openpty()
            except OSError as error:
                self.skipTest(f"this machine has no pseudo-terminals: {error}")
            process = subprocess.Popen([PROGRAM, *map(str, self.tiny(train__steps=3))], stdout=child, env={**os.environ, "TERM": kind})
            os.close(child)
            text = b""
            try:
                while part := os.read(parent, 65536):
                    text += part
            except OSError:
                pass  # the other end is closed
            self.assertEqual(process.wait(timeout=HANG_S), 0)
            os.close(parent)
            self.assertEqual(b"\033" not in text and b"\rstep" not in text, is_plain, text)

    def test_inspect_of_many_layers_is_quick_and_answers_signals(self):
        command = ["inspect", "tiny", "--set", "model.layers=20000", "--json", "/dev/null"]
        began = processor_seconds()
        self.assertEqual(sluice(*command).returncode, 0)
        self.assertLess(processor_seconds() - began, patience(8))
        for number in signal.SIGINT, signal.SIGTERM:
            process = subprocess.Popen([PROGRAM, *command], stdout=subprocess.DEVNULL)
            process.send_signal(number)
            self.assertEqual(process.wait(timeout=HANG_S), -number)


class Preparation(ProgramTest):
    """What a training measured on its data belongs to its weights."""

    def images(self, name, training):
        """A folder of MNIST's form whose training images have one brightness; the test images are the same everywhere."""
        folder = self.folder / name
        folder.mkdir()
        for split, pixels in ("train", bytes([training, training + 9] * 32 * 16)), ("t10k", bytes(range(64)) * 16):
            (folder / f"{split}-images-idx3-ubyte").write_bytes(idx(pixels, len(pixels) // 64, 8, 8))
            (folder / f"{split}-labels-idx1-ubyte").write_bytes(idx([i % 3 for i in range(len(pixels) // 64)], len(pixels) // 64))
        return folder

    def keys_of(self, images):
        return dict(model__name="resnet50", model__filters=4, model__classes=3, model__channels=1, model__image_size=8, data__kind="idx",
                    data__path=images, data__cache=self.folder / "cache", train__steps=2, train__batch=4, pipeline__micro_batches=1)

    def test_images_of_other_classes_are_told(self):
        """Labels of the data were taken for the numbers of other classes, and the accuracy was of no meaning."""
        keys = self.keys_of(self.images("dark", 10))
        self.train(data__class_names='["cat", "dog", "eel"]', **keys)

        def told(command, *classes):
            done = sluice(*command, *sets(data__class_names=json.dumps(classes)))
            self.assertEqual(done.returncode, 0, done.stderr)
            return [line for line in done.stderr.splitlines() if "on other classes" in line]

        resuming = ["train", "tiny", "--resume", self.folder / "run", *sets(output__dir=self.folder / "other", **keys)]
        for command in ["eval", self.folder / "run"], resuming:
            with self.subTest(command[0]):
                self.assertEqual(told(command, "cat", "dog", "eel"), [])
                self.assertEqual(told(command), [], "numbers say nothing of what they stand for")
                self.assertIn("class 0 is 'cat' in training and 'dog' in the data now", "".join(told(command, "dog", "cat", "eel")))

    def test_images_are_normalised_as_in_training_whatever_the_folder(self):
        trained = self.train(**self.keys_of(self.images("dark", 10)))
        other = json.loads(sluice("eval", self.folder / "run", "--json", "-", *sets(data__path=self.images("bright", 200))).stdout)
        self.assertEqual(other["loss"]["validation"], trained["loss"]["validation"])
        self.assertEqual(len(list((self.folder / "run").glob("step-*/normalisation.json"))), 1)


if __name__ == "__main__":
    unittest.main()
