#!/usr/bin/env python3
"""Compares our BLEU, chrF and chrF++ with sacreBLEU's, bit by bit, on random pairs of many scripts; prints how many numbers differ.

Needs sacrebleu 2.6.0 (bench/peers/setup installs it, or pip) and build/bench/score_text. The exit status is 1 when a number differs.
Python 3.12's sum() of floats rounds otherwise than ours, so that BLEU may differ in its last bit there.
"""
import argparse
import json
import pathlib
import random
import subprocess
import sys

import sacrebleu

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
WORDS = ["the", "The", "cat", "it's", "don't", "end.", "e.g.", "3.5%", "1,000", "1,000.", "5-6", "1--2", "no.3", "wait...", "(see", "below)", "$5", "a/b", "x=y",
         "&quot;", "&amp;lt;", "&lt;b&gt;", "<skipped>", "well-known", "-", ".", ",", "!?", "...", "#1", "[x]", "~", "^_^", "'", "`", "2.", ".2", "2,", ",2",
         "\u201cquoted\u201d", "caf\u00e9", "cafe\u0301", "stra\u00dfe", "\u00bfqu\u00e9?", "\u041f\u0440\u0438\u0432\u0435\u0442,", "\u043c\u0438\u0440!",
         "\u03ba\u03cc\u03c3\u03bc\u03b5;", "\u0645\u0631\u062d\u0628\u0627\u061f", "\u0663\u066b\u0665", "\u05e9\u05dc\u05d5\u05dd", "\u0928\u092e\u0938\u094d\u0924\u0947\u0964",
         "\u0e2a\u0e27\u0e31\u0e2a\u0e14\u0e35", "\u65e5\u672c\u8a9e\u3002", "\u4f60\u597d\uff0c\u4e16\u754c\uff01", "\ud55c\uad6d\uc5b4", "\U0001f600", "\U0001f469\u200d\U0001f4bb", "\u1200",
         "\uff11\uff12", "\u00b2", "a\u200bb", "\ufeff"]
SPACES = [" "] * 20 + ["", "  ", "\u00a0", "\u3000", "\u2009", "\u2028", "\u0085", "\u202f", "\u1680", "\x1c", "\x0b", "\u200b"]


def random_line(generator):
    if generator.random() < 0.05:
        return generator.choice(["", " ", "\u3000 "])
    if generator.random() < 0.2:  # any characters but tabs and line feeds, which separate fields and lines, and surrogates
        ranges = [(0x20, 0x7F)] * 4 + [(0x0B, 0x300), (0x1680, 0x1681), (0x2000, 0x3001), (0x3000, 0xD800), (0xE000, 0x110000)]
        return "".join(chr(generator.randrange(*generator.choice(ranges))) for _ in range(generator.randrange(60)))
    count = generator.choice([1, 2, 3, 4, 5, 8, 12, 20, 40])
    return "".join(generator.choice(WORDS) + generator.choice(SPACES) for _ in range(count))


def changed(line, generator):
    """A hypothesis: the reference with some pieces replaced, dropped or moved."""
    if generator.random() < 0.1:
        return random_line(generator)
    pieces = line.split(" ")
    for _ in range(generator.randrange(len(pieces) + 1)):
        i = generator.randrange(len(pieces)) if pieces else 0
        pieces[i:i + 1] = generator.choice([[], [generator.choice(WORDS)], pieces[i:i + 1] * 2, [piece[::-1] for piece in pieces[i:i + 1]]])
    return " ".join(pieces)


def bleu_fields(bleu):
    return {"bleu": bleu.score, "brevity_penalty": bleu.bp, "precisions": bleu.precisions, "matches": bleu.counts, "totals": bleu.totals,
            "lengths": [bleu.sys_len, bleu.ref_len]}


def sacrebleu_scores(hypotheses, reference_sets):
    bleu, sentence_bleu = sacrebleu.BLEU(), sacrebleu.BLEU(effective_order=True)
    chrf = {"chrf": sacrebleu.CHRF(), "chrf++": sacrebleu.CHRF(word_order=2)}
    rows = [{**bleu_fields(sentence_bleu.sentence_score(hypothesis, references)),
             **{name: metric.sentence_score(hypothesis, references).score for name, metric in chrf.items()}}
            for hypothesis, *references in zip(hypotheses, *reference_sets)]
    rows.append({**bleu_fields(bleu.corpus_score(hypotheses, reference_sets)),
                 **{name: metric.corpus_score(hypotheses, reference_sets).score for name, metric in chrf.items()}})
    return rows


def compare(ours, theirs, lines):
    """(numbers that differ, numbers compared). repr() tells doubles apart by their bits."""
    different = compared = 0
    for i, (our, their) in enumerate(zip(ours, theirs, strict=True)):
        for name, value in their.items():
            compared += 1
            if repr(our[name]) != repr(value):
                different += 1
                print(f"{'corpus' if i == len(lines) else repr(lines[i])}\n  {name}: ours {our[name]!r}, sacreBLEU {value!r}")
    return different, compared


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ours", default=str(ROOT / "build/bench/score_text"))
    parser.add_argument("--pairs", type=int, default=1000)
    parser.add_argument("--references", type=int, default=1, help="of each hypothesis")
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    generator = random.Random(arguments.seed)
    first = [random_line(generator) for _ in range(arguments.pairs)]
    sets = [first] + [[changed(line, generator) for line in first] for _ in range(arguments.references - 1)]
    hypotheses = [changed(line, generator) for line in first]
    lines = ["\t".join(fields) for fields in zip(hypotheses, *sets)]
    done = subprocess.run([arguments.ours], input="".join(line + "\n" for line in lines).encode(), stdout=subprocess.PIPE, check=True)
    ours = [json.loads(line) for line in done.stdout.splitlines()]
    different, compared = compare(ours, sacrebleu_scores(hypotheses, sets), lines)
    print(f"sacreBLEU {sacrebleu.__version__}, Python {sys.version.split()[0]}: {arguments.pairs} pairs and their corpus, {arguments.references} "
          f"reference(s): {different} of {compared} numbers differ")
    print(f"corpus: BLEU {ours[-1]['bleu']:.6f}, chrF {ours[-1]['chrf']:.6f}, chrF++ {ours[-1]['chrf++']:.6f}")
    return 1 if different else 0


if __name__ == "__main__":
    sys.exit(main())
