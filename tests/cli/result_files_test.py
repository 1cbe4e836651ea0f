"""Files that commands write: none of them destroys what the command reads, or what a training has.
"""
import json
import os
import resource
import shutil
import signal
import subprocess
import unittest

from program import HANG_S, PROGRAM, ProgramTest, sets, sluice


class ResultFiles(ProgramTest):
    def checkpoint(self):
        self.train(train__steps=2)
        return self.folder / "run" / "step-00000002"

    def expect_untouched(self, path, *words, arguments):
        """The command is refused, and the file has the bytes that it had."""
        before = path.read_bytes()
        self.refuse(2, *words, arguments=arguments)
        self.assertEqual(path.read_bytes(), before)

    def test_are_not_in_a_checkpoint(self):
        checkpoint = self.checkpoint()
        for name in ("model.safetensors", "state.json"):
            for command in (["eval", self.folder / "run"], ["inspect", checkpoint], ["inspect", checkpoint, "--verify"], self.tiny("--resume", "auto")):
                self.expect_untouched(checkpoint / name, "--json", "outside of checkpoints", arguments=[*command, "--json", checkpoint / name])
        self.refuse(2, "outside of checkpoints", arguments=["plan", "tiny", "--csv", checkpoint / "new.csv"])
        self.assertEqual(sluice("inspect", self.folder / "run", "--verify").returncode, 0)

    def test_are_not_what_a_training_keeps_beside_them(self):
        self.checkpoint()
        for name in ("lock", "latest"):
            self.expect_untouched(self.folder / "run" / name, "does not use itself", arguments=["inspect", self.folder / "run", "--json", self.folder / "run" / name])
        self.assertEqual(sluice("eval", self.folder / "run", "--json", self.folder / "run" / "eval.json").returncode, 0)

    def test_are_not_named_like_switches(self):
        for key in ("report", "trace"):
            for word in ("off", "none", "false"):
                self.refuse(2, f"output.{key}", f"'{word}', which would be a file of that name", "leave it empty",
                            arguments=self.tiny("--set", f"output.{key}={word}"))

    def test_are_not_the_config(self):
        config = self.write("own.toml", sluice("plan", "tiny", "--print-config").stdout)
        for arguments in (["plan", config, "--csv", config], ["plan", config, "--json", config], ["inspect", config, "--json", config],
                          ["plan", config, "--kernels", "h100", "--json", config], ["plan", config, "--compare", "--json", config],
                          ["train", config, "--json", config, *sets(output__dir=self.folder / "run", train__steps=1)]):
            self.expect_untouched(config, "needs a file of its own", "which the command reads", arguments=arguments)

    def test_are_not_the_data(self):
        text = self.write("text.txt", "to be or not to be, that is the question\n" * 400)
        self.expect_untouched(text, "--trace", "which data.path reads",
                              arguments=["train", "tiny", "--trace", text, *sets(data__kind="text", data__path=text, model__vocab=256, model__context=16,
                                                                                 output__dir=self.folder / "run", train__steps=1)])

    def test_are_not_a_config_that_was_found_by_its_name(self):
        (self.folder / "configs").mkdir()
        config = self.write("configs/own.toml", sluice("plan", "tiny", "--print-config").stdout)
        own = shutil.copy(PROGRAM, self.folder / "sluice")  # which looks for configs beside itself
        before = config.read_bytes()
        done = subprocess.run([own, "plan", "own", "--json", config], capture_output=True, text=True, timeout=HANG_S)
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertIn("which the command reads", done.stderr)
        self.assertEqual(config.read_bytes(), before)

    def test_are_not_a_description_of_devices(self):
        described = self.write("own.toml", "name = 'a device'\n")
        for arguments in (sets(pipeline__devices='"2x own.toml"'), sets(pipeline__devices='["own.toml:0", "own.toml:1"]')):
            self.expect_untouched(described, "--json", "which pipeline.devices reads",
                                  arguments=["plan", "tiny", *[word.replace("own.toml", str(described)) for word in arguments], "--json", described])
        self.expect_untouched(described, "--json", "which --kernels reads", arguments=["plan", "tiny", "--kernels", described, "--json", described])

    def test_are_not_a_half_of_pairs(self):
        keys = sets(data__kind="parallel", data__path=self.folder / "stem", data__languages='["de"]', model__name="translation", model__vocab=300)
        for half in (self.write("stem.en", "red house\n" * 40), self.write("stem.de", "rotes haus\n" * 40)):
            self.expect_untouched(half, "--json", "which data.path reads", arguments=["plan", "tiny", *keys, "--json", half])

    def test_are_not_in_a_folder_of_data(self):
        folder = self.folder / "texts"
        (folder / "more").mkdir(parents=True)
        text = self.write("texts/more/text.txt", "to be or not to be, that is the question\n" * 400)
        keys = sets(data__kind="text", data__path=folder, data__cache="", model__vocab=256, model__context=16, output__dir=self.folder / "run", train__steps=1)
        self.expect_untouched(text, "--report", "outside of", "which data.path reads", arguments=["train", "tiny", "--report", text, *keys])
        self.refuse(2, "--report", "outside of", arguments=["train", "tiny", "--report", folder / "report.html", *keys])  # it would be read the next time
        self.assertFalse((folder / "report.html").exists())
        done = sluice("train", "tiny", "--json", folder / "result.json", "--report", self.folder / "report.html", *keys)
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_are_files_unless_they_are_json(self):
        for arguments in (self.tiny("--trace", "-"), self.tiny("--report", "-"), self.tiny(output__report="-"), ["plan", "tiny", "--svg", "-"],
                          ["plan", "tiny", "--csv", "-"], ["devices", "--describe", "-"]):
            done = sluice(*arguments, cwd=self.folder)
            self.assertEqual(done.returncode, 2, done.stderr)
            self.assertIn("standard output for --json alone", done.stderr)
            self.assertFalse((self.folder / "-").exists())
        self.refuse(2, "needs a file of its own", "--json", arguments=["devices", "--json", self.folder / "both", "--describe", self.folder / "both"])

    def test_are_not_one_file_by_two_names(self):
        (self.folder / "link").symlink_to("result")     # which is not there yet
        self.refuse(2, "--svg: needs a file of its own", "which --json writes", arguments=["plan", "tiny", "--json", self.folder / "result", "--svg", self.folder / "link"])
        self.assertFalse((self.folder / "result").exists())

    def test_a_link_to_nothing_yet_stays_a_link(self):
        (self.folder / "link").symlink_to("result.json")
        done = sluice(*self.tiny("--json", self.folder / "link", train__steps=2))
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertTrue((self.folder / "link").is_symlink())
        self.assertEqual(json.loads((self.folder / "result.json").read_text())["steps"], 2)

    def test_a_pipe_keeps_its_reader_until_the_result_comes(self):
        pipe = self.folder / "pipe"
        os.mkfifo(pipe)
        with subprocess.Popen(["cat", pipe], stdout=subprocess.PIPE, text=True) as reader:
            done = subprocess.run([PROGRAM, *map(str, self.tiny("--json", pipe, train__steps=2))], capture_output=True, text=True, timeout=HANG_S)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertEqual(json.loads(reader.stdout.read())["steps"], 2)

    def test_are_whole_or_as_they_were(self):
        """Also where the disk fills up, or a kill comes, in the middle of writing."""
        train = self.tiny(train__steps=1, train__batch=4096, data__train_samples=4096, pipeline__micro_batches=4096)  # whose results are larger than its checkpoint
        for command, flag, room in ((["plan", "tiny"], "--json", 4), (["plan", "tiny"], "--svg", 4), (["plan", "tiny"], "--html", 4), (["plan", "tiny"], "--csv", 4),
                                    (["devices"], "--describe", 4), (["inspect", "tiny"], "--json", 4), (train, "--trace", 1 << 20), (train, "--report", 1 << 20)):
            result = self.write("result", "what was there, and longer than what fits\n")
            result.chmod(0o600)
            before = result.read_bytes()
            kill = lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (room, room))
            full = lambda: (signal.signal(signal.SIGXFSZ, signal.SIG_IGN), kill())
            for fault, code in ((full, 4), (kill, -signal.SIGXFSZ))[:1 if command is train else 2]:  # a signal that trainings take for an error
                shutil.rmtree(self.folder / "run", ignore_errors=True)
                done = subprocess.run([PROGRAM, *map(str, command), flag, result], capture_output=True, text=True, timeout=HANG_S, preexec_fn=fault)
                self.assertEqual(done.returncode, code, (command, flag, done.stderr))
                self.assertEqual(result.read_bytes(), before, (command, flag))
                if fault is full:
                    self.assertIn("cannot be written: File too large", done.stderr)
                    self.assertEqual(list(self.folder.glob("result.*")), [])
            if command is train:
                continue
            done = sluice(*command, flag, result)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertNotEqual(result.read_bytes(), before)
            self.assertEqual(result.stat().st_mode & 0o777, 0o600)
            for temporary in self.folder.glob("result.*"):
                temporary.unlink()

    def test_that_may_not_be_written_stay(self):
        for name in ("missing/result.json", "x" * 250):  # beside which no temporary file has a name
            self.refuse(4, "--json", "cannot be written", "choose a folder", arguments=self.tiny("--json", self.folder / name))
        self.assertFalse((self.folder / "missing").exists())

    def test_may_be_a_file_that_is_mounted(self):
        """As a container is given one: no other file can take its place."""
        outside, inside = self.write("outside", "what was there\n"), self.write("inside", "")
        if subprocess.run(["unshare", "-m", "mount", "--bind", outside, inside], capture_output=True).returncode != 0:
            self.skipTest("needs the right to mount")
        done = subprocess.run(["unshare", "-m", "sh", "-c", 'mount --bind "$0" "$1" && exec "$2" plan tiny --json "$1"', outside, inside, PROGRAM],
                              capture_output=True, text=True, timeout=HANG_S)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertTrue(json.loads(outside.read_text())["fits"])
        self.assertEqual(sorted(self.folder.iterdir()), [inside, outside])

    def test_are_not_where_standard_output_goes(self):
        log = self.folder / "log"
        for name in (log, "/dev/stdout"):
            for flag in ("--json", "--svg"):
                with log.open("w") as out:
                    out.write("former lines\n")
                    out.flush()
                    done = subprocess.run([PROGRAM, "plan", "tiny", flag, name], stdout=out, stderr=subprocess.PIPE, text=True, timeout=HANG_S)
                self.assertEqual(done.returncode, 2, done.stderr)
                self.assertIn(f"{flag}: needs a file of its own, got {name}, to which standard output goes", done.stderr)
                self.assertEqual(log.read_text(), "former lines\n")
        self.assertIn("</svg>", sluice("plan", "tiny", "--svg", "/dev/stdout").stdout)
        with log.open("w") as out:
            done = subprocess.run([PROGRAM, "plan", "tiny", "--svg", log], stdout=subprocess.PIPE, stderr=out, timeout=HANG_S)
        self.assertEqual(done.returncode, 2)
        self.assertIn("to which standard error goes", log.read_text())

    def test_orders_of_replicas_are_taken_back(self):
        order = self.folder / "order.csv"
        keys = dict(pipeline__devices='"4x cpu"', pipeline__replicas=2, pipeline__schedule="gpipe")
        done = sluice("plan", "tiny", "--csv", order, *sets(**keys, pipeline__micro_batches=8))
        self.assertEqual(done.returncode, 0, done.stderr)
        whole = self.train(train__steps=2, pipeline__micro_batches=8, **keys)
        again = self.train(train__steps=2, out="again", pipeline__micro_batches="auto", **{**keys, "pipeline__schedule": order})
        self.assertEqual(again["weights_hash"], whole["weights_hash"])
        self.refuse(2, "--csv", "needs as many micro-batches for each of the 2 replicas, got 3 in all",
                    arguments=["plan", "tiny", "--csv", order, *sets(**keys, pipeline__micro_batches=3)])


if __name__ == "__main__":
    unittest.main()
