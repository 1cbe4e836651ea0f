#!/usr/bin/env python3
"""Draws the validation losses of several runs into one SVG, from what `sluice train` printed (`train.evaluate_every`).

usage: bench/loss_curves.py OUT.svg NAME=LOG...
A run ends where its loss is no longer a number.
"""
import argparse
import html
import itertools
import math
import pathlib
import re
import sys

COLOURS = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00"]      # told apart by all eyes (Okabe and Ito)
WIDTH, HEIGHT, LEFT, BOTTOM, TOP, RIGHT = 640, 320, 48, 40, 16, 16


def losses(path):
    """[(step, loss)]"""
    try:
        text = pathlib.Path(path).read_text()
    except OSError as error:
        sys.exit(f"loss_curves: needs a log to read, got {path}: {error.strerror}")
    found = [(int(step), float(loss)) for step, loss in re.findall(r"^validation after step (\d+): loss ([^,\s]+)", text, re.MULTILINE)]
    points = list(itertools.takewhile(lambda point: math.isfinite(point[1]), found))
    if len(points) < 2:
        sys.exit(f"loss_curves: needs two lines 'validation after step N: loss X' in {path}, found {len(points)} that are numbers; "
                 "give what sluice train printed, with train.evaluate_every")
    return points


def drawing(runs):
    """`runs`  {name: [(step, loss)]}"""
    points = [point for run in runs.values() for point in run]
    last = max(step for step, _ in points)
    lowest = math.floor(min(loss for _, loss in points))
    highest = max(lowest + 1, math.ceil(max(loss for _, loss in points)))

    def x(step):
        return LEFT + step / last * (WIDTH - LEFT - RIGHT)

    def y(loss):
        return TOP + (highest - loss) / (highest - lowest) * (HEIGHT - TOP - BOTTOM)

    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif" font-size="12">',
             f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>']
    for loss in range(lowest, highest + 1):
        parts.append(f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y(loss):.1f}" y2="{y(loss):.1f}" stroke="#ddd"/>'
                     f'<text x="{LEFT - 8}" y="{y(loss) + 4:.1f}" text-anchor="end">{loss}</text>')
    for quarter in range(5):
        step = last * quarter // 4
        parts.append(f'<text x="{x(step):.1f}" y="{HEIGHT - BOTTOM + 18}" text-anchor="middle">{step}</text>')
    parts.append(f'<text x="{WIDTH / 2:.0f}" y="{HEIGHT - 6}" text-anchor="middle">step</text>'
                 f'<text x="14" y="{HEIGHT / 2:.0f}" text-anchor="middle" transform="rotate(-90 14 {HEIGHT / 2:.0f})">validation loss</text>')
    for number, (name, run) in enumerate(runs.items()):
        colour = COLOURS[number % len(COLOURS)]
        line = " ".join(f"{x(step):.1f},{y(loss):.1f}" for step, loss in run)
        parts.append(f'<polyline points="{line}" fill="none" stroke="{colour}" stroke-width="2"/>'
                     f'<text x="{WIDTH - RIGHT - 8}" y="{TOP + 16 + 16 * number}" text-anchor="end" '
                     f'fill="{colour}">{html.escape(name)}</text>')
    return "\n".join(parts) + "\n</svg>\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("runs", nargs="+", metavar="NAME=LOG")
    arguments = parser.parse_args()
    if bad := [run for run in arguments.runs if "=" not in run]:
        parser.error(f"needs NAME=LOG, got {bad[0]}")
    runs = {name: losses(log) for name, _, log in (run.partition("=") for run in arguments.runs)}
    arguments.out.write_text(drawing(runs))


if __name__ == "__main__":
    main()
