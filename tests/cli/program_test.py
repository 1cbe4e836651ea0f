#!/usr/bin/env python3
"""Runs the built program as a user would: good and bad input, exit codes, plans, one answer for every pipeline.

usage: program_test.py PROGRAM [unittest arguments]
"""
import json
import pathlib
import re
import signal
import subprocess
import unittest

from program import HANG_S, PROGRAM, ProgramTest, patience, processor_seconds, sets, sluice


class BadInput(ProgramTest):
    def test_unknown_key_names_the_nearest(self):
        self.refuse(2, "train.step", "train.steps", arguments=self.tiny("--set", "train.step=3"))

    def test_a_program_without_its_configs_says_where_it_looked(self):
        configs = pathlib.Path(__file__).resolve().parents[2] / "models" / "configs"
        hidden = ["unshare", "-rm", "sh", "-c", f"mount -t tmpfs none '{configs}' && exec \"$@\"", "sh"]
        if subprocess.run([*hidden, "true"], capture_output=True).returncode != 0:
            self.skipTest("no folders can be hidden here")
        done = subprocess.run([*hidden, PROGRAM, "inspect", "tiny"], capture_output=True, text=True, timeout=patience(60))
        self.assertEqual(done.returncode, 2, done.stderr)
        for words in ("tiny: needs a config file or the name of one", "no configs are in", f'"{configs}"', "give a file with its path"):
            self.assertIn(words, done.stderr)

    def test_replicas_that_do_not_fit(self):
        four = dict(pipeline__devices='"4x cpu"', pipeline__micro_batches=4)
        self.refuse(2, "pipeline.replicas", "each of the 3 replicas, got 4", arguments=self.tiny(pipeline__replicas=3, **four))
        self.refuse(2, "pipeline.replicas", "got 3 in all", "set 2 or 4", arguments=self.tiny(pipeline__replicas=2, pipeline__fold_blocks=3, **four))
        self.refuse(2, "pipeline.micro_batches", "each of the 2 replicas, got 1",
                    arguments=self.tiny(pipeline__devices='"2x cpu"', pipeline__replicas=2, pipeline__micro_batches=1))
        self.refuse(2, "pipeline.replan", "pipeline.replicas = 1", arguments=self.tiny(pipeline__replicas=2, pipeline__replan="true", **four))

    def test_a_training_chooses_its_replicas(self):
        keys = dict(pipeline__devices='"4x cpu"', pipeline__micro_batches=4, pipeline__replicas='"auto"', train__steps=2)
        done = sluice("train", "tiny", "--json", "-", *sets(output__dir=self.folder / "run", **keys))
        self.assertRegex(done.stderr, r"(replicas of|one pipeline of) \d device")
        hashes = json.loads(done.stdout)["weights_hash"]
        resumed = self.train("--resume", "auto", **{**keys, "train__steps": 2})
        self.assertEqual(resumed["weights_hash"], hashes)

    def test_fold_blocks_of_the_checkpoint_win(self):
        keys = dict(pipeline__devices='"2x cpu"', pipeline__micro_batches=4, pipeline__replicas=2)
        whole = self.train(train__steps=4, pipeline__fold_blocks=4, **keys)
        self.train(train__steps=2, pipeline__fold_blocks=4, out="parts", **keys)
        done = sluice(*self.tiny("--resume", "auto", "--json", self.folder / "j.json", output__dir=self.folder / "parts", train__steps=4,
                                 pipeline__fold_blocks=2, **keys))
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("pipeline.fold_blocks: the checkpoint was trained with 4", done.stderr)
        self.assertEqual(json.loads((self.folder / "j.json").read_text())["weights_hash"], whole["weights_hash"])
        evaluated = [sluice("eval", self.folder / "parts", "--json", "-", *sets(**devices)) for devices in (dict(), dict(pipeline__devices='"1x cpu"'))]
        self.assertEqual([done.returncode for done in evaluated], [0, 0], evaluated[1].stderr)
        self.assertEqual(*[json.loads(done.stdout)["loss"]["validation"] for done in evaluated])
        self.refuse(2, "pipeline.replicas", "got 1 in all", arguments=self.tiny("--resume", self.one_block(), output__dir=self.folder / "run", **keys))

    def test_micro_batches_that_were_chosen_are_kept(self):
        devices = dict(pipeline__devices='"2x cpu"', train__batch=16)
        self.train(train__steps=2, pipeline__micro_batches=2, out="parts", **devices)
        whole = self.train(train__steps=4, pipeline__micro_batches=2, **devices)
        chosen = json.loads(sluice("plan", "tiny", "--json", "-", *sets(pipeline__micro_batches='"auto"', **devices)).stdout)
        self.assertNotEqual(chosen["micro_batches"], 2, "the test needs a plan that is another one by itself")
        resumed = self.train("--resume", self.folder / "parts", train__steps=4, pipeline__micro_batches='"auto"', out="on", **devices)
        self.assertEqual(resumed["weights_hash"], whole["weights_hash"])
        other = sluice(*self.tiny("--resume", self.folder / "parts", output__dir=self.folder / "other", train__steps=4, pipeline__micro_batches=8, **devices))
        self.assertEqual(other.returncode, 0, other.stderr)
        self.assertIn("pipeline.micro_batches: the checkpoint was trained with 2, now it is 8", other.stderr)

    def one_block(self):
        """A checkpoint of a training without replicas."""
        self.train(train__steps=2, out="plain")
        return self.folder / "plain"

    def test_more_fold_blocks_than_samples(self):
        self.refuse(2, "pipeline.fold_blocks", "at most the 8 samples", "got 1024", arguments=self.tiny(train__batch=8, pipeline__fold_blocks=1024))

    def test_more_devices_than_there_can_be(self):
        self.refuse(2, "65536x meta", "needs numbers up to 65535", arguments=["plan", "tiny", *sets(pipeline__devices='"65536x meta"')])

    def test_unknown_command_and_flag_name_the_nearest(self):
        self.refuse(2, "'train'", arguments=["trian", "tiny"])
        self.refuse(2, "'--resume'", arguments=["train", "tiny", "--resum", "auto"])

    def test_wrong_type_names_file_and_line(self):
        config = self.write("bad.toml", "[train]\nsteps = 3\nbatch = \"eight\"\n")
        self.refuse(2, f"{config}:3", "train.batch", "integer", "eight", arguments=["train", config])

    def test_missing_files(self):
        self.refuse(2, "nothing.toml", arguments=["train", "nothing.toml"])
        self.refuse(3, "/nothing/here", arguments=self.tiny(data__kind="text", data__path="/nothing/here", model__vocab=256))
        self.refuse(3, "/nothing/here", arguments=["eval", "/nothing/here"])

    def test_empty_corpus_and_invalid_utf8(self):
        for name, content in ("empty.txt", b""), ("latin1.txt", b"caf\xe9 " * 1000):
            self.refuse(3, name, arguments=self.tiny(data__kind="text", data__path=self.write(name, content), model__vocab=256))

    def test_sizes_of_zero_or_less(self):
        for key in "train__steps", "train__batch", "model__layers", "model__dim", "model__heads", "pipeline__micro_batches":
            for value in 0, -1:
                self.refuse(2, key.replace("__", "."), arguments=self.tiny(**{key: value}))

    def test_heads_that_do_not_divide_and_more_micro_batches_than_samples(self):
        self.refuse(2, "heads", arguments=self.tiny(model__heads=5))
        self.refuse(2, "9", "8", arguments=self.tiny(pipeline__micro_batches=9))

    def test_more_stages_than_nodes(self):
        devices = ",".join(f"cpu:{i}" for i in range(40))
        self.refuse(2, "40", "nodes", arguments=self.tiny(pipeline__devices=devices))

    def test_partition_that_does_not_fit(self):
        self.refuse(2, "partition", arguments=self.tiny(pipeline__devices="cpu:0,cpu:1", pipeline__partition="[3, 4, 5]"))

    def test_budget_too_small_names_device_node_and_bytes(self):
        line = self.refuse(4, "cpu:0", "node", arguments=self.tiny(pipeline__memory="300KiB"))
        self.assertRegex(line, r"asked for \d+ bytes with \d+ live and a budget of 307200")

    def test_what_is_not_in_this_version_says_so(self):
        self.refuse(2, "1f1b", arguments=self.tiny(pipeline__virtual_stages=2))

    def test_data_of_another_kind_than_the_model(self):
        self.refuse(2, "data.kind", "transformer-lm needs text or synthetic, got images", arguments=self.tiny(data__kind="images"))
        self.refuse(2, "data.kind", "amoebanet-d needs idx or cifar", "got text", arguments=self.tiny(model__name="amoebanet-d", data__kind="text"))

    def test_precision_that_is_none_or_rounds_nothing(self):
        self.refuse(2, "train.precision", "f32, tf32, bf16", "did you mean 'bf16'", arguments=self.tiny(train__precision="bf61"))
        self.refuse(2, "train.stochastic_rounding", "bf16", arguments=self.tiny(train__stochastic_rounding="true"))

    def test_cuda_graphs_take_three_words(self):
        self.refuse(2, "pipeline.cuda_graphs", "off, on, auto", arguments=self.tiny(pipeline__cuda_graphs="sometimes"))

    def test_tuning_takes_three_words(self):
        self.refuse(2, "pipeline.tune", "off, quick, full", arguments=self.tiny(pipeline__tune="a little"))

    def test_output_folder_that_cannot_be_written(self):
        below_a_file = self.write("file", "x") / "run"
        self.refuse(4, below_a_file, arguments=self.tiny(output__dir=below_a_file))

    def test_json_to_a_full_disk(self):
        self.refuse(4, "/dev/full", arguments=self.tiny("--json", "/dev/full", train__steps=1))

    def test_two_trainings_do_not_write_one_folder(self):
        (self.folder / "run").mkdir()
        with open(self.folder / "run" / "lock", "w") as lock:
            import fcntl
            fcntl.flock(lock, fcntl.LOCK_EX)
            self.refuse(4, "another training", arguments=self.tiny())


