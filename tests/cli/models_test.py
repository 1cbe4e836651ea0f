#!/usr/bin/env python3
"""Every kind of model trained by the built program: text, images, pixels; on files and on made-up data.

usage: models_test.py PROGRAM [unittest arguments]
"""
import json
import random
import re
import subprocess
import unittest

from program import PROGRAM, ProgramTest, fitting, idx, sets, sluice


class Language(ProgramTest):
    def corpus(self):
        words = "the pipeline sends each micro batch to the next device and the device sends it back again".split()
        generator = random.Random(1)
        return self.write("corpus.txt", "\n".join(" ".join(generator.choices(words, k=9)) + "." for _ in range(2000)))

    def keys(self):
        return dict(data__kind="text", data__path=self.corpus(), data__cache=self.folder / "cache", model__vocab=256)

    def test_train_eval_generate_and_report_on_text(self):
        report, trace = self.folder / "report.html", self.folder / "trace.json"
        result = self.train("--report", report, "--trace", trace, train__baseline="true", train__steps=30, **self.keys())
        self.assertLess(result["loss"]["last"], result["loss"]["first"])
        for part in "<polyline", "trigram baseline", "A sample of text":
            self.assertIn(part, report.read_text())
        self.assertIn("traceEvents", json.loads(trace.read_text()))

        evaluated = json.loads(sluice("eval", self.folder / "run", "--json", "-").stdout)
        self.assertGreater(evaluated["latency_ms"], 0)
        self.assertGreater(evaluated["samples_per_second"], 0)
        self.assertAlmostEqual(evaluated["loss"]["validation"], result["loss"]["validation"], places=6)
        self.assertAlmostEqual(evaluated["loss"]["trigram"], result["loss"]["trigram"], places=6)

        generate = ["generate", self.folder / "run", "--prompt", "the ", "--tokens", 20]
        texts = {subprocess.run([PROGRAM, *map(str, generate)], capture_output=True).stdout for _ in range(2)}
        self.assertEqual(len(texts), 1)
        self.assertEqual(len(texts.pop()), len("the ") + 20 + 1)
        self.refuse(2, "prompt", "context", arguments=["generate", self.folder / "run", "--prompt", "x" * 32])
        self.refuse(2, "prompt", arguments=["generate", self.folder / "run"])

    def test_bf16_checkpoint_generates(self):
        self.train(train__steps=5, train__precision="bf16", **self.keys())
        generated = subprocess.run([PROGRAM, "generate", self.folder / "run", "--prompt", "the ", "--tokens", "20"], capture_output=True)
        self.assertEqual(len(generated.stdout), len("the ") + 20 + 1, generated.stderr)
        self.assertRegex(generated.stderr.decode(), r"20 tokens, [\d.]+ ms a token, \d+ tokens/s")

    def test_a_part_of_the_layers_is_refused_by_all_commands(self):
        self.train(train__steps=1, optimizer__ema=0.9, **self.keys())
        for command in (["eval"], ["generate", "--prompt", "the "]):
            for averages in ([], ["--set", "optimizer.ema=0"]):
                self.refuse(3, "block1.", "check [model]", arguments=[command[0], self.folder / "run", *command[1:], *averages, "--set", "model.layers=1"])

    def test_generation_waits_no_longer_than_the_timeout(self):
        self.train(train__steps=1, train__batch=4, model__layers=4, model__dim=256, model__context=256, **self.keys())
        self.refuse(5, "pipeline.timeout", "0.001 s",  # GFLOPs, which no device computes in a millisecond
                    arguments=["generate", self.folder / "run", "--prompt", "x" * 250, "--tokens", 1, "--set", "pipeline.timeout=0.001"])

    def test_vocabulary_of_bytes_is_256(self):
        self.refuse(2, "model.vocab", "256", arguments=self.tiny(**{**self.keys(), "model__vocab": 100}))


