#!/usr/bin/env python3
"""Runs a program of examples/ over one device and over several: what it learns, and that the weights are the same to the bit.

usage: examples_test.py PROGRAM
"""
import dataclasses
import pathlib
import re
import subprocess
import sys
import tempfile

DATA = {"lenet", "vit", "vae", "diffusion", "fine_tuning"}  # that need Fashion-MNIST
FASHION_MNIST = pathlib.Path("/usr/share/datasets/fashion-mnist")


@dataclasses.dataclass(frozen=True)
class Learned:
    """The number behind a text of the output has to lie in [least, most]."""
    text: str
    least: float = float("-inf")
    most: float = float("inf")

    def fault(self, output):
        found = re.findall(re.escape(self.text) + r" *(-?[\d.]+|nan|inf)", output)
        if not found:
            return f"needed '{self.text}' with a number"
        is_right = self.least <= float(found[-1]) <= self.most
        return None if is_right else f"needed '{self.text}' from {self.least} to {self.most}, got {found[-1]}"


EXAMPLES = {
    "lenet": [Learned("accuracy", least=0.84)],
    "vit": [Learned("accuracy", least=0.78)],
    "char_lstm": [Learned("step 400: loss", most=1.75)],
    "encoder_decoder": [Learned("sorted as a whole", least=0.97)],
    "vae": [Learned("loss", most=262), Learned("mean of 64 made images", 0.12, 0.4)],
    "mixture_of_experts": [Learned("step 300: loss", most=1.85)],
    "custom_op": [Learned("mean squared error beyond what was seen", most=0.02)],
    "gan": [Learned("clusters", least=7), Learned("points near one", least=0.7)],
    "diffusion": [Learned("loss", most=0.9)],
    "fine_tuning": [Learned("uses, from 40 images: accuracy", least=0.94), Learned("uses, without what it knew: accuracy", most=0.935)],
}
SEVERAL = {"diffusion": "cpu:0,cpu:1,cpu:2,cpu:3"}


def output_of(program, devices):
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run([program, devices], cwd=folder, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    if done.returncode != 0:
        sys.exit(f"{program} {devices} ended with {done.returncode}:\n{done.stdout}")
    return done.stdout


def main():
    program = pathlib.Path(sys.argv[1]).resolve()
    name = program.name
    if name in DATA and not FASHION_MNIST.exists():
        print(f"{name}: needs the package dataset-fashion-mnist, found no {FASHION_MNIST}")
        return 77
    one, several = output_of(program, "cpu:0"), output_of(program, SEVERAL.get(name, "cpu:0,cpu:1"))
    faults = [fault for learned in EXAMPLES[name] if (fault := learned.fault(one))]
    hashes = [re.findall(r"^weights (\w{32})$", output, re.MULTILINE) for output in (one, several)]
    if len(hashes[0]) != 1 or hashes[0] != hashes[1]:
        faults.append(f"needed one hash of the weights over one device and over several, got {hashes}")
    if faults:
        print("\n".join([f"{name}: {fault}" for fault in faults] + [one]))
    return len(faults)


if __name__ == "__main__":
    sys.exit(main())
