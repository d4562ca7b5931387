"""examples/*.py run and say what they promise."""
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

EXAMPLES = pathlib.Path(os.environ["PHAZE_SOURCE"]) / "examples"


class Examples(unittest.TestCase):
    def run_example(self, name, *arguments, says):
        out = subprocess.run([sys.executable, str(EXAMPLES / name), *arguments], capture_output=True, text=True)
        self.assertEqual(out.returncode, 0, out.stderr)
        for text in says:
            self.assertIn(text, out.stdout)
        return out

    def test_choose_plan(self):
        self.run_example("choose_plan.py", says=["64 x h100 in my-cluster", "gap 0", "next best plan", "goodput"])

    def test_sweep_sequence(self):
        with tempfile.TemporaryDirectory() as folder:
            picture = pathlib.Path(folder) / "sequence.png"
            self.run_example("sweep_sequence.py", str(picture), says=["  2048 tokens: ", " 16384 tokens: "])
            try:
                import matplotlib  # noqa: F401
            except ImportError:
                print("skipped: matplotlib is not there, so no picture is drawn")
                return
            self.assertEqual(picture.read_bytes()[1:4], b"PNG")

    def test_search_space(self):
        with tempfile.TemporaryDirectory() as folder:
            out = self.run_example("search_space.py", folder + "/run",
                                   says=["of 72 chips are within", "common: ", "times the reference"])
            self.assertIn("front: ", out.stderr)

    def test_validate_runs(self):
        self.run_example("validate_runs.py", says=["mean error", "gpt22b_L3_b4_eager_none"])

    def test_tune_run(self):
        self.run_example("tune_run.py", says=["single change", "the best plan, ", "as a script of"])

    def test_calibrate_chip(self):
        self.run_example("calibrate_chip.py", says=["fitted to all", "on my-h200", "a tenth larger: step"])

    def test_tables(self):
        self.run_example("tables.py", says=["gpt22b_L3_b4_eager_none", "mean error", "gemm", "known 814", "published runs"])

    def test_pages(self):
        with tempfile.TemporaryDirectory() as folder:
            self.run_example("pages.py", folder, says=["weak scaling", "verified: True", "report: 8 chips"])
            for name in ("scaling", "plan", "report", "validation"):
                self.assertIn("<title>", (pathlib.Path(folder) / f"{name}.html").read_text())

    def test_schedules(self):
        self.run_example("schedules.py", says=["timeline of both passes", "exact: makespan 1604, proven optimal",
                                               "ilp: makespan 1604, proven optimal", "324 s per batch",
                                               "arithmetic mean of samples/s"])

    def test_all_are_run(self):
        names = {f"test_{p.stem}" for p in EXAMPLES.glob("*.py")}
        self.assertLessEqual(names, set(dir(self)))


if __name__ == "__main__":
    unittest.main()
