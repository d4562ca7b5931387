"""The Python package: answers are those of the command, errors are exceptions, searches stop and go on,
calls are cheap, leave other threads running, and give back what they take."""
import copy
import gc
import inspect
import json
import os
import pickle
import signal
import subprocess
import sys
import tempfile
import textwrap
import threading
import time
import unittest

import phaze
from phaze._phaze import ffi, lib
from phaze._values import Options

COMMAND = os.environ.get("PHAZE_COMMAND", "")
SOURCE = os.environ["PHAZE_SOURCE"]
RUNS, OPS, POWER, CHAIN, INSTANCE, PLAN, SCHEDULED = (os.path.join(SOURCE, *p.split("/")) for p in (
    "examples/runs.csv", "tests/data/few_ops.csv", "tests/data/power.csv", "tests/data/place/chain.json",
    "tests/data/schedule/I_n8_tc3_vc1.json", "tests/data/schedule/plan.json", "tests/data/chip/scheduled.json"))
SPACE = {"name": "small", "about": "", "base": "tpuv4", "tensor_cores": [1, 2], "rows": [64],
         "cols": [32, 64, 128], "vector_cores": [1, 2], "glb_mib": [4], "least_part": 0}
SEARCH = {"evaluator": "original", "space": SPACE, "budget": 60, "devices": 16, "batch": 64, "threads": 1}


def has(module):
    try:
        __import__(module)
    except ImportError:
        print(f"skipped: {module} is not there, so nothing that needs it is tried")
        return False
    return True


def command(*arguments):
    out = subprocess.run([COMMAND, *arguments, "--json"], check=True, capture_output=True, text=True)
    return json.loads(out.stdout)


