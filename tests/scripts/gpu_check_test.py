#!/usr/bin/env python3
"""The driver of scripts/gpu-check against stand-ins for every program that it runs: none needs a GPU."""
import concurrent.futures
import itertools
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tarfile
import tempfile
import time
import unittest

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
sys.path.insert(0, str(ROOT / "scripts" / "gpu_check"))

import main as driver  # noqa: E402
import report  # noqa: E402
import smoke  # noqa: E402
import tests as tests_section  # noqa: E402
from pip_folders import folder_of  # noqa: E402

SECTIONS = ["build", "smoke", "tests", "steps", "warpgroups", "kernels", "ladder", "epilogues", "cudnn", "sanitizer"]
PROGRAMS = ["nvidia-smi", "nvcc", "meson", "ninja", "compute-sanitizer", "python3"]
# What brings the files back from a machine that is lent for one command.
MOST_FILES, MOST_BYTES, COMMAND_S = 8, 16 << 20, 600
HANG_S = 600    # however busy the machine, a driver that ends takes less; a stand-in that hangs takes more


class Ran:
    def __init__(self, code, out):
        self.code, self.out = code, out
        self.markdown = (out / "gpu-check.md").read_text()
        answer = json.loads((out / "gpu-check.json").read_text())
        self.sections = {section["name"]: section for section in answer["sections"]}

    def verdicts(self):
        return {name: section["verdict"] for name, section in self.sections.items()}

    def logs(self):
        with tarfile.open(self.out / report.ARCHIVE) as archive:
            return {member.name: archive.extractfile(member).read().decode() for member in archive}


