"""Trainings that go on, and evaluations: with what was, or with a word about what is not.
"""
import json
import math
import random
import unittest

from program import ProgramTest, sets, sluice

TEXT = "to be or not to be, that is the question, whether it is nobler in the mind to suffer\n"
KEYS = dict(data__kind="text", model__vocab=256, model__context=16, data__validation=0.2)


class Continued(ProgramTest):
    def on_text(self, text, *arguments, **keys):
        path = self.write("text.txt", text)
        return sluice("train", "tiny", *arguments, *sets(output__dir=self.folder / "run", data__path=path, **KEYS, **keys))

    def test_of_other_data_says_so(self):
        self.assertEqual(self.on_text(TEXT * 100, train__steps=2).returncode, 0)
        same = self.on_text(TEXT * 100, "--resume", "auto", train__steps=3)
        self.assertNotIn("other samples", same.stderr)
        for other in (TEXT * 90, TEXT.replace("e", "x") * 100):
            self.on_text(TEXT * 100, train__steps=2)
            self.write("text.txt", other)
            self.assertIn("was trained on other samples", sluice("eval", self.folder / "run").stderr)
            done = self.on_text(other, "--resume", "auto", train__steps=4)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertIn("was trained on other samples", done.stderr)

    def test_of_the_same_data_says_nothing(self):
        self.on_text(TEXT * 100, train__steps=2)
        self.assertNotIn("other samples", sluice("eval", self.folder / "run").stderr)
        asked_for = self.write("other.txt", TEXT * 50)
        self.assertNotIn("other samples", sluice("eval", self.folder / "run", *sets(data__path=asked_for)).stderr)

    def test_replicas_that_were_chosen_are_evaluated(self):
        trained = self.train(train__steps=2, model__layers=1, pipeline__devices='"8x cpu"', pipeline__replicas="auto", pipeline__micro_batches=8)
        done = sluice("eval", self.folder / "run", "--json", "-")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(json.loads(done.stdout)["loss"]["validation"], trained["loss"]["validation"])

    def test_weights_that_are_used_otherwise_say_so(self):
        self.train(train__steps=1)
        for keys in dict(model__heads=8), dict(model__activation="gelu"):
            (key, value), = keys.items()
            with self.subTest(key):
                done = sluice(*self.tiny("--init", self.folder / "run", output__dir=self.folder / "other", train__steps=1, **keys))
                self.assertEqual(done.returncode, 0, done.stderr)
                self.assertRegex(done.stderr, f"the checkpoint was trained with {key.replace('__', '.')} = .*, now it is .* = \"?{value}")
        done = sluice(*self.tiny("--init", self.folder / "run", output__dir=self.folder / "same", train__steps=1, model__dropout=0.2))
        self.assertNotIn("the checkpoint was trained with", done.stderr)

    def test_links_of_plans_are_needed_by_plans_alone(self):
        link = self.write("link.toml", '[link]\nname = "own"\nbytes_per_second = 1e9\nlatency_seconds = 1e-6\n')
        self.train(train__steps=2, pipeline__link=link)
        link.unlink()
        self.assertEqual(sluice("eval", self.folder / "run").returncode, 0)
        self.refuse(2, "link.toml", arguments=["eval", self.folder / "run", *sets(pipeline__link=link)])


class TextsOfTwoKinds(ProgramTest):
    """Of words, and behind them, where validation is, of digits, which take nearly a token each."""
    def test_have_their_own_bits_per_byte(self):
        digits = random.Random(3)
        self.write("a.txt", "the pipeline sends gradients between its stages\n" * 1000)
        self.write("b.txt", "".join(digits.choice("0123456789abcdef") for _ in range(6000)))
        self.train(data__kind="text", data__path=self.folder, data__tokenizer="bpe", data__cache=self.folder / "cache", model__vocab=330, model__context=128,
                   data__validation=0.1, train__steps=1)
        done = sluice("eval", self.folder / "run", "--json", "-")
        self.assertEqual(done.returncode, 0, done.stderr)
        result = json.loads(done.stdout)
        bytes_per_token = result["loss"]["validation"] / math.log(2) / result["bits_per_byte"]
        self.assertLess(bytes_per_token, 2.5)
        self.assertGreater(bytes_per_token, 1)


class PlansThatDoNotFit(ProgramTest):
    def test_are_told_from_wrong_settings(self):
        for keys in (dict(pipeline__replicas=2, pipeline__devices='"4x cpu"'), dict(pipeline__fold_blocks=4, train__batch=4),
                     dict(model__layers=1, pipeline__schedule="zb-v", pipeline__devices='"3x cpu"'),
                     dict(model__layers=1, pipeline__schedule="interleaved", pipeline__virtual_stages=2, pipeline__devices='"3x cpu"')):
            with self.subTest(**keys):
                done = sluice("plan", "tiny", "--json", "-", *sets(pipeline__memory="100KiB", **keys))
                self.assertEqual(done.returncode, 4, done.stderr)
                self.assertFalse(json.loads(done.stdout)["fits"])
                self.refuse(4, "does not fit", "lacks", arguments=self.tiny(pipeline__memory="100KiB", **keys))

    def test_say_what_a_gpu_needs_for_its_libraries(self):
        self.refuse(4, "h100:0", "needs a budget of more than", "pipeline.memory",
                    arguments=["plan", "tiny", *sets(pipeline__devices='"2x h100"', pipeline__memory="30MiB")])


if __name__ == "__main__":
    unittest.main()