class Answers(unittest.TestCase):
    @unittest.skipUnless(COMMAND, "PHAZE_COMMAND names no command")
    def test_are_those_of_the_command(self):
        asked = ["--chip", "h100", "--cluster", "dgx-h100", "--devices", "64", "--batch", "128"]
        there = command("predict", "llama2-7b", *asked, "--tp", "2", "--pp", "4", "--recompute", "full")
        here = phaze.predict("llama2-7b", "h100", "dgx-h100", devices=64, batch=128, tp=2, pp=4,
                             recompute="full")
        self.assertEqual(here.step_s, there["step_s"])
        self.assertEqual(here.peak_bytes, there["peak_bytes"])
        there = command("place", "llama2-7b", *asked)
        here = phaze.place("llama2-7b", "h100", "dgx-h100", devices=64, batch=128)
        self.assertEqual(here.step_s, there["step_s"])
        self.assertEqual(here.certificate.plans, there["certificate"]["plans"])
        there = command("place", "gpt2", "--chip", "tpuv4", "--devices", "16", "--batch", "64")
        here = phaze.place("gpt2", "tpuv4", devices=16, batch=64)
        self.assertEqual((here.step_s, here.pp), (there["plan"]["step_s"], there["plan"]["n_stages"]))
        there = command("schedule", "gpt2", "--chip", "tpuv4", "--layer", "block", "--steps", "2000")["layers"][1]
        here = phaze.schedule("gpt2", "tpuv4", "block", "backward", steps=2000, views=True)
        self.assertEqual((here.makespan_s, here.steps, here.serial_s, len(here.operators)),
                         (there["makespan"], there["steps"], there["serial"], len(there["ops"])))
        there = command("schedule", "--plan", PLAN, "--chip", SCHEDULED)
        here = phaze.schedule_plan("gpt2", SCHEDULED, framework="compiled", devices=8, tp=2, mbs=2, batch=32, zero=1,
                                   recompute="half", halves=True, views=True)
        self.assertEqual([(s.layer, s.makespan_s, s.serial_s, len(s.operators)) for s in here.list],
                         [(s["layer"], s["makespan"], s["serial"], len(s["ops"])) for s in there["layers"]])
        self.assertGreater(here.list[2].use["power"], 0)
        self.assertIn('"name": "power"', here.trace())
        there = command("predict", "--runs", RUNS)
        here = phaze.predict_runs(RUNS)
        self.assertEqual([r.p.step_s for r in here.rows], [r["step_s"] for r in there["rows"]])
        self.assertEqual(here.groups[0].mean, there["groups"][0]["mean_error"])
        there = command("estimate", "--ops", OPS, "--chip", "h200")
        self.assertEqual([r.us for r in phaze.estimate_ops(OPS, "h200").rows],
                         [r["predicted_us"] for r in there["ops"]])
        there = command("chip", "h200", "--power", POWER)
        self.assertEqual([r.called.watts for r in phaze.power(POWER, "h200").rows],
                         [r["watts"] for r in there["operators"]])
        there = command("place", "--instance", CHAIN, "--semantics", "corrected")
        here = phaze.place_instance(CHAIN, corrected=True)
        self.assertEqual((here.step_s, [s.nodes for s in here.stages]),
                         (there["finalTimePerBatch"], [s["nodes"] for s in there["stages"]]))
        there = command("schedule", "--instance", INSTANCE, "--exclusive", "class")
        here = phaze.schedule_instance(INSTANCE, exclusive="class", steps=-1)
        self.assertEqual((here.makespan_s, here.stop), (there["makespan"], there["stop"]))
        there = command("estimate", "gpt2", "--chip", "h200")
        here = phaze.estimate("gpt2", "h200")
        self.assertEqual(here.forward_s, there["totals"]["forward_s"])
        self.assertEqual(here.optimizer_s, there["totals"]["optimizer_s"])
        there = command("predict", "gpt2", "--chip", "tpuv4-real", "--mbs", "4")
        self.assertEqual(phaze.predict("gpt2", "tpuv4-real", mbs=4).step_s, there["step_s"])

    def test_are_plain(self):
        found = phaze.place("gpt2", "h100", devices=8, batch=16, top=3)
        self.assertEqual(json.loads(json.dumps(found.to_dict()))["plans"][0]["p"]["step_s"], found.step_s)
        self.assertEqual(pickle.loads(pickle.dumps(found.best)).step_s, found.step_s)
        self.assertEqual(copy.deepcopy(found.best.plan), found.best.plan)
        self.assertEqual(pickle.loads(pickle.dumps(found.chip)), found.chip)
        self.assertRaises(TypeError, copy.deepcopy(found.best).cost, 1e9)
        self.assertRaises(AttributeError, lambda: found.no_such_field)
        self.assertEqual(len(found), 3)
        self.assertIn("proof:", str(found))
        self.assertIn("next best plan", str(found))

    def test_names_of_choices(self):
        p = phaze.predict("gpt2", "h100", devices=8, batch=16, recompute="selective", overlap="grad,param",
                          attention="flash", precision="bf16", events=True)
        self.assertEqual((p.plan.recompute, p.plan.overlap, p.plan.attention), ("selective", "grad,param",
                                                                               "flash"))
        self.assertEqual(p.plan.framework, "megatron")
        self.assertTrue(p.events)

    def test_frames_and_pictures(self):
        results = [phaze.predict("gpt2", "h100", tp=2, pp=2, batch=4, events=True),
                   phaze.place("gpt2", "h100", devices=8, batch=16, top=2),
                   phaze.place("gpt2", "tpuv4", devices=8, batch=16),
                   phaze.scale("gpt2", "h100", devices=[4, 8], batch=16),
                   phaze.estimate("gpt2", "h200"), phaze.schedule("gpt2", "tpuv4", "block"),
                   phaze.search("gpt2", **SEARCH),
                   phaze.validate(os.path.join(os.environ["PHAZE_SOURCE"], "examples", "runs.csv"))]
        for r in results:
            self.assertTrue(str(r) and repr(r) and r.to_dict())
        if has("pandas"):
            for r in results:
                self.assertGreaterEqual(len(r.to_frame()), 1)
        if has("matplotlib"):
            import matplotlib
            matplotlib.use("Agg")
            import matplotlib.pyplot as plt
            for r in results:
                self.assertIsNotNone(r.plot())
            for kind in ("step", "memory", "pipeline"):
                results[0].plot(kind)
            self.assertRaises(ValueError, results[0].plot, "pie")
            plt.close("all")

    def test_tables_of_runs_may_be_frames(self):
        if not has("pandas"):
            return
        import pandas
        path = os.path.join(os.environ["PHAZE_SOURCE"], "examples", "runs.csv")
        self.assertEqual(phaze.validate(pandas.read_csv(path)).groups[0].mean, phaze.validate(path).groups[0].mean)


    def test_timelines_and_pages(self):
        layers = [phaze.schedule("gpt2", "tpuv4", name, steps=2000) for name in ("block", "head")]
        events = json.loads(layers[0].trace(layers[1]))["traceEvents"]
        self.assertEqual(sum(e["name"] == "process_name" for e in events), 2)
        described = phaze.place("gpt2", "tpuv4", devices=4, batch=16)
        self.assertIn("stage 1", described.best.trace())
        for lone in (layers[0], described.best):
            with self.assertRaises(TypeError):
                pickle.loads(pickle.dumps(lone)).trace()
        with tempfile.TemporaryDirectory() as folder:
            phaze.search("gpt2", **SEARCH, output=folder + "/run")
            report = phaze.report(folder + "/run")
        self.assertTrue(report.html.startswith("<!DOCTYPE html>"))
        self.assertEqual(report.datasets["layers"][0]["model"], "gpt2")

    def test_a_validation_is_stopped(self):
        seen = []
        with self.assertRaises(phaze.Stopped):
            phaze.validate(progress=lambda state: bool(seen.append(state.phase)))
        self.assertEqual(len(seen), 1)