class Fixture(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        self.bin = self.folder / "toolkit" / "bin"
        self.bin.mkdir(parents=True)
        stand_in = self.bin / "stand_in"
        stand_in.write_text(f"#!{sys.executable} -IS\n" + (HERE / "gpu_check_stand_in.py").read_text())
        stand_in.chmod(0o755)
        self.numbers = itertools.count()

    def start(self, *options, built=True, without=(), **environment):
        """The process of a driver in a machine of stand-ins, and its folder of results. `built`: an earlier run built the programs."""
        home = self.folder / f"run{next(self.numbers)}"
        home.mkdir()
        tools = home / "bin"
        tools.mkdir()
        for name in PROGRAMS:
            if name not in without:
                (tools / name).symlink_to(self.bin / "stand_in")
        if built:
            subprocess.run([tools / "ninja", "-C", home / "build"], check=True)
        behaviour = {name: json.dumps(value) if name == "STAND_IN" else value for name, value in environment.items()}
        process = subprocess.Popen(
            [sys.executable, ROOT / "scripts/gpu_check/main.py", "--out", home / "out", "--build-dir", home / "build",
             "--prepared", home / "none", *options], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
            env={**os.environ, "PATH": str(tools), "STAND_IN_PIDS": str(home / "pids"), **behaviour})
        self.addCleanup(process.kill)
        return process, home

    def drive(self, *options, **setting):
        process, home = self.start(*options, **setting)
        _, errors = process.communicate(timeout=HANG_S)
        self.assertEqual(errors, "")
        return Ran(process.returncode, home / "out")

    def drive_patiently(self, is_so, seconds, *options, **setting):
        """The first run that is so, of ever longer ones, or the last one: on a busy machine a short one is over before it has come so far."""
        for factor in 1, 8, 64:
            ran = self.drive("--seconds", str(factor * seconds), *options, **setting)
            if is_so(ran):
                break
        return ran

    def drive_all(self, settings, drive=None):
        """One run of each (options, setting), several at a time: they wait rather than work."""
        with concurrent.futures.ThreadPoolExecutor(4) as pool:
            jobs = [pool.submit(drive or self.drive, *options, **setting) for options, setting in settings]
            return [job.result() for job in jobs]

    def assert_ended(self, home):
        """That nothing is left of the programs that hung."""
        pids = home / "pids"            # not there: on a busy machine the time can be over before the program has begun
        deadline = time.monotonic() + HANG_S / 10       # the kernel may still be busy with the end of one that was killed
        while left := [pid for pid in (pids.read_text().split() if pids.exists() else []) if self.runs(pid)]:
            if time.monotonic() > deadline:
                for pid in left:
                    os.kill(int(pid), signal.SIGKILL)
                self.fail(f"{left} still run")
            time.sleep(0.01)

    @staticmethod
    def runs(pid):
        try:
            return re.search(r"State:\s+(\w)", pathlib.Path(f"/proc/{pid}/status").read_text()).group(1) != "Z"
        except (FileNotFoundError, ProcessLookupError):
            return False


class Budgets(unittest.TestCase):
    def test_add_up_to_a_total_that_fits_one_command(self):
        self.assertEqual(sum(budget for _, budget, _ in driver.SECTIONS), driver.TOTAL_S)
        self.assertLessEqual(driver.TOTAL_S, COMMAND_S - 40)

    def test_put_first_what_is_most_worth_knowing(self):
        self.assertEqual([name for name, _, _ in driver.SECTIONS], SECTIONS)

    def test_are_those_of_the_documentation(self):
        text = (ROOT / "docs" / "performance.md").read_text()
        self.assertIn(f"at most {driver.TOTAL_S} s", text)
        for name, budget, _ in driver.SECTIONS:
            self.assertIn(f"| {name} | {budget} | ", text)

    def test_end_with_the_total_whatever_is_chosen_and_leave_each_section_its_own(self):
        for sections in (driver.SECTIONS, driver.SECTIONS[3:5], driver.SECTIONS[:1]):
            begin = 0
            for end, own in driver.ends_of(sections, 321).values():
                self.assertAlmostEqual(end - begin, own)
                begin = end
            self.assertAlmostEqual(begin, 321)


class WholeRun(Fixture):
    def test_passes_and_leaves_few_small_files(self):
        ran = self.drive(built=False)
        self.assertEqual(ran.code, 0, ran.markdown)
        self.assertEqual(list(ran.verdicts()), SECTIONS)
        files = [path for path in ran.out.rglob("*") if path.is_file()]
        self.assertEqual(sorted(path.name for path in files), ["gpu-check-logs.tar.gz", "gpu-check.json", "gpu-check.md"])
        self.assertLessEqual(len(files) + 1, MOST_FILES)        # and running.log, if it is ended on its way
        for path in files:
            self.assertLess(path.stat().st_size, MOST_BYTES)
            self.assertRegex(path.name, r"^[A-Za-z0-9._-]+$")
        self.assertEqual(sorted(ran.logs()), sorted(f"{name}.log" for name in SECTIONS))
        print(f"\nfiles: {len(files)}, archive: {(ran.out / report.ARCHIVE).stat().st_size} bytes", file=sys.stderr)

    def test_says_why_a_step_is_as_fast_as_it_is(self):
        ran = self.drive("--section", "steps")
        for row in ("| ours, alone, tuned | 32 | 70.0 |", "| block*.attention | 2 | 3.000 | 6.000 | 69.2 |",
                    "| norm and update | 1 |  | 2.000 | 15.4 |", "| small GPT, 8 micro-batches of one sample | 70.00 | 70.00 | 1.000 |"):
            self.assertIn(row, ran.markdown)
        log = ran.logs()["steps.log"]
        self.assertEqual(log.count("--tune quick"), 2)      # alone, and in turn with PyTorch
        commands = re.findall(r"^\$.*", log, re.MULTILINE)
        self.assertEqual(log.count("SLUICE_CACHE_DIR"), len(commands), "no step may read another run's choices")
        self.assertIn("bench/peers/run", commands[1], "what takes longest and is asked for comes before what explains")

    def test_shows_what_would_gain_where_it_is_not_the_default(self):
        ran = self.drive("--section", "warpgroups", "--section", "epilogues")
        self.assertEqual(ran.verdicts(), {"warpgroups": "passed", "epilogues": "passed"})
        for row in ("| attention/gpt2/backward | 100 | 100 | 1.00 |", "| step of GPT-2 124M, own attention | 70000 | 70000 | 1.00 |",
                    "| a layer | 120 | 110 | 1e-07 | True |", "| a layer | 120 | no such product |"):
            self.assertIn(row, ran.markdown)
        ran = self.drive("--section", "warpgroups", STAND_IN={"test_ops": {"/attention_": "wrong"}})
        self.assertEqual(ran.verdicts(), {"warpgroups": "failed"})
        ran = self.drive("--section", "warpgroups", STAND_IN_GPU="NVIDIA A100, 8.0, 580.1, 81920 MiB")
        self.assertEqual(ran.verdicts(), {"warpgroups": "skipped"})

    def test_compares_a_batch_of_which_the_gpu_holds_three(self):
        h100 = "NVIDIA H100 80GB HBM3, 9.0, 580.1"
        gpus = {"NVIDIA H200, 9.0, 580.1, 143771 MiB": (32, 436907), f"{h100}, 81559 MiB": (16, 218453), f"{h100}, [N/A]": (16, 218453)}
        for (batch, tokens), ran in zip(gpus.values(), self.drive_all([(("--section", "steps"), {"STAND_IN_GPU": gpu}) for gpu in gpus])):
            self.assertIn(f"| PyTorch eager, in turn | {batch} | 75.0 | {tokens} |", ran.markdown)
            self.assertIn("| ours, alone | 32 | 70.0 | 468114 |", ran.markdown)
            self.assertIn(f"--batch {batch} --json", ran.logs()["steps.log"])
            self.assertEqual(ran.sections["steps"]["data"]["batch_in_turn"], batch)

    def test_compares_with_pytorch_on_a_gpu_of_an_unknown_rate(self):
        ran = self.drive("--section", "steps", STAND_IN_GPU="NVIDIA X, 9.0, 580.1, 81559 MiB")
        self.assertEqual([bar["measured"] for bar in ran.sections["steps"]["bars"]], ["1.00 x"])

    def test_archive_stays_small_whatever_the_sections_print(self):
        with tempfile.TemporaryDirectory() as name:
            logs = pathlib.Path(name)
            for section in SECTIONS:
                (logs / f"{section}.log").write_bytes(b"begin" + os.urandom(3 << 20) + b"end")
            archive = report.archived(logs)
            self.assertLess(len(archive), MOST_BYTES)
            (logs / "archive").write_bytes(archive)
            with tarfile.open(logs / "archive") as tar:
                content = tar.extractfile("build.log").read()
        self.assertTrue(content.startswith(b"begin") and content.endswith(b"end"))
        self.assertIn(b"left out", content)


# (section, a program that goes wrong there)
IN_EACH = [("build", "ninja"), ("smoke", "step_bench"), ("tests", "test_parallel"), ("steps", "step_bench"), ("warpgroups", "op_bench"),
           ("kernels", "op_bench"), ("ladder", "ladder_bench"), ("epilogues", "epilogue_bench"), ("cudnn", "op_bench")]


class Crash(Fixture):
    def test_of_any_program_fails_its_section_with_the_signal(self):
        settings = [(("--section", section), {"STAND_IN": {program: "crash"}, "built": section != "build"}) for section, program in IN_EACH]
        for (section, program), ran in zip(IN_EACH, self.drive_all(settings)):
            with self.subTest(section=section):
                self.assertEqual((ran.code, ran.verdicts()[section]), (1, "failed"))
                self.assertIn("was ended by signal 11", ran.sections[section]["detail"])

    def test_of_one_section_stops_no_other(self):
        ran = self.drive(STAND_IN={"op_bench": "crash"})
        self.assertEqual(ran.code, 1)
        self.assertEqual(ran.verdicts(), {**dict.fromkeys(SECTIONS, "passed"), "smoke": "failed", "warpgroups": "failed",
                                          "kernels": "failed", "cudnn": "failed"})

    def test_of_a_compiler_is_told_by_its_first_error(self):
        ran = self.drive("--section", "build", built=False, STAND_IN={"ninja": "fail"})
        self.assertIn("ninja ended with 3: error: it went wrong", ran.sections["build"]["detail"])

    def test_of_the_sanitizer_says_that_it_does_not_work_here(self):
        ran = self.drive("--section", "sanitizer", STAND_IN={"compute-sanitizer": "crash"})
        self.assertEqual(ran.verdicts(), {"sanitizer": "skipped"})


class Hang(Fixture):
    def test_of_any_program_ends_with_its_process_group_within_the_sections_time(self):
        hangs = [*IN_EACH, ("sanitizer", "compute-sanitizer")]
        settings = [(("--section", section), {"STAND_IN": {program: "hang"}, "built": section != "build"}) for section, program in hangs]

        def drive(*options, **setting):
            return self.drive_patiently(lambda ran: "not run" not in ran.verdicts().values(), 1.5, *options, **setting)

        for (section, _), ran in zip(hangs, self.drive_all(settings, drive)):
            with self.subTest(section=section):
                self.assertEqual(ran.verdicts()[section], "skipped" if section == "sanitizer" else "failed")
                self.assertLess(ran.sections[section]["seconds"], HANG_S / 2)
                self.assert_ended(ran.out.parent)

    def test_leaves_the_later_sections_their_time(self):
        wanted = {"ladder": "failed", "sanitizer": "passed"}
        ran = self.drive_patiently(lambda ran: ran.verdicts() == wanted, 4.5, "--section", "ladder", "--section", "sanitizer",
                                   STAND_IN={"ladder_bench": "hang"})
        self.assertEqual(ran.verdicts(), wanted)

    @unittest.skipUnless(shutil.which("ninja"), "needs ninja")
    def test_of_a_build_ends_its_compilers_which_have_groups_of_their_own(self):
        (self.folder / "build.ninja").write_text("rule compile\n  command = echo $$$$ > pid; exec sleep 1000\nbuild object: compile\n")
        runner = driver.Runner(self.folder / "a.log", time.monotonic() + 2 * HANG_S, HANG_S, dict(os.environ))
        for seconds in 1, 8, 64:        # on a busy machine the time can be over before a compiler has begun
            outcome = runner.run(["ninja", "-C", self.folder], seconds)
            self.assertEqual(outcome.why, "ran past its time")
            if (self.folder / "pid").exists():
                break
        self.assertFalse(os.path.exists(f"/proc/{(self.folder / 'pid').read_text().strip()}"))

    def test_of_a_program_that_prints_for_ever_fills_no_disk(self):
        log = self.folder / "a.log"
        runner = driver.Runner(log, time.monotonic() + 60, 30, dict(os.environ))
        outcome = runner.run(["yes"])
        self.assertEqual(outcome.why, "printed more than 8 MiB")


class Missing(Fixture):
    def test_tools_skip_what_needs_them_with_the_cure(self):
        ran = self.drive("--section", "build", without=["meson"])
        self.assertIn("run scripts/gpu-check-prepare beforehand", ran.sections["build"]["detail"])
        ran = self.drive(without=["nvidia-smi"])
        self.assertEqual(set(ran.verdicts().values()), {"passed", "skipped"})
        self.assertIn("no GPU", ran.sections["steps"]["detail"])

    def test_programs_skip_what_needs_them(self):
        ran = self.drive("--section", "steps", "--section", "ladder", built=False)
        self.assertEqual(ran.verdicts(), {"steps": "skipped", "ladder": "skipped"})
        self.assertIn("bench/step_bench is not built", ran.sections["steps"]["detail"])

    def test_cudnn_is_said_with_the_cure_and_fails_nothing(self):
        why = "this machine has no usable libcudnn.so.9; install cuDNN 9"
        ran = self.drive("--section", "smoke", "--section", "cudnn", STAND_IN_CUDNN=why)
        self.assertEqual(ran.verdicts(), {"smoke": "passed", "cudnn": "skipped"})
        self.assertIn(f"cuDNN is missing: {why}", ran.sections["smoke"]["detail"])
        self.assertEqual(ran.sections["cudnn"]["detail"], why)

    def test_pytorch_costs_the_comparison_alone(self):
        ran = self.drive("--section", "steps", "--section", "kernels", STAND_IN={"run": "fail", "torch_kernels.py": "fail"})
        self.assertEqual(ran.verdicts(), {"steps": "failed", "kernels": "failed"})
        for row in ("| ours, alone | 32 | 70.0 |", "| adamw/gpt2/forward | 100 |", "| block*.attention |", "error: it went wrong"):
            self.assertIn(row, ran.markdown)

    def test_time_leaves_sections_that_say_so(self):
        ran = self.drive("--seconds", "0", built=False)
        self.assertEqual((ran.code, set(ran.verdicts().values())), (1, {"not run"}))


class Cases(Fixture):
    ALL, OF_OPS, OF_ONE_OP = 39, 30, 6

    def drive_tests(self, *options, wrong=None, drive=None, **environment):
        """(the section, its data, its log) where {part of names of cases of ops: how they go wrong}."""
        ran = (drive or self.drive)("--section", "tests", *options, STAND_IN={"test_ops": wrong or {}}, **environment)
        section = ran.sections["tests"]
        log = ran.logs()["tests.log"]
        self.assertNotRegex(log, "Skipped|listed below", "what a process leaves out hides the rest of the log")
        return section, section["data"], log, ran.markdown

    def processes(self, log):
        return [line for line in log.splitlines() if line.startswith("$") and "--gtest_fail_fast" in line]

    def order(self, log):
        return re.findall(r"^\[ RUN      \] (\S+)", log, re.MULTILINE)

    def test_run_in_one_process_of_each_program_and_those_of_nccl_last(self):
        section, data, log, _ = self.drive_tests()
        self.assertEqual((section["verdict"], data["passed"]), ("passed", self.ALL))
        self.assertEqual([re.search(r"test_\w+", line).group() for line in self.processes(log)],
                         ["test_parallel", "test_core", "test_training", "test_ops", "test_ops", "test_parallel"])
        order = self.order(log)
        self.assertTrue(order[0].startswith("CudaTraining.") and order[-1].startswith("CudaNccl."))

    def test_show_values_and_gradients_of_all_ops_before_the_rest(self):
        _, _, log, _ = self.drive_tests()
        order = [case for case in self.order(log) if case.startswith("Ops/")]
        self.assertEqual(order, sorted(order, key=lambda case: "RefusesBadInput" in case))
        self.assertEqual((sum("RefusesBadInput" in case for case in order), len(order)), (10, self.OF_OPS))
        _, data, _, _ = self.drive_tests("--quick")
        self.assertEqual(data["passed"], self.ALL - 10)

    def test_may_have_more_names_than_one_argument_holds(self):
        _, data, log, _ = self.drive_tests(STAND_IN_OPS="600")
        self.assertEqual(data["passed"], self.ALL + 600 * self.OF_ONE_OP)
        self.assertEqual(len(self.processes(log)), 6)
        self.assertLess(max(len(line) for line in log.splitlines()), 1000)

    def test_that_spoil_their_process_fail_alone(self):
        for how in ("wrong", "fault", "crash"):
            section, data, log, _ = self.drive_tests(wrong={"/softmax_": how})
            with self.subTest(how=how):
                self.assertEqual(section["verdict"], "failed")
                self.assertEqual((data["passed"], data["failed"]), (self.ALL - self.OF_ONE_OP, self.OF_ONE_OP))
                self.assertTrue(all("/softmax_" in name for name in data["failures"]))
                self.assertEqual(data["skipped"] + len(data["not_run"]), 0)

    def test_of_an_op_that_has_failed_wait_for_all_others(self):
        _, data, log, _ = self.drive_tests(wrong={"/add_": "wrong"})
        order = self.order(log)
        after_nccl = order[next(place for place, case in enumerate(order) if case.startswith("CudaNccl.")) + 1:]
        self.assertEqual((len(after_nccl), data["failed"]), (self.OF_ONE_OP - 1, self.OF_ONE_OP))
        self.assertTrue(all("/add_" in case for case in after_nccl))

    def test_that_fail_run_again_alone_with_a_wait_for_every_kernel_the_first_of_each_op(self):
        _, data, log, markdown = self.drive_tests(wrong={"/softmax_": "fault", "/matmul_": "crash"})
        rows = [line for line in markdown.splitlines() if "| Ops/" in line]
        self.assertEqual(len(rows), 2)
        softmax, matmul = sorted(rows, reverse=True)
        self.assertIn("| softmax | Ops/OpTest.ComputesTheReferenceInEveryDtype/softmax_small_on_cuda | failed |", softmax)
        self.assertIn("kernel softmax_rows failed: an illegal memory access", softmax)
        self.assertIn("| matmul | Ops/OpTest.ComputesTheReferenceInEveryDtype/matmul_small_on_cuda | failed |", matmul)
        self.assertIn("the program was ended by signal 11", matmul)
        self.assertEqual(log.count("$ SLUICE_SYNC=1 "), 2)
        self.assertEqual(data["failed"], 2 * self.OF_ONE_OP)
        self.assertRegex(log[log.index("# failed: "):], "# failed: .*matmul_small(.|\n)*# failed: .*softmax_small")

    def test_that_hang_cost_the_others_little(self):
        hanging = "HasTheGradientOfTheCpu/add_odd_on_cuda"

        def drive(*options, **setting):
            ran = self.drive_patiently(lambda ran: ran.sections["tests"]["data"].get("passed") == self.ALL - 1, 30, *options, **setting)
            self.assert_ended(ran.out.parent)
            return ran

        section, data, log, _ = self.drive_tests(wrong={hanging: "hang"}, drive=drive)
        self.assertEqual((data["passed"], data["failures"]), (self.ALL - 1, [f"Ops/OpTest.{hanging}"]))
        self.assertRegex(section["detail"], rf"ops: Ops/OpTest.{hanging}: the program said nothing for \d+ s")

    def test_go_on_in_another_process_where_one_quits(self):
        section, data, log, _ = self.drive_tests(wrong={"/matmul_small": "quit"})
        self.assertEqual((section["verdict"], data["passed"]), ("passed", self.ALL))
        self.assertEqual(len(self.processes(log)), 6 + 3)

    def test_of_a_program_that_begins_none_cost_no_other(self):
        ran = self.drive("--section", "tests", STAND_IN={"test_core": "crash"})
        section = ran.sections["tests"]
        self.assertEqual((section["verdict"], section["data"]["passed"]), ("failed", self.ALL - 3))
        self.assertIn("core: test_core lists no case and was ended by signal 11", section["detail"])

    def test_that_have_no_time_are_counted(self):
        ops = 600       # whose cases take a tenth of a second each, and none of the runs has time for them

        def drive(*options, **setting):
            return self.drive_patiently(lambda ran: ran.sections["tests"]["data"].get("passed"), 3, *options, **setting)

        section, data, _, _ = self.drive_tests(wrong={"_on_cuda": "slow"}, drive=drive, STAND_IN_OPS=str(ops))
        self.assertEqual(section["verdict"], "failed")
        self.assertRegex(section["detail"], r"out of time.*, not run: \d+ cases \(.*rest of ops \d+, nccl 1\)")
        self.assertEqual((data["failed"], data["passed"] + sum(data["not_run"].values())), (0, self.ALL + ops * self.OF_ONE_OP))

    def test_count_the_case_in_which_a_program_ended_as_failed(self):
        cases, begun = tests_section.cases_of("[ RUN      ] A.b\n[       OK ] A.b (1 ms)\n[ RUN      ] A.c\n[  SKIPPED ] A.c (0 ms)\n"
                                              "[ RUN      ] A.d\n[  FAILED  ] A.d, where GetParam() = x (3 ms)\n[ RUN      ] A.e\nkilled")
        self.assertEqual(cases, {"A.b": "passed", "A.c": "skipped", "A.d": "failed"})
        self.assertEqual(begun, "A.e")


class Names(unittest.TestCase):
    def test_of_tests_that_sections_ask_for_are_those_of_the_sources(self):
        files = ("ops/op_test.cpp", "parallel/cuda_test.cpp", "core/cuda_device_test.cpp", "core/cuda_graph_test.cpp")
        text = "".join((ROOT / "tests" / file).read_text() for file in files)
        names = [f"OpTest, {name})" for name in tests_section.FIRST]
        names += [f"CudaTraining, {name})" for name in tests_section.SHOWN_BY.values()]
        patterns = ":".join(pattern for _, program, pattern in smoke.TESTS if program == "tests/test_core")
        for name in [*names, *(pattern.rstrip("*") + "," for pattern in patterns.split(":"))]:
            self.assertIn(name, text)


class EndedDriver(Fixture):
    def ended(self, sign):
        process, home = self.start("--section", "ladder", "--section", "tests", "--section", "kernels", STAND_IN={"op_bench": "hang"})
        deadline = time.monotonic() + HANG_S
        while not (home / "pids").exists() and time.monotonic() < deadline:
            time.sleep(0.02)
        process.send_signal(sign)
        process.communicate(timeout=HANG_S)
        ran = Ran(process.returncode, home / "out")
        self.assertEqual(ran.verdicts(), {"tests": "passed", "kernels": "not run", "ladder": "not run"})
        self.assertIn("in progress", ran.sections["kernels"]["detail"])
        self.assertEqual(list(ran.logs()), ["tests.log"])
        self.assertIn("op_bench", (home / "out" / "running.log").read_text())
        self.assertLessEqual(len(list((home / "out").iterdir())), MOST_FILES)
        return home

    def test_leaves_the_report_and_the_logs_of_what_was_done(self):
        home = self.ended(signal.SIGKILL)
        for pid in (home / "pids").read_text().split():
            os.kill(int(pid), signal.SIGKILL)

    def test_ends_what_it_runs_when_it_is_asked_to_end(self):
        self.assert_ended(self.ended(signal.SIGTERM))


class Packages(unittest.TestCase):
    def test_of_pip_are_found_in_any_folder_of_the_path(self):
        with tempfile.TemporaryDirectory() as name:
            first, second = pathlib.Path(name, "first"), pathlib.Path(name, "second")
            for file in ("nvidia/cudnn/include/cudnn_graph.h", "nvidia/cudnn/lib/libcudnn.so.9", "nvidia/cu13/lib/libnvrtc.so.13"):
                (second / file).parent.mkdir(parents=True, exist_ok=True)
                (second / file).touch()
            places = [str(first), str(second)]
            self.assertEqual(folder_of("nvidia/cudnn/include/cudnn_graph.h", places), str(second / "nvidia/cudnn/include"))
            self.assertEqual(folder_of("nvidia/*/lib/libnvrtc.so.13", places), str(second / "nvidia/cu13/lib"))
            self.assertEqual(folder_of("nvidia/*/lib/libnvrtc.so.12", places), "")
            asked = subprocess.run([sys.executable, ROOT / "scripts/pip_folders.py", "nvidia/cudnn/lib/libcudnn.so.9", "nvidia/no/such"],
                                   env={**os.environ, "PYTHONPATH": str(second)}, stdout=subprocess.PIPE, text=True, check=True)
            self.assertEqual(asked.stdout.split("\n")[:2], [str(second / "nvidia/cudnn/lib"), ""])


if __name__ == "__main__":
    unittest.main()