class Images(ProgramTest):
    def keys(self, **more):
        return fitting(dict(dict(model__name="amoebanet-d", model__layers=3, model__filters=16, model__classes=6, model__image_size=20, model__dropout=0.5,
                                 model__drop_path_keep=0.8, data__cache=self.folder / "cache", data__train_samples=256, data__augment="crop,flip",
                                 train__steps=12, train__evaluate_batches=0, train__batch=16), **more))

    def idx_folder(self):
        generator = random.Random(1)
        for name, count in ("train", 40), ("t10k", 12):
            self.write(f"{name}-images-idx3-ubyte", idx(generator.randbytes(count * 20 * 20), count, 20, 20))
            self.write(f"{name}-labels-idx1-ubyte", idx([i % 3 for i in range(count)], count))
        return dict(data__kind="idx", data__path=self.folder, model__classes=3, model__channels=1, model__image_size=20, train__steps=2, train__batch=8)

    def test_every_pipeline_gives_the_same_weights_and_eval_the_same_accuracy(self):
        report = self.folder / "report.html"
        one = self.train("--report", report, **self.keys())
        two = self.train(out="two", pipeline__devices="cpu:0,cpu:1", pipeline__remat="full", **self.keys())
        for key in "weights_hash", "accuracy":
            self.assertEqual(one[key], two[key])
        self.assertGreater(one["samples_per_second"], 0)
        self.assertIn("validation accuracy", report.read_text())
        # Without dropout, whose noise is larger than what a few steps learn.
        learned = self.train(out="learned", **self.keys(model__dropout=0, model__drop_path_keep=1, train__steps=60))
        self.assertLess(learned["loss"]["last"], learned["loss"]["first"])

        done = sluice("eval", self.folder / "two", "--json", "-")
        evaluated = json.loads(done.stdout)
        self.assertEqual(evaluated["accuracy"], one["accuracy"])
        self.assertEqual(evaluated["loss"]["validation"], one["loss"]["validation"])
        confusion = evaluated["confusion"]
        self.assertEqual(sum(map(sum, confusion)), evaluated["samples"])
        self.assertAlmostEqual(sum(confusion[i][i] for i in range(6)) / evaluated["samples"], evaluated["accuracy"])
        self.assertGreaterEqual(evaluated["top5"], evaluated["accuracy"])
        self.assertRegex(done.stderr, r"top-1 [\d.]+ %, top-5 [\d.]+ % of 256 images\n +label +\| +0 +1")

    def test_resume_gives_the_same_bits(self):
        keys = self.keys(model__drop_path_steps=12)
        whole = self.train(out="whole", **keys)
        self.train(**{**keys, "train__steps": 5})
        rest = self.train("--resume", "auto", pipeline__devices="cpu:0,cpu:1", **keys)
        self.assertEqual(rest["weights_hash"], whole["weights_hash"])

    def test_resume_warns_when_drop_path_ran_to_another_end(self):
        keys = self.keys()
        self.train(**{**keys, "train__steps": 2})
        done = sluice(*self.tiny("--resume", "auto", **{**keys, "train__steps": 3}))
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("the checkpoint was trained with train.steps = 2, now it is train.steps = 3", done.stderr)

    def test_moving_averages_are_evaluated_saved_and_resumed(self):
        keys = self.keys(optimizer__ema=0.9)
        whole = self.train(out="whole", **keys)
        self.assertEqual(whole["weights_hash"], self.train(out="without", **self.keys())["weights_hash"])
        self.train(**{**keys, "train__steps": 5, "model__drop_path_steps": 12})
        rest = self.train("--resume", "auto", pipeline__devices="cpu:0,cpu:1", **keys, model__drop_path_steps=12)
        self.assertEqual(rest["weights_hash"], whole["weights_hash"])
        self.assertEqual(rest["loss"]["validation"], whole["loss"]["validation"])
        for device in rest["devices"]:
            self.assertEqual(device["peak_bytes"], device["predicted_peak_bytes"])
        averaged = self.evaluate("whole")
        self.assertEqual(averaged["loss"]["validation"], whole["loss"]["validation"])
        plain = self.evaluate("whole", optimizer__ema=0)["loss"]["validation"]
        self.assertEqual(plain, self.evaluate("without")["loss"]["validation"])
        self.assertNotEqual(plain, whole["loss"]["validation"])
        self.refuse(3, "ema.safetensors", "--init", arguments=["eval", self.folder / "without", "--set", "optimizer.ema=0.9"])
        self.refuse(2, "optimizer.ema", "< 1", arguments=self.tiny(**self.keys(optimizer__ema=1)))

    def evaluate(self, run, **keys):
        done = sluice("eval", self.folder / run, "--json", "-", *sets(**keys))
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(done.stdout)

    def test_fine_tuning_takes_all_but_the_classifier(self):
        self.train(out="ten", **self.keys(model__classes=10, train__steps=2))
        done = sluice(*self.tiny("--init", self.folder / "ten", **self.keys(model__classes=5, train__steps=2)))
        self.assertEqual(done.returncode, 0, done.stderr)
        loaded, total = map(int, re.search(r"(\d+) of (\d+) tensors loaded\n", done.stdout).groups())
        self.assertEqual(loaded, total - 2)
        self.assertIn("head.classifier.weight, the model needs", done.stdout)
        self.assertIn("head.classifier.bias, the model needs [5], the checkpoint has [10]", done.stdout)
        self.refuse(2, "--init", "--resume", arguments=self.tiny("--init", self.folder / "ten", "--resume", "auto", **self.keys()))
        self.refuse(3, "nothing", arguments=self.tiny("--init", self.folder / "nothing", **self.keys()))

    def test_idx_files(self):
        keys = self.keys(**self.idx_folder())
        self.assertIn("accuracy", self.train(**keys, data__class_names="bag,boot,shirt"))
        self.assertIn("0 bag   |", sluice("eval", self.folder / "run").stdout)
        self.refuse(3, "train-labels", arguments=self.tiny(**keys, data__class_names="bag,boot"))
        for key, right, wrong in ("classes", 3, 10), ("channels", 1, 3), ("image_size", 20, 28):
            self.refuse(2, f"model.{key}: needs {right}", f"got {wrong}; set model.{key} = {right}",
                        arguments=self.tiny(**{**keys, f"model__{key}": wrong}))
        self.write("train-labels-idx1-ubyte", idx([0] * 39, 39))
        self.refuse(3, "39", "40", arguments=self.tiny(**keys))

    def test_cifar_files(self):
        generator = random.Random(1)
        for name, count in ("data_batch_1.bin", 20), ("test_batch.bin", 10):
            self.write(name, b"".join(bytes([i % 10]) + generator.randbytes(3 * 32 * 32) for i in range(count)))
        keys = dict(output__dir=self.folder / "run", data__path=self.folder, data__cache=self.folder / "cache", model__layers=3, model__filters=16,
                    train__steps=1, train__batch=8)
        done = sluice("train", "amoebanet-d-cifar10", *sets(**keys, output__report=self.folder / "report.html"))
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("of 10 images", done.stdout)
        self.assertIn("<figcaption>", (self.folder / "report.html").read_text())

    def test_bad_keys(self):
        self.refuse(2, "data.augment", "got 'mirror'", arguments=self.tiny(**self.keys(data__augment="mirror")))
        for names in ("none,flip", "flip,flip"):
            self.refuse(2, "data.augment", "needs none alone", arguments=self.tiny(**self.keys(data__augment=names)))
        self.refuse(2, "data.path", arguments=self.tiny(**self.keys(data__kind="cifar")))
        self.refuse(3, "/nothing/here", arguments=self.tiny(**self.keys(data__kind="images", data__path="/nothing/here")))
        self.refuse(2, "train.baseline", arguments=self.tiny(**self.keys(train__baseline="true", train__steps=1)))