class Errors(unittest.TestCase):
    def test_carry_the_message(self):
        with self.assertRaisesRegex(phaze.BadInput, "unknown model 'gpt9'.*accepted") as caught:
            phaze.predict("gpt9", "h100")
        self.assertEqual(caught.exception.status, "bad input")
        self.assertIsInstance(caught.exception, ValueError)
        with self.assertRaises(phaze.BadInput) as caught:
            phaze.Chip.from_json('{"name": "x",\n "clok": 1}', "mine.json")
        self.assertIn("mine.json", str(caught.exception))
        self.assertRaises(phaze.BadUse, phaze.predict, "gpt2", "h100", devices=7, tp=2)
        self.assertRaises(phaze.BadUse, phaze.predict, "gpt2", "h100", recompute="some")
        self.assertRaises(phaze.BadUse, phaze.predict, "gpt2", "h100", tp=1 << 70)
        self.assertRaises(phaze.BadUse, phaze.predict, "gpt2", "h100", tp=1.5)
        self.assertRaises(phaze.FileError, phaze.load_run, "no-such-folder")
        self.assertRaises(phaze.FileError, phaze.Chip.load, "./no-such.json")
        self.assertRaises(phaze.NoAnswer, phaze.place, "llama2-7b", "h100", devices=1, batch=1)
        self.assertRaises(phaze.BadUse, phaze.schedule, "gpt2", "tpuv4", "blok")
        self.assertRaises(TypeError, phaze.Chip.load("h100").replace, no_such_field=1)
        self.assertRaises(phaze.BadInput, phaze.Chip.load("h100").replace, tensor={"cores": -1})
        with self.assertRaisesRegex(TypeError, "unexpected keyword argument 'tensor_parallel'"):
            phaze.predict("gpt2", "h100", tensor_parallel=2)
        self.assertRaisesRegex(phaze.BadUse, "pp: for chips that are built", phaze.place, "gpt2", "tpuv4", pp=2)
        self.assertRaisesRegex(phaze.BadUse, "check: for chips of 22 nm", phaze.place, "gpt2", "h100", check=True)

    def test_lists_have_the_length_that_is_asked_for(self):
        by_stage = {"pp": 3, "recompute": "full", "stage_recompute": [2]}
        for stages in ([2], [], [1, 1, 1, 1], [1, 1, -1], "123", [1.5, 1, 1]):
            self.assertRaises((phaze.BadUse, TypeError), phaze.predict, "gpt2", "h100", **{**by_stage, "stage_recompute": stages})
        self.assertRaisesRegex(phaze.BadUse, "1 numbers; accepted: pp of them, 3", phaze.predict, "gpt2", "h100", **by_stage)
        p = phaze.predict("gpt2", "h100", **{**by_stage, "stage_recompute": [2, 1, 0]})
        self.assertEqual((p.plan.stage_recompute, [s.recomputed_layers for s in p.stages]), ([2, 1, 0], [2, 1, 0]))
        self.assertIn("stage_recompute=[2, 1, 0]", repr(p.plan))
        self.assertRaisesRegex(phaze.BadUse, "place finds", phaze.place, "gpt2", "h100", devices=4, batch=8, stage_recompute=[2])
        for weight in ([1.0], [1.0, 2.0, 3.0], [1.0] * 65):
            with self.assertRaisesRegex(phaze.BadUse, "weight"):
                phaze.search(["gpt2", "bert-base"], **SEARCH, objective="weighted", weight=weight)

    def test_texts_are_taken_whole(self):
        for model in ("gpt2\0", "gpt2\ud800", b"gpt2", 3):
            self.assertRaises((phaze.BadUse, TypeError), phaze.predict, model, "h100")
        self.assertRaises(TypeError, phaze.predict_runs, 0)  # a file's number, from which it would read
        with tempfile.TemporaryDirectory() as folder:
            os.mkfifo(folder + "/pipe")
            self.assertRaises(phaze.FileError, phaze.read_plan, folder + "/pipe")
            with open(folder + "/prices.csv", "w", encoding="utf-8") as file:
                file.write("chip,dollars_per_device_hour\nh100,2\n")
            rent = phaze.compare_chips("gpt2", "h100", devices=2, batch=2, tokens=1e9, prices=folder + "/prices.csv")
        self.assertEqual(rent[0].dollars_per_device_hour, 2)

    def test_every_status_has_a_class(self):
        kinds = {c.__name__ for c in phaze.Error.__subclasses__()}
        self.assertEqual(len(kinds), len(ffi.typeof("enum pz_status").elements) - 1)


