#!/usr/bin/env python3
"""Compares what our layers of images compute with PyTorch: cells of each genotype, every convolution, pool and norm, forward and all gradients.

bench/peer_cases writes inputs, weights, outputs and gradients in f32. PyTorch computes the same in f64, so that an error is ours alone.
The error of a tensor is its largest difference over its largest element. A case above --tolerance makes the exit status 1.
"""
import argparse
import json
import pathlib
import subprocess
import sys
import tempfile

import torch
from amoebanet_model import NORMAL, REDUCTION, Cell, Convolution, FactorizedReduction, Pool, norm

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent


def read_safetensors(path):
    """(metadata, tensors in f64 in name order)."""
    content = path.read_bytes()
    begin = 8 + int.from_bytes(content[:8], "little")
    header = json.loads(content[8:begin])
    metadata = header.pop("__metadata__")
    tensors = {name: torch.frombuffer(bytearray(content[begin:][slice(*entry["data_offsets"])]), dtype=torch.float32)
               .reshape(entry["shape"]).double() for name, entry in sorted(header.items())}
    return metadata, tensors


def from_ours(x):
    """Images [B, H, W, C] and weights [O, H, W, I] have their channels last."""
    return x.permute(0, 3, 1, 2) if x.dim() == 4 else x


def build(fields, inputs, parameters):
    kind = fields["module"]
    if kind == "norm":
        return norm(inputs[0].shape[1])
    if kind == "factorized_reduction":
        return FactorizedReduction(inputs[0].shape[1], len(parameters[-1]))
    if kind == "pool":
        return Pool(fields["kind"], int(fields["size"]), int(fields["stride"]))
    if kind == "convolution":
        outputs, _, *window = parameters[0].shape
        stride, groups = tuple(map(int, fields["stride"].split(","))), int(fields["groups"])
        if fields["padding"] == "valid":
            return torch.nn.Conv2d(inputs[0].shape[1], outputs, window, stride, bias=False)
        return Convolution(inputs[0].shape[1], outputs, window, stride, groups)
    is_reduction = fields["reduction"] == "1"
    genotype = (REDUCTION if is_reduction else NORMAL)[fields["genotype"]]
    return Cell(genotype, inputs[0].shape[1], inputs[1].shape[1], int(fields["filters"]), is_reduction,
                fields["before_is_larger"] == "1", False)


def error(ours, theirs):
    if ours.shape != theirs.shape:
        return float("inf")
    return ((ours - theirs).abs().max() / theirs.abs().max()).item()


def compare(path):
    """{what: error}, of the output and of every gradient by the name of its tensor."""
    fields, ours = read_safetensors(path)
    named = {name: from_ours(x).requires_grad_() for name, x in ours.items() if name.startswith(("input", "parameter"))}
    inputs = [x for name, x in named.items() if name.startswith("input")]
    parameters = {name: x for name, x in named.items() if name.startswith("parameter")}
    module = build(fields, inputs, list(parameters.values())).double().train()
    names = [name for name, _ in module.named_parameters()]
    assert len(names) == len(parameters), f"{path.stem}: PyTorch has {len(names)} parameters, ours {len(parameters)}"
    y = torch.func.functional_call(module, dict(zip(names, parameters.values())), (inputs if len(inputs) > 1 else inputs[0],))
    if isinstance(y, tuple):
        y = y[0]                                 # a cell also hands its input on
    y.backward(from_ours(ours["dy"]))
    errors = {"output": error(from_ours(ours["output"]), y.detach())}
    for i, (name, x) in enumerate(named.items()):
        errors["gradient of " + name] = error(from_ours(ours[f"gradient.{i:03}"]), x.grad)
    return errors


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ours", default=str(ROOT / "build/bench/peer_cases"), help="our program")
    parser.add_argument("--tolerance", type=float, default=1e-4)
    arguments = parser.parse_args()
    failed = 0
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([arguments.ours, folder], check=True)
        paths = sorted(pathlib.Path(folder).glob("*.safetensors"))
        for path in paths:
            errors = compare(path)
            worst = max(errors, key=errors.get)
            passed = errors[worst] < arguments.tolerance
            failed += not passed
            print(f"{'passed' if passed else 'FAILED'}  {path.stem:44} {len(errors):3} tensors, worst {errors[worst]:.1e}: {worst}")
    print(f"{len(paths) - failed} of {len(paths)} cases are within {arguments.tolerance:g}")
    return 1 if failed or not paths else 0


sys.exit(main())