class Texts(ProgramTest):
    def test_a_flag_of_another_command_is_told_so(self):
        self.assertTrue(self.refuse(2, arguments=["inspect", "tiny", "--print-config"]).endswith("that is a flag of train, plan"))
        self.refuse(2, "did you mean '--print-config'", arguments=["plan", "tiny", "--print-confg"])
        self.assertNotIn("did you mean", self.refuse(2, "not expected: plan", arguments=["inspect", "tiny", "plan"]))

    def test_a_flag_that_is_a_key_is_told_so(self):
        self.refuse(2, "did you mean '--set train.steps=...'?", arguments=["train", "tiny", "--steps", "5"])
        self.refuse(2, "did you mean '--set train.batch=...'?", arguments=["train", "tiny", "--train.batch=5"])
        self.refuse(2, "'--set model.name=...' or", arguments=["train", "tiny", "--name", "resnet50"])
        self.assertNotIn("--set train", self.refuse(2, "not expected", arguments=["devices", "--batch", "3"]))

    def test_a_folder_in_place_of_a_config(self):
        self.refuse(2, "got a folder", "--resume", arguments=["train", self.folder])

    def test_help_of_every_command_has_the_exit_codes(self):
        for command in ("train", "eval", "generate", "translate", "plan", "inspect", "devices"):
            self.assertEqual(sluice(command, "--help").stdout.count("Exit codes:"), 1, command)

    def test_one_stage_a_device_is_not_interleaved(self):
        keys = dict(pipeline__devices="cpu:0,cpu:1", pipeline__schedule="interleaved", train__steps=1)
        for command in (["plan", "tiny", *sets(**keys)], self.tiny(**keys)):
            done = sluice(*command)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertEqual(done.stderr.count("note: pipeline.schedule: interleaved with one stage a device is 1f1b"), 1)
        self.assertNotIn("note", sluice("plan", "tiny", *sets(**keys, pipeline__virtual_stages=2)).stderr)

    def test_help_lists_every_key_of_the_printed_config(self):
        config = sluice("train", "tiny", "--print-config").stdout
        for command in "train", "plan":
            help_text = sluice(command, "--help").stdout
            for key in re.findall(r"^(\w+) = ", config, re.M):
                self.assertRegex(help_text, rf"(?m)^  {key} ")

    def test_printed_config_reads_back(self):
        first = sluice("train", "tiny", "--print-config", *sets(train__steps=7, pipeline__memory="1GiB")).stdout
        again = sluice("train", self.write("printed.toml", first), "--print-config").stdout
        self.assertEqual(first, again)

    def test_man_page_and_completions(self):
        self.assertIn(".TH SLUICE", sluice("--man").stdout)
        script = self.write("completion.bash", sluice("--completion", "bash").stdout)
        self.assertEqual(subprocess.run(["bash", "-n", script]).returncode, 0)

    def test_a_plan_says_what_its_step_is_counted_by(self):
        self.assertIn("s at the devices' full speed", sluice("plan", "tiny").stdout)
        self.assertIn("s by measured times", sluice("plan", "tiny", "--profile").stdout)

    def test_generate_refuses_its_choice_before_it_prints(self):
        text = self.write("a.txt", "the quick brown fox jumps over the lazy dog\n" * 200)
        self.train(data__kind="text", data__tokenizer="bytes", model__vocab=256, data__path=text, train__steps=1)
        done = sluice("generate", self.folder / "run", "--prompt", "the", "--top-p", "0")
        self.assertEqual((done.returncode, done.stdout), (2, ""))
        self.assertIn("--top-p: needs a number above 0", done.stderr)

    def test_devices(self):
        done = sluice("devices", "--json", "-")
        self.assertGreater(json.loads(done.stdout)["cpu"]["gflops"], 0)


