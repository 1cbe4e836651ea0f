#!/usr/bin/env python3
"""That bench/loss_curves.py draws the points of its logs and says what is wrong with others."""
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

SCRIPT = pathlib.Path(__file__).resolve().parent.parent.parent / "bench" / "loss_curves.py"


class LossCurves(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def log(self, name, *losses):
        lines = [f"validation after step {100 * (i + 1)}: loss {loss}, perplexity 1" for i, loss in enumerate(losses)]
        (self.folder / name).write_text("step 1/300 | loss 9.5 | norm 1\n" + "\n".join(lines) + "\n")
        return self.folder / name

    def draw(self, *runs):
        out = self.folder / "out.svg"
        done = subprocess.run([sys.executable, SCRIPT, out, *runs], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        return done, out.read_text() if out.exists() else ""

    def lines(self, page):
        return [[tuple(map(float, point.split(","))) for point in line.split()] for line in re.findall(r'points="(.*?)"', page)]

    def test_draws_each_run_until_its_loss_is_no_number(self):
        done, page = self.draw(f"a < b={self.log('a', 4, 3, 2)}", f"other={self.log('b', 4, 3.5, 'nan', 2)}")
        self.assertEqual(done.returncode, 0, done.stdout)
        whole, ended = self.lines(page)
        self.assertEqual((len(whole), len(ended)), (3, 2))
        self.assertEqual(whole[0], ended[0])
        self.assertLess(whole[0][1], ended[1][1])           # a smaller loss stands lower, and y grows downwards
        self.assertAlmostEqual(whole[1][1] - whole[0][1], whole[2][1] - whole[1][1], delta=0.2)
        self.assertIn("a &lt; b</text>", page)

    def test_draws_losses_that_are_all_alike(self):
        done, page = self.draw(f"flat={self.log('a', 2, 2)}")
        self.assertEqual(done.returncode, 0, done.stdout)
        self.assertNotIn("nan", page)

    def test_says_what_it_needs(self):
        for run, words in ((str(self.folder / "a"), "needs NAME=LOG"), (f"a={self.folder / 'none'}", "No such file"),
                           (f"a={self.log('short', 2)}", "needs two lines"), (f"a={self.log('bad', 'nan', 2, 1)}", "found 0")):
            done, page = self.draw(run)
            self.assertNotEqual(done.returncode, 0)
            self.assertIn(words, done.stdout)
            self.assertNotIn("Traceback", done.stdout)
            self.assertEqual(page, "")


if __name__ == "__main__":
    unittest.main()