class ResidualNetworks(ProgramTest):
    def keys(self, **more):
        return dict(dict(model__name="resnet50", model__filters=4, model__classes=3, model__image_size=16, model__dropout=0.2, data__cache=self.folder / "cache",
                         data__train_samples=64, train__steps=2, train__batch=8, pipeline__micro_batches=4), **more)

    def test_every_pipeline_gives_the_same_weights(self):
        keys = self.keys(model__squeeze_excitation="true")
        one = self.train(**keys)
        two = self.train(out="two", pipeline__devices="cpu:0,cpu:1,cpu:2", pipeline__remat="full", **keys)
        for key in "weights_hash", "accuracy":
            self.assertEqual(one[key], two[key])
        self.assertRegex(sluice("eval", self.folder / "two").stdout, r"top-1 [\d.]+ %, top-5 100.00 % of 128 images")

    def test_plan_and_inspect(self):
        inspected = json.loads(sluice("inspect", "resnet50", "--json", "-").stdout)
        self.assertEqual(inspected["parameters"], 25557032)
        self.assertEqual(inspected["nodes"][0]["name"], "stem")
        plan = json.loads(sluice("plan", "resnet50", "--json", "-", *sets(model__name="resnet101", pipeline__devices="4x meta")).stdout)
        self.assertEqual(plan["parameters"], 44549160)
        self.assertEqual(sum(plan["partition"]), len(plan["nodes"]))

    def test_small_images_are_refused_with_the_least_size(self):
        self.refuse(2, "model.image_size", "at least 8", "got 7", arguments=self.tiny(**self.keys(model__image_size=7)))