class Plans(ProgramTest):
    def test_plan_and_inspect_have_the_promised_names(self):
        svg = self.folder / "plan.svg"
        plan = json.loads(sluice("plan", "tiny", "--json", "-", "--svg", svg, "--set", "pipeline.devices=2x meta").stdout)
        for key in "parameters nodes fits reason partition micro_batches schedule remat step_seconds bubble devices".split():
            self.assertIn(key, plan)
        for key in "name parameter_bytes gradient_bytes optimizer_bytes activation_peak_bytes peak_bytes budget_bytes".split():
            self.assertIn(key, plan["devices"][0])
        self.assertEqual(sum(plan["partition"]), len(plan["nodes"]))
        self.assertIn("<svg", svg.read_text())
        page = self.folder / "plan.html"
        sluice("plan", "tiny", "--html", page, "--set", "pipeline.devices=2x a100", "--set", "pipeline.link=wan")
        self.assertEqual(page.read_text().count("<svg"), 1)
        self.assertIn("a100:1", page.read_text())
        inspected = json.loads(sluice("inspect", "tiny", "--json", "-").stdout)
        self.assertEqual(inspected["parameters"], sum(node["parameters"] for node in inspected["nodes"]))

    def test_the_number_of_replicas_is_chosen(self):
        plan = self.folder / "plan.json"
        said = sluice("plan", "tiny", "--json", plan, "--set", "pipeline.devices=8x h100", "--set", "pipeline.replicas=auto",
                      "--set", "pipeline.micro_batches=8", "--set", "train.batch=8", "--set", "pipeline.host_devices=4",
                      "--set", "pipeline.host_link=ethernet-10g").stdout
        trials = json.loads(plan.read_text())["replica_trials"]
        self.assertEqual([(t["replicas"], t["replica_devices"]) for t in trials],
                         [(1, "together"), (2, "together"), (2, "apart"), (4, "together"), (4, "apart"), (8, "together")])
        fastest = min((t for t in trials if not t["is_bound"]), key=lambda t: t["step_seconds"])
        self.assertEqual(fastest["replicas"], json.loads(plan.read_text())["replicas"])
        self.assertTrue(all(t["step_seconds"] >= fastest["step_seconds"] for t in trials), trials)
        self.assertIn("replicas", said)

    def test_layouts_are_compared(self):
        answer = self.folder / "compare.json"
        said = sluice("plan", "tiny", "--compare", "--json", answer, "--set", "pipeline.devices=4x h100", "--set", "pipeline.micro_batches=8",
                      "--set", "train.batch=8").stdout
        comparisons = json.loads(answer.read_text())["comparisons"]
        self.assertEqual([c["link"] for c in comparisons], ["nvlink", "pcie-5", "infiniband-ndr", "ethernet-10g"])
        for comparison in comparisons:
            layouts = {layout["name"]: layout for layout in comparison["layouts"]}
            self.assertEqual(list(layouts), ["pipeline", "data", "sharded", "mixed"])
            self.assertLess(layouts["pipeline"]["sent_bytes"], layouts["sharded"]["sent_bytes"])
            self.assertIn(comparison["link"], said)
        slow, fast = (c["layouts"][1]["plan"]["step_seconds"] for c in (comparisons[3], comparisons[0]))
        self.assertGreater(slow, fast)
        few = sluice("plan", "tiny", "--compare", "--set", "pipeline.devices=4x h100", "--set", "pipeline.micro_batches=2").stdout
        self.assertIn("pipeline.micro_batches: needs at least one for each of the 4 replicas, got 2", few)
        none = sluice("plan", "tiny", "--compare", "--set", "pipeline.devices=2x meta", "--set", "pipeline.link=wan", "--set",
                      "pipeline.micro_batches=2", "--set", "pipeline.memory=64KiB")
        self.assertEqual((none.returncode, none.stdout.count("raise pipeline.memory")), (4, 3), none.stdout)
        self.refuse(2, "--compare", "--svg", arguments=("plan", "tiny", "--compare", "--svg", self.folder / "plan.svg"))
        self.write("[a].toml", "[link]\nname = 'own'\nbytes_per_second = 1e9\nlatency_seconds = 1e-6\n")
        named = sluice("plan", "tiny", "--compare", *sets(pipeline__devices="4x h100", pipeline__link='"[a].toml"'), cwd=self.folder)
        self.assertEqual((named.returncode, named.stdout.splitlines()[:1]), (0, ["[a].toml"]), named.stderr)

    def test_kernels_of_a_step_are_counted_and_measured(self):
        answers = {}
        for device in ("meta:0", "cpu:0"):
            said = sluice("plan", "tiny", "--kernels", device, "--json", self.folder / "kernels.json").stdout
            self.assertIn(f"on {device}", said)
            answers[device] = json.loads((self.folder / "kernels.json").read_text())
            moved = sum(k["bytes_read"] + k["bytes_written"] for k in answers[device]["kernels"])
            self.assertIn(f"{moved / answers[device]['least_bytes']:.2f} times what actions take", said.splitlines()[-1])
            self.assertLessEqual(sum(k["seconds"] for k in answers[device]["kernels"]), 1.000001 * answers[device]["step_seconds"])
        counted, measured = ({k["kernel"]: (k["calls"], round(k["flops"])) for k in answers[device]["kernels"]} for device in ("meta:0", "cpu:0"))
        self.assertEqual(counted, measured)
        self.assertEqual(counted["attention f32"][0], 3 * 4)  # layers, micro-batches
        h200 = json.loads(sluice("plan", "tiny", "--kernels", "h200", "--json", "-", "--set", "train.precision=bf16").stdout)
        product = next(k for k in h200["kernels"] if k["kernel"] == "matmul bf16")
        description = (pathlib.Path(__file__).resolve().parents[2] / "core/devices/h200.toml").read_text()
        launch_seconds = float(re.search(r"^launch_seconds = (\S+)", description, re.MULTILINE).group(1))
        self.assertAlmostEqual(product["seconds"], product["calls"] * launch_seconds)     # tiny products
        self.assertEqual((h200["precision"], h200["samples"], h200["micro_batches"]), ("bf16", 8, 4))
        own = self.folder / "own.toml"                        # a description that is a file
        own.write_text(re.sub(r"^launch_seconds = \S+", "launch_seconds = 0", re.sub(r"^matmul = \S+", "matmul = 0.5", description, flags=re.MULTILINE),
                              flags=re.MULTILINE))
        other = json.loads(sluice("plan", "tiny", "--kernels", own, "--json", "-", "--set", "train.precision=bf16").stdout)
        product = next(k for k in other["kernels"] if k["kernel"] == "matmul bf16")
        self.assertAlmostEqual(product["of_limit"], 0.5)
        self.refuse(2, "--kernels", "leave --compare out", arguments=("plan", "tiny", "--kernels", "h200", "--compare"))
        self.refuse(2, "--kernels: needs one device", "got '4x h200'", arguments=("plan", "tiny", "--kernels", "4x h200"))
        self.refuse(2, "did you mean 'h200'", arguments=("plan", "tiny", "--kernels", "h20"))
        self.refuse(2, "--kernels", "--svg", arguments=("plan", "tiny", "--kernels", "cpu:0", "--svg", self.folder / "plan.svg"))

    def test_plan_that_does_not_fit_says_why(self):
        done = sluice("plan", "tiny", "--json", "-", "--set", "pipeline.memory=300KiB")
        self.assertEqual(done.returncode, 4)
        self.assertFalse(json.loads(done.stdout)["fits"])
        self.assertIn("cpu:0", json.loads(done.stdout)["reason"])
        self.assertNotIn("Options::", done.stdout)

    def test_what_does_not_fit_is_refused_in_the_words_of_the_plan(self):
        planned = json.loads(sluice("plan", "tiny", "--json", "-", "--set", "pipeline.memory=300KiB").stdout)["reason"]
        self.refuse(4, planned, arguments=self.tiny(pipeline__memory="300KiB"))

        self.train(train__steps=1)
        words = r"does not fit: cpu:0: out of memory \(node '.*budget of 245760; .*; cpu:0 needs (\d+) bytes in all and lacks (\d+)$"
        line = self.refuse(4, arguments=["eval", self.folder / "run", *sets(pipeline__memory="240KiB")])
        self.assertRegex(line, words)
        needed, lacking = map(int, re.search(words, line).groups())
        self.assertEqual(needed - lacking, 240 * 1024)
        self.refuse(4, "lacks 1", arguments=["eval", self.folder / "run", *sets(pipeline__memory=needed - 1)])
        self.assertEqual(sluice("eval", self.folder / "run", *sets(pipeline__memory=needed)).returncode, 0)

    def test_devices_of_two_kinds_share_the_model_by_their_speeds(self):
        def planned(partition):
            done = sluice("plan", "gpt2-124m", "--json", "-", *sets(pipeline__devices='["2x h100", "2x a100"]', pipeline__partition=partition,
                                                                    train__precision="bf16"))
            return json.loads(done.stdout)
        plan, even = planned("auto"), planned("uniform")
        self.assertGreater(sum(plan["partition"][:2]), sum(plan["partition"][2:]))
        self.assertLess(plan["step_seconds"], even["step_seconds"])
        self.assertGreaterEqual(plan["step_seconds"], plan["bound_seconds"])

    def test_of_cpus_are_searched_by_nominal_speeds_and_claim_no_bound_of_measured_ones(self):
        arguments = ("plan", "tiny", *sets(pipeline__devices='"4x cpu"', pipeline__replicas='"auto"'))
        self.assertIn("nominal step", sluice(*arguments).stdout)
        first, again = (json.loads(sluice(*arguments, "--json", "-").stdout) for _ in range(2))
        self.assertIsNone(first["bound_seconds"])
        self.assertEqual(first["replica_trials"], again["replica_trials"])

    def test_errors_of_planning_name_the_key(self):
        for setting, words in {"pipeline.partition=[1,2]": ["pipeline.partition"], "pipeline.partition=unifrm": ["pipeline.partition", "uniform"],
                               "pipeline.micro_batches=100000": ["pipeline.micro_batches"], "pipeline.remat=nosuch": ["pipeline.remat"],
                               "pipeline.devices=1000x meta": ["pipeline.devices"], "pipeline.search_seconds=-1": ["pipeline.search_seconds"]}.items():
            line = self.refuse(2, *words, arguments=["plan", "tiny", "--set", setting])
            self.assertNotIn("Options::", line)
            self.assertNotIn("Plan::", line)

    def test_search_ends_when_its_time_is_over_and_says_so(self):
        open_plan = sets(pipeline__devices="4x meta", pipeline__schedule="auto", pipeline__micro_batches="auto", pipeline__remat="auto")
        plan = json.loads(sluice("plan", "tiny", "--json", "-", *open_plan, *sets(pipeline__search_seconds=1e-9)).stdout)
        self.assertTrue(plan["is_out_of_time"])
        self.assertFalse(plan["is_exact"])
        self.assertIn("pipeline.search_seconds", sluice("plan", "tiny", *open_plan, *sets(pipeline__search_seconds=1e-9)).stdout)
        self.assertFalse(json.loads(sluice("plan", "tiny", "--json", "-", *open_plan).stdout)["is_out_of_time"])

    def test_long_search_tells_how_far_it_is_and_ends_at_a_signal(self):
        hard = sets(model__layers=400, train__batch=4096, pipeline__devices="1000x h100", pipeline__schedule="auto", pipeline__micro_batches="auto",
                    pipeline__remat="auto", pipeline__virtual_stages="auto")
        for number in signal.SIGINT, signal.SIGTERM:
            process = subprocess.Popen([PROGRAM, "plan", "transformer-l", *hard], stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True)
            self.assertRegex(process.stderr.readline(), r"^planning for \d+ s: ")
            began = processor_seconds(process)
            process.send_signal(number)
            self.assertIn(process.wait(timeout=HANG_S), (-number, 128 + number))
            self.assertLess(processor_seconds() - began, patience(2))
            process.stderr.close()


