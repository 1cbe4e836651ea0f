#!/usr/bin/env python3
"""sluice inspect --verify: what it counts, and that it finds any damage.

usage: verify_test.py PROGRAM [unittest arguments]
"""
import json
import shutil
import unittest

from program import ProgramTest, sluice, tensors_of


class Verification(ProgramTest):
    SMALL = dict(model__layers=1, model__dim=8, optimizer__ema=0.9)

    def saved(self, *arguments, steps=1, **keys):
        self.train(*arguments, train__steps=steps, **{**self.SMALL, **keys})
        return self.folder / "run" / f"step-{steps:08}"

    def verified(self, path, *arguments, code=0):
        done = sluice("inspect", path, "--verify", *arguments, "--json", self.folder / "verified.json")
        self.assertEqual(done.returncode, code, done.stderr)
        return done.stdout, json.loads((self.folder / "verified.json").read_text())["verified"]

    def test_counts_tensors_and_bytes(self):
        folder = self.saved()
        output, (found,) = self.verified(folder)
        files = {path.name: path for path in folder.iterdir()}
        tensors = [tensor for name, path in files.items() if name.endswith(".safetensors") for tensor in tensors_of(path).values()]
        self.assertEqual(found, {"checkpoint": str(folder), "error": None, "steps": 1, "parts": 1, "tensors": len(tensors),
                                 "weights_hash": json.loads(files["state.json"].read_text())["weights_hash"],
                                 "bytes": sum(path.stat().st_size for path in files.values()),
                                 "values": sum(len(data) for _, _, data in tensors) // 4, "not_finite": 0})
        self.assertEqual(output, f"{folder}: verified: {len(tensors)} tensors, {found['bytes']} bytes\n")
        on_output = sluice("inspect", folder, "--verify", "--json", "-")
        self.assertEqual(json.loads(on_output.stdout), {"verified": [found]})

    def test_of_a_training_has_a_line_for_each_checkpoint(self):
        newest = self.saved(steps=3, output__save_every=1)
        output, found = self.verified(self.folder / "run")
        self.assertEqual([one["steps"] for one in found], [1, 2, 3])
        self.assertEqual(output.count(": verified: "), 3)
        (newest / "optimizer.safetensors").unlink()
        (newest.parent / "step-00000001" / "state.json").write_text("{}")
        output, found = self.verified(self.folder / "run", code=3)
        self.assertEqual([one["error"] is None for one in found], [False, True, False])
        self.assertEqual(output.count(": verified: "), 1)
        done = sluice("inspect", self.folder / "run", "--verify")
        self.assertEqual(done.stderr.count("sluice: error: "), 2, done.stderr)

    def test_finds_damage_in_any_file(self):
        folder = self.saved()
        for path in sorted(folder.iterdir()):
            whole = path.read_bytes()
            flipped = bytearray(whole)
            flipped[-2] ^= 1
            for damaged in (bytes(flipped), whole[:-1], whole[:len(whole) // 2], b"", whole + b"\0", whole + whole):
                with self.subTest(path.name, bytes=len(damaged)):
                    path.write_bytes(damaged)
                    self.refuse(3, path.name, "; use an older checkpoint" if damaged else path.name, arguments=["inspect", folder, "--verify"])
            path.unlink()
            self.refuse(3, folder, arguments=["inspect", folder, "--verify"])
            path.write_bytes(whole)
        self.verified(folder)

    def test_finds_files_of_another_checkpoint(self):
        newest = self.saved(steps=2, output__save_every=1)
        older = newest.parent / "step-00000001"
        for name in "model.safetensors", "optimizer.safetensors", "ema.safetensors":
            whole = (newest / name).read_bytes()
            shutil.copy(older / name, newest / name)
            self.assertEqual((newest / name).stat().st_size, len(whole))
            self.refuse(3, name, "checksum differs", arguments=["inspect", newest, "--verify"])
            (newest / name).write_bytes(whole)
        shutil.copy(older / "state.json", newest / "state.json")
        self.refuse(3, newest, "checksum differs", arguments=["inspect", newest, "--verify"])

    def test_finds_another_model_or_optimizer(self):
        folder = self.saved(optimizer__ema=0, model__tied_embeddings="false")
        verify = ["inspect", folder, "--verify", "--set"]
        self.refuse(3, "model.safetensors", "[16", "[8", "check [model]", arguments=[*verify, "model.dim=16"])
        self.refuse(3, "model.safetensors", "block1", "the checkpoint has none", arguments=[*verify, "model.layers=2"])
        self.refuse(3, "model.safetensors", "the checkpoint has 'logits.bias'", arguments=[*verify, "model.tied_embeddings=true"])
        self.refuse(3, "optimizer.safetensors", "/square'", "[optimizer]", arguments=[*verify, "optimizer.name=rmsprop", "--set", "optimizer.momentum=0"])
        self.refuse(3, "ema.safetensors", "optimizer.ema", arguments=[*verify, "optimizer.ema=0.9"])
        self.assertIn(": verified: ", self.verified(folder, "--set", "optimizer.beta1=0")[0])

    def test_takes_checkpoints_alone(self):
        self.refuse(2, "--verify", "tiny", arguments=["inspect", "tiny", "--verify"])
        self.refuse(3, self.folder, "found none", arguments=["inspect", self.folder, "--verify"])

    def test_what_state_json_does_not_name_is_not_read(self):
        folder = self.saved()
        (folder / "tokenizer.model").write_bytes(b"not a tokenizer")
        (folder / "normalisation.json").write_bytes(b"not a normalisation")
        self.verified(folder)
        self.assertEqual(sluice("eval", folder).returncode, 0)


if __name__ == "__main__":
    unittest.main()