class PixelClasses(ProgramTest):
    def keys(self, **more):
        return fitting(dict(dict(model__name="unet", model__depth=2, model__filters=8, model__classes=4, model__image_size=24, model__dropout=0.1,
                                 data__train_samples=512, train__steps=60, train__batch=8, train__evaluate_batches=4, pipeline__micro_batches=2,
                                 optimizer__lr=1e-2), **more))

    def test_learns_shapes_alike_on_every_pipeline(self):
        report = self.folder / "report.html"
        one = self.train("--report", report, **self.keys())
        two = self.train(out="two", pipeline__devices="cpu:0,cpu:1,cpu:2", pipeline__remat="full", **self.keys())
        for key in "weights_hash", "accuracy":
            self.assertEqual(one[key], two[key])
        self.assertGreater(one["accuracy"], 0.85)
        self.assertIn("validation accuracy", report.read_text())
        done = sluice("eval", self.folder / "two", "--json", "-")
        evaluated = json.loads(done.stdout)
        self.assertEqual(evaluated["accuracy"], one["accuracy"])
        self.assertEqual(evaluated["samples"], 32 * 24 * 24)
        self.assertGreater(evaluated["mean_iou"], 0.3)
        self.assertRegex(done.stderr, r"accuracy [\d.]+ % of 18432 pixels, mean IoU [\d.]+ %\n +label +\| ")

    def test_resume_on_another_pipeline_gives_the_same_bits(self):
        keys = self.keys(train__steps=6)
        whole = self.train(out="whole", **keys)
        self.train(**{**keys, "train__steps": 3})
        rest = self.train("--resume", "auto", pipeline__devices="cpu:0,cpu:1", **keys)
        self.assertEqual(rest["weights_hash"], whole["weights_hash"])

    def test_what_it_cannot_take(self):
        self.refuse(2, "model.image_size", "at least 4", "got 3", "model.depth", arguments=self.tiny(**self.keys(model__image_size=3)))
        self.refuse(2, "data.kind", "unet needs synthetic", "no masks from files", "got images",
                    arguments=self.tiny(**self.keys(data__kind="images", data__path=self.folder)))
        self.refuse(2, "data.augment", "flip", arguments=self.tiny(**self.keys(data__augment="flip")))
        self.refuse(2, "at least 2 classes", "got 1", arguments=self.tiny(**self.keys(model__classes=1)))


if __name__ == "__main__":
    unittest.main()