class Resumed(ProgramTest):
    def test_nothing_left_to_do_has_no_times(self):
        self.train(train__steps=2)
        done = sluice(*self.tiny("--resume", "auto", "--json", self.folder / "j.json", "--report", self.folder / "r.html", train__steps=2))
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("no step was left to do", done.stdout)
        result = json.loads((self.folder / "j.json").read_text())
        self.assertIsNone(result["step_ms"]["median"])
        self.assertIsNone(result["bubble"]["measured"])
        self.assertIsNone(result["devices"][0]["peak_bytes"])
        self.assertNotIn("0.00 ms", done.stdout)

    def test_keys_that_change_no_bits_give_no_warning(self):
        self.train(train__steps=2)
        done = sluice(*self.tiny("--resume", "auto", data__threads=4, train__evaluate_every=10, train__steps=4))
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertNotIn("was trained with", done.stderr)


class OneAnswer(ProgramTest):
    def test_every_pipeline_gives_the_same_weights_and_the_predicted_bytes(self):
        hashes = set()
        for stages in 1, 2, 3, 4:
            for schedule in "gpipe", "1f1b":
                for remat in "none", "full":
                    result = self.train(pipeline__devices=",".join(f"cpu:{i}" for i in range(stages)), pipeline__schedule=schedule,
                                        pipeline__remat=remat, out=f"{stages}-{schedule}-{remat}")
                    hashes.add(result["weights_hash"])
                    for device in result["devices"]:
                        self.assertEqual(device["peak_bytes"], device["predicted_peak_bytes"], (stages, schedule, remat))
        self.assertEqual(len(hashes), 1, hashes)

    def test_replanning_keeps_the_weights_and_shows_what_it_went_by(self):
        keys = dict(train__steps=30, pipeline__devices="cpu:0,cpu:1,cpu:2")
        whole = self.train(out="whole", **keys)
        self.assertIsNone(whole["replan"])
        for change in dict(), dict(pipeline__schedule="auto"), dict(pipeline__remat="auto"), dict(pipeline__costs="measured"), \
                dict(pipeline__partition="uniform"), dict(pipeline__memory="16MiB"):
            with self.subTest(change):
                result = self.train("--report", self.folder / "report.html", pipeline__replan="true", **keys, **change)
                self.assertEqual(result["weights_hash"], whole["weights_hash"])
                self.assertGreater(result["step_ms"]["predicted"]["counted"], 0)
                self.assertGreater(result["step_ms"]["predicted"]["measured"], result["step_ms"]["predicted"]["counted"])
                for device in result["devices"]:
                    self.assertEqual(device["peak_bytes"], device["predicted_peak_bytes"])
                if move := result["replan"]:
                    self.assertEqual((move["step"], sum(move["from"])), (13, sum(move["to"])))
                    self.assertLess(move["predicted_ms"]["after"], move["predicted_ms"]["before"])
                self.assertIn("ms by measured times", (self.folder / "report.html").read_text())
        self.train(**{**keys, "train__steps": 20}, pipeline__replan="true")
        rest = self.train("--resume", "auto", pipeline__replan="true", **keys)
        self.assertEqual(rest["weights_hash"], whole["weights_hash"])

    def test_a_training_of_few_steps_has_no_measured_times(self):
        for steps, is_known in (12, False), (13, True):
            predicted = self.train(train__steps=steps)["step_ms"]["predicted"]
            self.assertEqual(predicted["measured"] is not None, is_known, steps)
            self.assertGreater(predicted["counted"], 0)

    def test_cuda_graphs_concern_gpus_only(self):
        without, with_graphs = (self.train(pipeline__cuda_graphs=word, out=word) for word in ("off", "auto"))
        self.assertEqual(without["weights_hash"], with_graphs["weights_hash"])
        self.assertIsNone(with_graphs["cuda_graphs"])

    def test_numbers_of_micro_batches_agree_to_rounding(self):
        losses = [self.train(pipeline__micro_batches=m, out=f"m{m}")["loss"]["last"] for m in (1, 2, 3, 8)]
        for loss in losses:
            self.assertAlmostEqual(loss / losses[0], 1, delta=1e-5)