class Searches(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.run_folder = os.path.join(self.folder.name, "run")

    def answers(self, found):
        return [(a.name, a.chip.name, a.objective, a.certificate.gap) for a in found.answers]

    def test_interrupted_it_resumes(self):
        whole = self.answers(phaze.search(["gpt2", "bert-base"], **SEARCH))
        told, kept = [], []

        def interrupt(state):
            told.append(state.phase)
            if len(told) == 6:
                signal.raise_signal(signal.SIGINT)

        with self.assertRaises(KeyboardInterrupt):
            phaze.search(["gpt2", "bert-base"], **SEARCH, output=self.run_folder, progress=interrupt)
        kept = os.listdir(self.run_folder)
        self.assertTrue(kept)
        self.assertRaises(phaze.BadInput, phaze.load_run, self.run_folder)  # it has not finished
        again = phaze.search(["gpt2", "bert-base"], **SEARCH, output=self.run_folder)
        self.assertEqual(self.answers(again), whole)
        self.assertFalse(again.reused)
        self.assertTrue(phaze.search(["gpt2", "bert-base"], **SEARCH, output=self.run_folder).reused)
        self.assertEqual(self.answers(phaze.load_run(self.run_folder)), whole)

    def test_a_signal_from_outside_stops_it(self):
        program = textwrap.dedent(f"""
            import phaze, sys
            def told(state):
                print("begun", flush=True)
            try:
                phaze.search(["gpt2", "bert-base", "llama2-7b"], "paper", devices=64, batch=256,
                             output={self.run_folder!r}, progress=told, threads=1)
            except KeyboardInterrupt:
                sys.exit(42)
        """)
        child = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True)
        child.stdout.readline()
        start = time.monotonic()
        child.send_signal(signal.SIGINT)
        child.communicate()
        self.assertEqual(child.returncode, 42)
        self.assertLess(time.monotonic() - start, 20)
        self.assertTrue(os.listdir(self.run_folder))

    def test_progress_stops_it_and_its_errors_are_raised(self):
        threads = set()

        def stop(state):
            threads.add(threading.get_ident())
            return False

        self.assertRaises(phaze.Stopped, phaze.search, "gpt2", **SEARCH, progress=stop)
        self.assertEqual(threads, {threading.get_ident()})
        with self.assertRaises(ZeroDivisionError):
            phaze.search("gpt2", **SEARCH, progress=lambda state: 1 // 0)

    def test_errors_below_a_callback_are_its_own(self):
        """The library raises inside a callback that it has called itself: only the inner call ends."""
        errors = []

        def ask(state):
            with self.assertRaises(phaze.Error) as caught:
                phaze.predict("no-such-model", "h100", devices=8)
            errors.append(str(caught.exception))
            self.assertGreater(phaze.predict("gpt2", "h100", devices=8, batch=64).step_s, 0)
            return True

        plans = phaze.place("llama3-8b", "h100", "dgx-h100", devices=64, batch=512, progress=ask)
        self.assertTrue(errors and all("no-such-model" in text for text in errors), errors)
        self.assertEqual(plans.step_s, phaze.place("llama3-8b", "h100", "dgx-h100", devices=64, batch=512).step_s)

    def test_it_is_verified(self):
        found = phaze.search("gpt2", **SEARCH, output=self.run_folder, detail=True)
        self.assertTrue(found.detail.plans and found.chips)
        checked = phaze.verify(self.run_folder, sample=2)
        self.assertTrue(checked and checked.checks, str(checked))


class Calls(unittest.TestCase):
    ASKED = {"devices": 8, "tp": 2, "batch": 16}

    def test_take_less_than_a_millisecond_more_than_in_c(self):
        chip, net = phaze.Chip.load("h100"), phaze.Cluster.load("dgx-h100")
        o = Options("pz_plan", self.ASKED, "predict")

        def in_c():
            out = ffi.new("struct pz_training_run **")
            lib.pz_training_predict(b"gpt2", chip._c, net._c, o.c, False, out, ffi.NULL)
            lib.pz_training_run_free(out[0])

        # the processor's time of this thread, taken by turns: other processes take none of it
        def best(*calls):
            times = [[] for _ in calls]
            for _ in range(40):
                for call, spent in zip(calls, times):
                    start = time.thread_time()
                    call()
                    spent.append(time.thread_time() - start)
            return [min(spent) for spent in times]

        python, c = best(lambda: phaze.predict("gpt2", chip, net, **self.ASKED), in_c)
        more = python - c
        trivial, = best(lambda: phaze.Chip.load("h100").hbm_bytes)
        print(f"overhead of predict: {1e6 * more:.0f} us; Chip.load: {1e6 * trivial:.0f} us")
        self.assertLess(more, 1e-3)
        self.assertLess(trivial, 1e-3)

    def test_leave_other_threads_running(self):
        done = []
        solver = threading.Thread(target=lambda: done.append(
            phaze.place("llama3-70b", "h100", "dgx-h100", devices=1024, batch=2048, threads=1)))
        start = last = time.monotonic()
        solver.start()
        gaps = []
        while solver.is_alive():
            time.sleep(0.002)
            gaps.append(time.monotonic() - last)
            last = time.monotonic()
        self.assertTrue(done)
        self.assertGreater(len(gaps), 5)
        self.assertLess(max(gaps), 0.9 * (last - start))

    def test_two_at_once_agree(self):
        found = [None, None]

        def solve(i):
            found[i] = phaze.place("gpt2", "h100", devices=16, batch=64).to_dict()

        threads = [threading.Thread(target=solve, args=(i,)) for i in (0, 1)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        self.assertEqual(found[0], found[1])

    def test_give_back_their_memory(self):
        def resident():
            with open("/proc/self/statm", encoding="ascii") as f:
                return int(f.read().split()[1]) * os.sysconf("SC_PAGESIZE")

        chip, net = phaze.Chip.load("h100"), phaze.Cluster.load("dgx-h100")

        def some(n):
            for i in range(n):
                phaze.predict("gpt2", chip, net, **self.ASKED)
                try:
                    phaze.predict("gpt2", chip, devices=7, tp=2)
                except phaze.BadUse:
                    pass
                if i % 50 == 0:
                    phaze.schedule("gpt2", "tpuv4", "embedding").to_dict()
                    phaze.Workload.load("gpt2").to_dict()
                    phaze.place("gpt2", "h100", devices=2, batch=2, top=2)

        some(100)
        gc.collect()
        before = resident()
        some(1000)
        gc.collect()
        grown = resident() - before
        print(f"1,000 calls: {grown / 1024:.0f} KiB more")
        self.assertLess(grown, 2 << 20)

    def test_objects_outlive_what_they_came_from(self):
        layer = phaze.Workload.load("gpt2").layers[1]
        second = phaze.place("gpt2", "h100", devices=8, batch=16, top=2).plans[1]
        chip = phaze.search("gpt2", **SEARCH).chip
        gc.collect()
        self.assertEqual(layer.name, "block")
        self.assertGreater(second.cost(tokens=1e9, price=1).dollars, 0)
        self.assertEqual(phaze.predict("gpt2", chip, mbs=1).chip.tensor.cores, chip.tensor.cores)

    def test_fields_of_a_chip_are_those_of_its_description(self):
        for name in phaze.chips():
            chip = phaze.Chip.load(name)
            said = chip.to_dict()
            for group, value in said.items():
                if group == "calibration":
                    self.assertEqual([k.to_dict() for k in chip.calibration.kernels],
                                     [{"kind": k, **v} for k, v in value.pop("kernels", {}).items()])
                there = getattr(chip, group)
                for field, expected in value.items() if isinstance(value, dict) else ():
                    self.assertEqual(getattr(there, field), expected, f"{name}: {group}.{field}")
                    self.assertIs(type(getattr(there, field)), type(expected), f"{name}: {group}.{field}")
                if not isinstance(value, dict):
                    self.assertEqual(there, value, f"{name}: {group}")
        self.assertEqual((chip.glb_bytes, chip.collectives), (chip.glb.bytes, chip.link))
        self.assertLess({"tensor", "hbm", "link", "calibration", "bill"}, set(dir(chip)))
        self.assertRaisesRegex(AttributeError, "no field 'cores'; it has: name, about, tech", getattr, chip, "cores")

    def test_parameters_are_named(self):
        fields = {n for n, _ in ffi.typeof("struct pz_plan").fields} - {"size", "n_stage_recompute"}
        for function in (phaze.predict, phaze.explain, phaze.place, phaze.scale):
            self.assertLessEqual(fields, set(inspect.signature(function).parameters), function.__name__)
        fields = {n for n, _ in ffi.typeof("struct pz_workload_options").fields} - {"size"}
        for function in (phaze.graph, phaze.Workload.load, phaze.estimate, phaze.schedule):
            self.assertLessEqual(fields, set(inspect.signature(function).parameters), function.__name__)
        for name in phaze.__all__:
            thing = getattr(phaze, name)
            methods = [m for _, m in inspect.getmembers(thing, inspect.isfunction) if m.__name__ != "__init__"]
            for f in methods if inspect.isclass(thing) else [thing]:
                kinds = {p.kind for p in inspect.signature(f).parameters.values()}
                self.assertNotIn(inspect.Parameter.VAR_KEYWORD, kinds, f"{name}: {f.__qualname__}")

    def test_long_calls_end_with_a_signal(self):
        table = os.path.join(os.environ["PHAZE_SOURCE"], "tests", "data", "h200_ops.csv")
        calls = {"place": "phaze.place('llama3-70b', 'h100', devices=8192, batch=8192, tie=0, threads=1, progress=told)",
                 "calibrate": f"phaze.calibrate({table!r}, 'h200', progress=told)",
                 "validate": "(told(None), phaze.validate(threads=1))"}
        for name, text in calls.items():
            program = textwrap.dedent(f"""
                import phaze, sys
                def told(state):
                    print("begun", flush=True)
                try:
                    {text}
                except KeyboardInterrupt:
                    sys.stdout.flush()
                    import os
                    os._exit(42)
            """)
            child = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True)
            child.stdout.readline()
            start = time.monotonic()
            child.send_signal(signal.SIGINT)
            child.communicate()
            took = time.monotonic() - start
            print(f"{name}: ends {took:.2f} s after Ctrl-C")
            self.assertEqual(child.returncode, 42, name)
            self.assertLess(took, 5.0, name)

    def test_progress_stops_a_search_for_plans(self):
        told = []
        with self.assertRaises(phaze.Stopped):
            phaze.place("llama3-8b", "h100", devices=64, batch=512, progress=lambda s: told.append(s.phase) or False)
        self.assertTrue(told)
        with self.assertRaises(ZeroDivisionError):
            phaze.tune({"model": "gpt2", "devices": 8, "batch": 64}, "h100", progress=lambda s: 1 // 0)

    def test_chips_beside_each_other(self):
        load = {"devices": 8, "batch": 32, "workload": {"seq": 128}, "threads": 1}
        warm = phaze.compare_chips("gpt2", ["h100", "tpuv6e", "mi300x"], **load)
        cold = phaze.compare_chips(["gpt2"], ["h100", "mi300x"], "dgx-h100", cold=True, **load)
        self.assertEqual([row.known for row in warm], ["measured", "published runs", "cold"])
        self.assertEqual([(row.known, row.cluster) for row in cold], [("cold", "dgx-h100")] * 2)
        self.assertTrue(all(row.fits and 0 < row.mfu < 0.9 and row.expected_error > 0 for row in [*warm, *cold]))
        self.assertIn("published runs", str(warm))
        self.assertRaises(phaze.BadInput, phaze.compare_chips, "gpt2", "moon", **load)
        for field in ({"fp8_recipe": "delayed"}, {"moment_bytes": 9}, {"mtp": True}, {"offload": "weights"}):
            self.assertRaises(phaze.BadUse, phaze.compare_chips, "gpt2", "h100", **load, **field)
        eight = {"precision": "fp8", "fp8_recipe": "delayed", "moment_bytes": 2, "offload": "optimizer"}
        self.assertEqual(len(phaze.compare_chips("gpt2", "h100", **load, **eight)), 1)
        rent = phaze.compare_chips("gpt2", ["h100", "mi300x"], **load, tokens=1e9, prices={"h100": 2, "mi300x": 4})
        half = phaze.compare_chips("gpt2", ["h100", "mi300x"], **load, tokens=1e9, price=1)
        self.assertEqual([r.run_dollars for r in rent], [f * r.run_dollars for f, r in zip((2, 4), half)])
        late = phaze.compare_chips("gpt2", ["h100"], **load, tokens=1e12, deadline_s=60)
        self.assertEqual(late[0].deadline, "missed")
        with self.assertRaisesRegex(phaze.BadInput, "no price of mi300x"):
            phaze.compare_chips("gpt2", ["h100", "mi300x"], **load, tokens=1e9, prices={"h100": 2})
        self.assertRaises(phaze.BadUse, phaze.compare_chips, "gpt2", ["h100"], **load, price=2)
        best = phaze.place("gpt2", "h100", "dgx-h100", devices=64, batch=64, objective="cost", tokens=3e11,
                           deadline_s=36 * 3600)
        self.assertTrue(not best.late and best.plan.devices < 64)
        self.assertLessEqual(best.best.cost(3e11).seconds, 36 * 3600)
        with self.assertRaises(phaze.Stopped):
            phaze.compare_chips("llama3-70b", ["h100", "b200"], devices=256, batch=1024, threads=1, progress=lambda state: False)


class Runs(unittest.TestCase):
    def test_scripts_are_read_back_and_tuned(self):
        best = phaze.place("llama2-7b", "h100", "dgx-h100", devices=64, batch=512)
        script = phaze.emit(best)
        run = phaze.read_plan(script, vocab=32000)
        self.assertTrue(run.megatron)
        self.assertEqual((run.plan.tp, run.plan.pp, run.plan.mbs), (best.plan.tp, best.plan.pp, best.plan.mbs))
        again = phaze.read_plan(json.loads(run.to_plan_file()))
        self.assertEqual(again.plan.tp, run.plan.tp)
        tuned = phaze.tune(run, "h100", "dgx-h100")
        self.assertLess(abs(tuned.own.p.step_s / best.step_s - 1), 0.02)
        self.assertIn("best plan", str(tuned))
        self.assertEqual({f.name: f.from_ for f in tuned.fields}["chip"], "given")
        self.assertRaises(phaze.BadUse, phaze.tune, {"model": "gpt2"})
        self.assertRaises(phaze.BadUse, phaze.emit, phaze.place("gpt2", "tpuv4", devices=8, batch=16))

    def test_scripts_of_every_framework_are_read_back(self):
        for framework in ("megatron", "torchtitan", "nemo", "deepspeed"):
            plan = {"devices": 64, "tp": 4, "pp": 2, "batch": 512, "framework": framework, "attention_library": "fa2"}
            p = phaze.predict("llama2-7b", "h100", "dgx-h100", **plan)
            d = phaze.diff({"model": "llama2-7b", **plan}, phaze.read_plan(phaze.emit(p)), "h100", "dgx-h100")
            self.assertEqual([f.name for f in d.fields], [], framework)
            self.assertAlmostEqual(d.b.p.step_s, p.step_s)
            self.assertIn("part of the step", str(d))

    def test_changes_by_words_have_a_verdict(self):
        run = phaze.read_plan({"model": "llama2-7b", "devices": 64, "batch": 512, "tp": 8})
        d = phaze.diff(run, chip="h100", cluster="dgx-h100", changes="tp 4, recompute full")
        self.assertEqual((d.b.plan.tp, d.b.plan.devices, d.b.plan.batch), (4, 64, 512))
        self.assertEqual(d.changes, "tp 4, recompute full")
        self.assertIn(f"is {100 * (1 - d.b.p.step_s / d.a.p.step_s):.1f}% faster: ", d.verdict)
        self.assertTrue(str(d).startswith("tp 4, recompute full is "))
        for wrong in ({"changes": "tpp 4"}, {}, {"b": run, "changes": "tp 4"}):
            self.assertRaises(phaze.BadUse, phaze.diff, run, chip="h100", cluster="dgx-h100", **wrong)

    def test_what_does_not_fit_is_told_what_would(self):
        p = phaze.predict("llama2-70b", "a100-80", "dgx-a100", devices=64, tp=4, batch=64)
        self.assertFalse(p.fits)
        self.assertTrue(all(c.options and c.p.needed_bytes <= c.p.usable_bytes for c in p.changes()))

    def test_explained(self):
        e = phaze.explain("llama2-7b", "h100", devices=64, tp=4, batch=512)
        self.assertEqual({f.name: f.value for f in e.fields}["dp"], "16")
        self.assertTrue(e.constants and str(e))

    def test_calibrated(self):
        source = os.path.join(os.environ["PHAZE_SOURCE"], "tests", "data", "h200_ops.csv")
        with tempfile.TemporaryDirectory() as folder, open(source, encoding="utf-8") as table:
            path = os.path.join(folder, "ops.csv")
            with open(path, "w", encoding="utf-8") as few:
                few.writelines(line for i, line in enumerate(table) if i < 40)
            c = phaze.calibrate(path, "h200")
        self.assertTrue(c.residuals and c.all.rows == 39)
        self.assertGreater(phaze.predict("gpt2", c.chip).step_s, 0)

    def test_tune_corrected_by_a_measured_step(self):
        run = {"model": "gpt2", "devices": 8, "batch": 64}
        plain = phaze.tune(run, "h100", threads=1)
        twice = phaze.tune(run, "h100", measured_s=2 * plain.own.p.step_s, threads=1)
        self.assertEqual((plain.uncorrected_s, twice.uncorrected_s), (0, plain.own.p.step_s))
        self.assertGreater(twice.own.p.step_s, 1.5 * plain.own.p.step_s)

    def test_calibrated_by_steps(self):
        data = os.path.join(os.environ["PHAZE_SOURCE"], "tests", "data")
        c = phaze.calibrate_steps(os.path.join(data, "steps.csv"), held=os.path.join(data, "steps_held.csv"))
        self.assertEqual((len(c.steps), len(c.held)), (5, 7))
        self.assertLess(c.errors.after, c.errors.before)
        self.assertLess(c.held_errors.after, c.held_errors.before)
        plan = {"cluster": "dgx-h100", "devices": 64, "batch": 256}
        self.assertGreater(phaze.predict("llama3-8b", c.chip, **plan).step_s,
                           phaze.predict("llama3-8b", "h100-500w", **plan).step_s)
        self.assertIn("calibrated with steps.csv", c.chip.name)
        load = {"devices": 8, "batch": 32, "workload": {"seq": 128}, "threads": 1, "tokens": 1e9, "deadline_s": 1e6}
        both = phaze.compare_chips("gpt2", ["h100-500w", c.chip, phaze.Chip.load("h100-500w")], **load,
                                   prices={"h100-500w": 2, c.chip.name: 3})
        self.assertEqual([(r.known, r.cluster, r.dollars_per_device_hour) for r in both],
                         [("published runs", "dgx-h100", 2), ("own steps", "dgx-h100", 3), ("published runs", "dgx-h100", 2)])
        self.assertGreater(both[1].step_s, both[0].step_s)
        self.assertRegex(str(both), r"devices +days +deadline +dollars")
        self.assertIn(f"{both[1].days:.4g}", str(both))
        self.assertEqual(phaze.compare_chips("gpt2", c.chip, **load)[0].days, both[1].days)
        self.assertIn("gemms", str(c))


if __name__ == "__main__":
    unittest.main()
