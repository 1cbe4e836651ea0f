#!/usr/bin/env python3
"""Trains a translation model with the built program, translates with it, and gives it bad lines, languages and files.

usage: translate_test.py PROGRAM [unittest arguments]
"""
import json
import random
import re
import shutil
import subprocess
import unittest

import program  # takes the program from the command line
from program import HANG_S, ProgramTest, sets, sluice

PROGRAM = program.PROGRAM


class Translation(ProgramTest):
    CONFIG = """
[model]
name = "translation"
layers = 1
dim = 32
heads = 2
head_width = 16
ffn = 64
vocab = 320
source_context = 24
target_context = 24
dropout = 0.1
[data]
kind = "parallel"
source_language = "en"
buckets = 4
validation = 0.1
test_pairs = 20
[train]
steps = 60
batch = 16
evaluate_batches = 2
[optimizer]
name = "adam"
lr = 3e-3
"""

    def setUp(self):
        super().setUp()
        self.config = self.write("mt.toml", self.CONFIG)
        generator = random.Random(2)
        words = {"red": "rot", "green": "gruen", "blue": "blau", "house": "haus", "tree": "baum", "river": "fluss", "old": "alt", "new": "neu"}
        lines = (generator.choices(list(words), k=generator.randint(1, 3)) for _ in range(3000))
        self.pairs = self.write("pairs.tsv", "".join(f"{' '.join(line)}\t{' '.join(words[word] for word in line)}\n" for line in lines))

    def command(self, *arguments, **keys):
        keys = {"data__path": self.pairs, "data__languages": '["de"]', "data__cache": self.folder / "cache", "output__dir": self.folder / "run", **keys}
        return ["train", self.config, *arguments, *sets(**keys)]

    def train(self, **keys):
        done = sluice(*self.command("--json", "-", **keys))
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(done.stdout), done.stderr

    def translate(self, text, *arguments, run="run"):
        command = [PROGRAM, "translate", str(self.folder / run), *map(str, arguments)]
        return subprocess.run(command, input=text, capture_output=True, timeout=HANG_S)

    def test_train_eval_and_translate(self):
        report = self.folder / "report.html"
        result, said = self.train(train__steps=400, output__report=report)
        self.assertLess(result["loss"]["last"], result["loss"]["first"] / 2)
        self.assertGreater(result["tokens_per_second"], 0)
        self.assertIn("pairs in 2 languages", said)
        for device in result["devices"]:
            self.assertEqual(device["peak_bytes"], device["predicted_peak_bytes"])

        done = self.translate(b"old house\n\n  \nred river\n", "--to", "de")
        self.assertEqual(done.returncode, 0, done.stderr)
        lines = done.stdout.decode().split("\n")
        self.assertEqual(len(lines), 5)
        self.assertEqual(lines[1:3], ["", ""])
        for beams in (1, 4):
            for stages in ('"cpu:0"', '["cpu:0", "cpu:1"]'):
                again = self.translate(b"old house\nred river", "--to", "de", "--beams", beams, "--sentences", 1, "--set", f"pipeline.devices={stages}")
                self.assertEqual(again.stdout.decode().split("\n"), [lines[0], lines[3], ""], again.stderr)
        self.assertEqual((lines[0], lines[3]), ("alt haus", "rot fluss"))

        evaluated = sluice("eval", self.folder / "run", "--json", "-")
        self.assertEqual(evaluated.returncode, 0, evaluated.stderr)
        scores = json.loads(evaluated.stdout)["translation"]
        self.assertGreater(scores["directions"]["en-de"]["chrf"], 90)
        self.assertIn("tok:13a", scores["bleu_signature"])
        self.assertIn("neighbour", evaluated.stderr)
        self.check_report(report.read_text(), evaluated.stderr)

    def test_a_bad_line_is_told_also_where_a_training_has_removed_the_checkpoint_since(self):
        self.train(train__steps=2)
        process = subprocess.Popen([PROGRAM, "translate", str(self.folder / "run"), "--to", "de"], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE)
        process.stdin.write(b"old house\n")
        process.stdin.flush()
        process.stdout.readline()
        removed = self.folder / "run" / "step-00000002"
        shutil.copytree(removed, self.folder / "run" / "step-00000003")
        shutil.rmtree(removed)
        _, messages = process.communicate(b"red \xff\nred river\n", timeout=HANG_S)
        self.assertEqual(process.returncode, 3, messages)
        self.assertIn(b"standard input, line 2: needs UTF-8", messages)

    def check_report(self, page, evaluated):
        """The page has the rows that eval prints, and an attention whose rows are weights of one token after the other."""
        printed = [line.split() for line in evaluated.splitlines() if line.startswith(("direction", "en - ", "mean")) and ":" not in line]
        rows = [re.findall(r"<t[hd]>(.*?)</t[hd]>", row) for row in re.findall(r"<tr>(.*?)</tr>", page.split('<table class="numbers">')[1].split("</table>")[0])]
        self.assertEqual([" ".join(row).split() for row in rows], printed)
        self.assertEqual([row[0] for row in rows], ["direction", "en - de", "mean"])
        self.assertIn("decoder0.cross_attention", page)
        weights = [[float(weight) for weight in row] for row in self.weights_by_query(page)]
        self.assertGreater(len(weights), 2)
        for row in weights:
            self.assertAlmostEqual(sum(row), 1, delta=0.001 * len(row))

    @staticmethod
    def weights_by_query(page):
        """The weights of the cells, a list a row: there are as many columns as rising names."""
        cells = re.findall(r"<title>(.*?) looks at (.*?): ([0-9.]+)</title>", page)
        columns = page.count("rotate(-45)")
        return [[weight for _, _, weight in cells[at:at + columns]] for at in range(0, len(cells), columns)]

    def test_a_report_without_the_memory_for_translations_is_written_all_the_same(self):
        report = self.folder / "report.html"
        _, said = self.train(train__steps=3, output__report=report, pipeline__memory="1350KiB", pipeline__remat="full", pipeline__micro_batches=16,
                             model__layers=3, optimizer__name="sgd", optimizer__momentum=0)  # which need less than the caches of 32 beams
        self.assertIn("warning: the report lacks translations", said)
        self.assertIn("raise pipeline.memory", said)
        self.assertIn("--resume auto", said)
        self.assertIn("Memory by device", report.read_text())
        self.assertNotIn("held-out pairs", report.read_text())
        evaluated = sluice("eval", self.folder / "run", "--json", "-")
        self.assertEqual(evaluated.returncode, 0, evaluated.stderr)
        self.assertIn("warning: no translations are scored", evaluated.stderr)
        self.assertIn("raise pipeline.memory", evaluated.stderr)
        result = json.loads(evaluated.stdout)
        self.assertIsNone(result["translation"])
        self.assertGreater(result["loss"]["validation"], 0)

    def test_has_one_answer_for_every_cut(self):
        hashes = {self.train(output__dir=self.folder / str(number), pipeline__micro_batches=4, pipeline__fold_blocks=2, **keys)[0]["weights_hash"]
                  for number, keys in enumerate([{}, dict(pipeline__devices='"2x cpu"'),
                                                 dict(pipeline__devices='"3x cpu"', pipeline__partition="[2, 6, 5]", pipeline__remat="full"),
                                                 dict(pipeline__devices='"2x cpu"', pipeline__schedule="zb-h1", data__threads=3),
                                                 dict(pipeline__devices='"4x cpu"', pipeline__replicas=2)])}
        self.assertEqual(len(hashes), 1)

    def test_refuses_a_budget_before_it_translates_a_line(self):
        self.train()
        self.assertEqual(self.translate(b"old house\n", "--to", "de").returncode, 0)
        done = self.translate(b"old house\n", "--to", "de", "--set", "pipeline.memory=200KiB")
        self.assertEqual((done.returncode, done.stdout), (4, b""), done.stderr)
        self.assertIn(b"raise pipeline.memory", done.stderr)

    def test_made_up_sentences_need_no_files(self):
        report = self.folder / "report.html"
        done = sluice("train", self.config, "--json", "-", "--report", report,
                      *sets(data__kind="synthetic", data__train_samples=500, model__vocab=40, train__steps=10, output__dir=self.folder / "run"))
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertNotIn("held-out pairs", report.read_text())
        self.refuse(2, "translate", "synthetic", arguments=["translate", self.folder / "run", "--to", "de"])

    def test_bad_lines_and_languages(self):
        self.train(train__steps=3)
        for text, code, lines, words in ((b"x" * 100000, 3, 0, ("line 1", "24")), (b"red\n\xff\nblue\n", 3, 1, ("line 2", "UTF-8")),
                                         ("\U00012000\U00012001".encode(), 0, 1, ()), (b"", 0, 0, ()), (b"\r\nred\r\n", 0, 2, ())):
            done = self.translate(text, "--to", "de")
            self.assertEqual(done.returncode, code, done.stderr)
            self.assertEqual(done.stdout.count(b"\n"), lines, text[:20])  # those before a bad one are translated
            for word in words:
                self.assertIn(word, done.stderr.decode())
        for arguments, words in ((["--to", "dr"], ("--to", "'dr'", "'de'")), ([], ("--to", "got none", "de, en")), (["--to", "de", "--from", "fr"], ("--from", "'fr'")),
                                 (["--to", "en"], ("--from", "another language than --to, got en for both")), (["--to", "de", "--beams", 0], ("--beams",))):
            done = self.translate(b"red\n", *arguments)
            self.assertEqual(done.returncode, 2, done.stderr)
            for word in words:
                self.assertIn(word, done.stderr.decode())

    def test_a_direction_that_was_not_taught_is_told(self):
        self.train(train__steps=3)
        guessed = self.translate(b"rot\n", "--from", "de", "--to", "en")
        self.assertEqual(guessed.returncode, 0, guessed.stderr)
        self.assertIn(b"warning: the model was not trained to translate from de to en", guessed.stderr)
        self.assertNotIn(b"warning", self.translate(b"red\n", "--to", "de").stderr)
        self.train(train__steps=3, data__directions="both")
        self.assertNotIn(b"warning", self.translate(b"rot\n", "--from", "de", "--to", "en").stderr)

    def test_a_byte_order_mark_is_no_letter(self):
        self.train(train__steps=3)
        self.assertEqual(self.translate(b"\xef\xbb\xbfred\n", "--to", "de").stdout, self.translate(b"red\n", "--to", "de").stdout)

    def test_without_validation_there_are_no_scores(self):
        self.train(train__steps=1)
        scores = self.scores("--set", "data.validation=0")["translation"]
        self.assertEqual((scores["mean"], scores["directions"], scores["examples"]), (None, {}, []))

    def test_bad_files(self):
        self.refuse(2, "data.path", arguments=self.command(data__path=""))
        self.refuse(3, "data.path", "nowhere.en", arguments=self.command(data__path=self.folder / "nowhere"))
        self.refuse(2, "data.languages", "got 0", arguments=self.command(data__languages="[]"))
        self.refuse(3, "bad.tsv", arguments=self.command(data__path=self.write("bad.tsv", "no tab here\n")))
        catalogue = self.write("bad.mo", b"\xde\x12\x04\x95" + bytes(4) + (5).to_bytes(4, "little") + b"\xff" * 16)
        self.refuse(3, "bad.mo", arguments=self.command(data__path=catalogue))
        self.refuse(3, "magic.mo", arguments=self.command(data__path=self.write("magic.mo", b"nothing of the kind" * 9)))
        self.refuse(3, "short.mo", arguments=self.command(data__path=self.write("short.mo", b"\xde\x12")))
        self.refuse(2, "data.kind", "translation needs parallel or synthetic, got idx",
                    arguments=["train", "t-6-8192-16", *sets(data__kind="idx", data__path=self.folder, pipeline__devices="cpu:0", model__layers=1, model__dim=8, model__ffn=8,
                                                             model__vocab=300, output__dir=self.folder / "run")])

    def test_files_without_a_pair_to_train_on_are_told_why(self):
        self.train(train__steps=1)
        copies = self.write("copies.tsv", "".join(f"name {number}\tname {number}\n" for number in range(300)))
        latin = self.write("latin.tsv", "".join(f"name {number}\tn\xe4me {number}\n" for number in range(300)).encode("latin-1"))
        for path, words in ((copies, ("kept 0 of", "the target equals the source", "data.keep_copies")), (latin, ("malformed UTF-8",)), (self.write("empty.tsv", ""), ("0 pairs",))):
            for command in (self.command(data__path=path, output__dir=self.folder / "other"), ["eval", self.folder / "run", "--set", f"data.path={path}"]):
                self.refuse(3, "data.path: needs pairs to train on, got none", path.name, *words, arguments=command)

    def test_translations_come_as_lines_do(self):
        self.train(train__steps=3)
        with subprocess.Popen([PROGRAM, "translate", str(self.folder / "run"), "--to", "de"], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                              stderr=subprocess.DEVNULL) as process:
            for line in (b"red\n", b"\n", b"old house\n"):
                process.stdin.write(line)
                process.stdin.flush()
                self.assertTrue(process.stdout.readline().endswith(b"\n"))  # before the next line is there
            process.stdin.close()
            self.assertEqual(process.stdout.read(), b"")
            self.assertEqual(process.wait(HANG_S), 0)

    def test_line_breaks_within_a_translation_are_spaces(self):
        entries = "".join(f'\nmsgid "word {number}"\nmsgstr "ja\\n"\n"nein"\n' for number in range(300))
        header = 'msgid ""\nmsgstr "Content-Type: text/plain; charset=UTF-8\\n"\n'
        self.train(data__path=self.write("de.po", header + entries), data__validation=0.2, train__steps=150)
        done = self.translate(b"word 7\n\nword 8\n", "--to", "de")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(done.stdout.count(b"\n"), 3, done.stdout)
        self.assertIn(b"ja nein", done.stdout)

    def test_languages_of_a_folder_are_chosen(self):
        folder = self.folder / "corpus"
        folder.mkdir()
        text = self.pairs.read_text()
        for name in ["en-de", "en-fr", "de-fr"]:
            (folder / f"{name}.tsv").write_text(text)
        _, said = self.train(data__path=folder, data__languages='["de"]', train__steps=1)
        self.assertIn("pairs in 2 languages", said)
        _, said = self.train(data__path=folder, data__languages="[]", train__steps=1)
        self.assertIn("pairs in 3 languages", said)
        self.refuse(3, "data.languages", "it", "leave it out",
                    arguments=self.command(data__path=folder, data__languages='["de", "it"]'))

    def test_languages_that_only_validation_has_are_left_out(self):
        folder = self.folder / "corpus"
        folder.mkdir()
        (folder / "en-de.tsv").write_text(self.pairs.read_text())
        (folder / "en-xx.tsv").write_text("".join(f"copy {number}\tcopy {number}\n" for number in range(300)))  # of training none stays
        _, said = self.train(data__path=folder, data__languages="[]", train__steps=1)
        self.assertRegex(said, "left out [0-9]+ validation pairs from en to xx")
        self.assertIn("pairs in 2 languages", said)

    def scores(self, *arguments, run="run"):
        """Of eval, those of all translations."""
        evaluated = sluice("eval", self.folder / run, "--json", "-", *arguments)
        self.assertEqual(evaluated.returncode, 0, evaluated.stderr)
        return json.loads(evaluated.stdout)

    def test_a_language_that_is_left_out_takes_no_neighbours_from_others(self):
        for name in ("two", "three"):
            (self.folder / name).mkdir()
            for language in ("de", "fr"):
                lines = [line.split("\t") for line in self.pairs.read_text().splitlines()[:400]]
                (self.folder / name / f"en-{language}.tsv").write_text("".join(f"{english}\t{german[::1 if language == 'de' else -1]}\n" for english, german in lines))
        (self.folder / "three" / "en-aa.tsv").write_text("".join(f"copy {number}\tcopy {number}\n" for number in range(300)))  # of training none stays
        directions = {}
        for name in ("two", "three"):
            self.train(data__path=self.folder / name, data__languages="[]", train__steps=1, output__dir=self.folder / f"run-{name}")
            directions[name] = self.scores(run=f"run-{name}")["translation"]["directions"]
            self.assertEqual(list(directions[name]), ["en-de", "en-fr"])
        for direction, scores in directions["two"].items():
            self.assertGreater(scores["neighbour_chrf"], 10)
            self.assertAlmostEqual(scores["neighbour_chrf"], directions["three"][direction]["neighbour_chrf"])

    def test_a_direction_of_two_files_is_one_direction(self):
        folder = self.folder / "corpus"
        folder.mkdir()
        lines = self.pairs.read_text().splitlines()
        (folder / "en-de.tsv").write_text("\n".join(lines))
        (folder / "de-en.tsv").write_text("\n".join("\t".join(line.split("\t")[::-1]) for line in lines))
        self.train(data__path=folder, data__languages="[]", data__directions="both", train__steps=1)
        scores = self.scores()["translation"]
        self.assertEqual(sorted(scores["directions"]), ["de-en", "en-de"])
        self.assertEqual(scores["mean"]["pairs"], sum(of["pairs"] for of in scores["directions"].values()))

    def test_languages_are_others_than_the_source_and_named_once(self):
        for language in ("en", "de"):
            self.write(f"stem.{language}", "red house\nold tree\n" * 50)
        for languages, words in (('["de", "de"]', ("each language once", "got de")), ('["de", "en"]', ("en (data.source_language)", "leave it out"))):
            self.refuse(2, "data.languages", *words, arguments=self.command(data__path=self.folder / "stem", data__languages=languages))
        self.refuse(2, "data.languages", "leave it out", arguments=self.command(data__languages='["en"]'))

    def test_a_file_named_against_the_settings_is_refused(self):
        turned = self.write("de-en.tsv", self.pairs.read_text())
        self.refuse(2, "de-en.tsv", 'data.source_language = "de"', "rename", arguments=self.command(data__path=turned))
        self.train(data__path=turned, data__source_language="de", data__languages='["en"]', train__steps=1)

    def test_averages_are_left_where_they_are_not_wanted(self):
        self.train(train__steps=60, optimizer__ema=0.9999, optimizer__lr=0.1)
        with_averages, without = self.scores(), self.scores("--set", "optimizer.ema=0")
        self.assertNotEqual(with_averages["translation"]["examples"][0]["translation"], without["translation"]["examples"][0]["translation"])
        lines = b"old house\nred river\n"
        self.assertNotEqual(self.translate(lines, "--to", "de").stdout, self.translate(lines, "--to", "de", "--set", "optimizer.ema=0").stdout)
        self.train(train__steps=1)
        self.refuse(3, "ema.safetensors", arguments=["translate", self.folder / "run", "--to", "de", "--set", "optimizer.ema=0.9"])

    def test_a_checkpoint_without_a_language_says_so(self):
        self.train(train__steps=1)
        self.refuse(2, "data.languages", "de, en", "fr", "without the checkpoint",
                    arguments=self.command("--init", self.folder / "run", data__languages='["fr"]', output__dir=self.folder / "other"))

    def test_unreadable_data_is_no_fault_of_the_cache(self):
        (self.folder / "loop").symlink_to("loop")
        done = sluice(*self.command(data__path=self.folder / "loop" / "en-de.tsv"))
        self.assertEqual(done.returncode, 3, done.stderr)
        self.assertNotIn("data.cache", done.stderr)

    def test_a_translation_model_does_not_generate(self):
        self.train(train__steps=3)
        self.refuse(2, "generate", "use translate", arguments=["generate", self.folder / "run", "--prompt", "red"])

    def test_a_language_model_does_not_translate(self):
        done = sluice("train", "tiny", *sets(output__dir=self.folder / "run", train__steps=1))
        self.assertEqual(done.returncode, 0, done.stderr)
        self.refuse(2, "translation", "transformer-lm", arguments=["translate", self.folder / "run", "--to", "de"])


if __name__ == "__main__":
    unittest.main()