class Precision(ProgramTest):
    def test_bf16_comes_near_f32_and_tf32_is_f32_on_a_cpu(self):
        single = self.train(out="f32")
        self.assertEqual(self.train(out="tf32", train__precision="tf32")["weights_hash"], single["weights_hash"])
        for rounding in "false", "true":
            half = self.train(out=f"bf16-{rounding}", train__precision="bf16", train__stochastic_rounding=rounding)
            self.assertAlmostEqual(half["loss"]["validation"] / single["loss"]["validation"], 1, delta=0.01)
            self.assertLess(half["devices"][0]["peak_bytes"], single["devices"][0]["peak_bytes"])
            self.assertEqual(half["devices"][0]["peak_bytes"], half["devices"][0]["predicted_peak_bytes"])

    def test_bf16_resumes_on_another_pipeline_and_evaluates_as_it_was_trained(self):
        keys = dict(train__precision="bf16", train__stochastic_rounding="true")
        whole = self.train(out="whole", **keys)
        self.train(train__steps=10, **keys)
        rest = self.train("--resume", "auto", pipeline__devices="cpu:0,cpu:1,cpu:2", pipeline__remat="full", **keys)
        self.assertEqual(rest["weights_hash"], whole["weights_hash"])
        evaluated = json.loads(sluice("eval", self.folder / "run", "--json", "-").stdout)
        self.assertEqual(evaluated["loss"]["validation"], whole["loss"]["validation"])
        self.assertEqual(json.loads(sluice("inspect", self.folder / "run", "--json", "-").stdout)["weights_hash"], whole["weights_hash"])


if __name__ == "__main__":
    unittest.main()
