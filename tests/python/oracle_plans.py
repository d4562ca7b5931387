"""place against every plan of its space: random questions, each plan that doc/place.md and plan_question.h describe priced
by predict, through the public interface alone.

    PYTHONPATH=build/release/python python3 tests/python/oracle_plans.py [CASES [SEED [PLANS]]]

PLANS: at most so many predictions of a case, default 6000 (2 ms each).  Prints a line for every difference.
"""
import itertools
import json
import math
import os
import random
import sys
import tempfile

import phaze
from phaze._phaze import ffi, lib


def names(of):
    out = []
    while of[len(out)] != ffi.NULL:
        out.append(ffi.string(of[len(out)]).decode())
    return out


ORDERS = names(lib.pz_pipeline_names)
RECOMPUTE = names(lib.pz_recomputation_names)
OVERLAP = names(lib.pz_overlap_names)
FRAMEWORKS = phaze.frameworks()
MEMORY = [f for f, _ in ffi.typeof("struct pz_training_memory").fields]
NONE, SELECTIVE, FULL, ALTERNATE, HALF = (RECOMPUTE.index(n) for n in ("none", "selective", "full", "alternate", "half"))
TURNS_ON = dict.fromkeys(("megatron", "nemo", "torchtitan", "megatron-deepspeed", "deepspeed", "automodel", "maxtext"), 31)


class TooMany(Exception):
    pass


class Price:
    """What predict says of a plan."""
    __slots__ = ("step_s", "peak", "usable", "refusal", "overlap", "stages", "layers", "mfu", "fields", "devices", "hfu", "slower")


class Oracle:
    def __init__(self, case, most):
        self.case, self.calls, self.most = case, 0, most
        self.model = case["model"].encode()
        self.chip = phaze.Chip.of(case["chip"])
        self.net = phaze.Cluster.of(case["cluster"]) if case["cluster"] is not None else None
        self.err = ffi.new("struct pz_error *")
        self.out = ffi.new("struct pz_training_run **")
        self.fixed = case["fixed"]  # fields that are the same in every plan, by name, as text
        self.why = {}
        self.texts = []

    def plan(self, fields):
        plan = ffi.new("struct pz_plan *", lib.pz_plan_default())
        for name, value in {**self.fixed, **{k: str(v) for k, v in self.case["question"].items()}}.items():
            text = ffi.new("char[]", value.encode())
            self.texts.append(text)
            if lib.pz_plan_set(plan, name.encode(), text, self.err):
                raise ValueError(ffi.string(self.err.message).decode())
        if not fields.get("zero", 1):
            plan.shard = 0
        for name, value in fields.items():
            if name == "stage_recompute":
                plan.recompute = FULL
                self.kept = ffi.new("int64_t[]", value)
                plan.stage_recompute = self.kept
                plan.n_stage_recompute = len(value)
            else:
                setattr(plan, name, value)
        return plan

    def price(self, **fields):
        """A Price; None where there is no such plan."""
        self.calls += 1
        if self.calls > self.most:
            raise TooMany
        plan = self.plan(fields)
        rc = lib.pz_training_predict(self.model, self.chip._c, self.net._c if self.net else ffi.NULL, plan, False, self.out,
                                     self.err)
        if rc:
            if "stage_recompute" in fields and "stage_recompute" in ffi.string(self.err.message).decode():
                raise AssertionError(ffi.string(self.err.message).decode())
            self.why["error: " + ffi.string(self.err.message).decode()[:90]] = fields
            return None
        r = self.out[0]
        p = Price()
        p.step_s, p.peak, p.usable = r.p.step_s, r.p.needed_bytes, r.p.usable_bytes
        if r.p.host_bytes > r.p.usable_host_bytes:
            p.peak = math.inf
        p.mfu, p.hfu = r.p.mfu, r.p.hfu
        p.refusal = ffi.string(r.refusal).decode()
        p.overlap, p.layers = r.plan.overlap, r.layers
        p.devices = r.plan.tp * r.plan.cp * r.plan.pp * r.plan.dp
        p.stages = [sum(getattr(r.stages[i], f) for f in MEMORY) for i in range(r.plan.pp)]
        p.fields = fields
        lib.pz_training_run_free(r)
        if p.refusal:
            self.why[p.refusal[:90]] = fields
        return p

    # ---- the space, as it is described

    def used(self):
        """Numbers of devices that a plan may take."""
        q, net = self.case["question"], self.net
        devices = q["devices"]
        node = min(lib.pz_cluster_node(net._c), devices) if net else devices
        got = set(range(1, min(node, devices) + 1))
        for whole in (node, 1 << int(math.log2(node))):
            nodes = devices // (whole if devices % node else node)
            got |= {k * whole for k in range(1, nodes + 1) if k * whole <= devices}
        return {devices} & got if self.case["all_devices"] else got

    def allowed(self, name, values):
        pins = self.case["pins"]
        return [v for v in values if v == pins[name]] if name in pins else list(values)

    def shapes(self):
        """Degrees: tp, sp, cp, ep, pp, dp, mbs."""
        q, info, pins = self.case["question"], self.case["info"], self.case["pins"]
        net = self.net
        inner = lib.pz_cluster_node(net._c) if net else q["devices"]
        for n in sorted(self.used()):
            for tp in ([pins["tp"]] if "tp" in pins else range(1, min(n, inner) + 1)):
                if n % tp:
                    continue
                for cp in ([pins["cp"]] if "cp" in pins else [1, 2, 4, 8, 16, 32]):
                    if n // tp % cp or (cp > 1 and (q["seq"] % (2 * cp) or self.case["attention"] != "flash")):
                        continue
                    for pp in self.allowed("pp", range(1, info["layers"] + 1)):
                        if n // tp // cp % pp:
                            continue
                        dp = n // tp // cp // pp
                        if q["batch"] % dp or dp not in self.allowed("dp", [dp]):
                            continue
                        eps = [1]
                        if info["experts"]:
                            eps = sorted({e for e in [1 << i for i in range(11)] + [info["experts"]]
                                          if info["experts"] % e == 0 and tp * cp * dp % e == 0})
                        for ep in self.allowed("ep", eps):
                            for mbs in self.allowed("mbs", [m for m in range(1, 129) if q["batch"] // dp % m == 0]):
                                for sp in ([0] if tp == 1 else self.allowed("sp", [0, 1])):
                                    if sp and q["seq"] // cp % tp:
                                        continue
                                    yield {"tp": tp, "sp": sp, "cp": cp, "ep": ep, "pp": pp, "dp": dp, "mbs": mbs, "devices": n}

    def orders(self, s):
        """Chunks, order and division of layers."""
        layers, pp = self.case["info"]["layers"], s["pp"]
        micro = self.case["question"]["batch"] // s["dp"] // s["mbs"]
        pins = self.case["pins"]
        if pp == 1:
            if pins.get("vpp", 1) == 1 and pins.get("pipeline", 0) in (0,):
                yield {"vpp": 1, "pipeline": 0}
            return
        for order, name in enumerate(ORDERS):
            if order not in self.allowed("pipeline", [order]) or (name == "gpipe" and "pipeline" not in pins):
                continue
            if name == "interleaved":
                vpps = [v for v in range(2, layers + 3) if layers % (pp * v) == 0 or (layers + 2) % (pp * v) == 0]
                vpps = vpps if micro % pp == 0 else []
            elif name in ("zb-v", "dualpipe-v"):
                vpps = [2] if layers % (2 * pp) == 0 or (layers + 2) % (2 * pp) == 0 else []
            elif name == "dualpipe":
                vpps = [1, 2] if pp % 2 == 0 and micro % 2 == 0 and micro >= 2 * pp else []
            else:
                vpps = [1]
            for vpp in self.allowed("vpp", vpps):
                if pp * vpp > 1024:
                    continue
                for first, last in self.divisions(layers, pp * vpp):
                    yield {"vpp": vpp, "pipeline": order, "first_layers": first, "last_layers": last}

    @staticmethod
    def divisions(layers, chunks):
        got = {(0, 0)}
        if chunks == 2:
            got |= {(a, layers - a) for a in range(1, layers)}
        elif chunks > 2:
            mean = -(-layers // chunks)
            for m in (mean, mean + 1):
                rest = layers - (chunks - 2) * m
                got |= {(a, rest - a) for a in range(0, m + 1) if 0 <= rest - a <= m}
        return sorted(got)

    def recomputations(self, s):
        """All ways to recompute and to keep on the host; refused ones are found by predict."""
        case = self.case
        layers, pin = case["info"]["layers"], case["pins"].get("recompute")
        chunks = s["pp"] * s["vpp"]
        longest = max(-(-layers // chunks) + 1, s.get("first_layers", 0), s.get("last_layers", 0)) if chunks > 1 else layers
        ways = []
        if pin in (None, NONE, FULL):
            ways.append({"recompute": NONE})
        if pin in (None, SELECTIVE):
            ways.append({"recompute": SELECTIVE})
        if pin in (None, ALTERNATE) and (pin is not None or case["framework"] == "torchtitan"):
            ways.append({"recompute": ALTERNATE})
        if pin == HALF or (pin is None and case["framework"] in ("torchtitan", "automodel")):
            ways.append({"recompute": HALF})
        if pin in (None, FULL):
            ways += [{"recompute": FULL, "recompute_layers": n} for n in range(1, longest)] + [{"recompute": FULL}]
            if s["pp"] > 1 and not case["uniform"] and case["framework"] in case["by_stage"] and \
                    ORDERS[s["pipeline"]] != "dualpipe":
                if (longest + 1) ** s["pp"] <= 64 and ORDERS[s["pipeline"]] not in ("zb-h1", "zb-2p"):
                    ways += [{"stage_recompute": list(v)} for v in itertools.product(range(longest + 1), repeat=s["pp"])
                             if len(set(v)) > 1]
                else:
                    ways.append({"fewest": longest})
        return ways

    def offloads(self, s, way):
        """What of a plan with this recomputation may be on the host; fields that are pinned are there in every plan."""
        what, pins, layers = self.case["offload"], self.case["pins"], self.case["info"]["layers"]
        acts, parts = [{}], [{}]
        if "activations" in what:
            pinned = [{"offload": 1, **{k: pins[k] for k in ("offload_layers",) if k in pins}}] \
                if "offload_layers" in pins or "offload_modules" in self.fixed else []
            longest = -(-layers // (s["pp"] * s["vpp"])) + (s["pp"] > 1)
            acts = pinned or [{}, {"offload": 1}] + [{"offload": 1, "offload_layers": n} for n in range(1, longest + 1)]
            if way.get("recompute") not in (NONE, SELECTIVE, ALTERNATE) and way != {"recompute": FULL}:
                acts = [] if pinned else [{}]
        if "optimizer" in what:
            pinned = [pins["offload_fraction"]] if "offload_fraction" in pins else []
            parts = [{"offload_fraction": f} for f in pinned] or [{}] + [{"offload_fraction": f} for f in (.25, .5, .75, 1.0)]
        return [{**a, **f, "offload": a.get("offload", 0) | (2 if f else 0)} for a in acts for f in parts]

    def zeros(self, s):
        replicas = s["dp"] * s["cp"]
        expert = self.case["info"]["experts"] and s["tp"] * s["cp"] * s["dp"] // s["ep"] > 1
        if "zero" in self.case["pins"]:
            return [self.case["pins"]["zero"]]
        return [0, 1, 2, 3] if replicas > 1 or expert else [0, 1]

    def run(self, fields):
        """The plan with the overlap that its framework can have, or None where it cannot run."""
        wanted = self.case["pins"].get("overlap")
        if wanted is not None:
            p = self.price(**fields, overlap=wanted)
            return p if p and not p.refusal else None
        p = self.price(**fields)
        if not p or p.refusal:
            return None
        more = TURNS_ON.get(self.case["framework"], 0)
        bits = [1 << b for b in range(len(OVERLAP)) if more >> b & 1 and not p.overlap >> b & 1]
        for n in range(len(bits), 0, -1):
            for some in itertools.combinations(bits, n):
                q = self.price(**fields, overlap=p.overlap | sum(some))
                if q and not q.refusal:
                    return q
        return p

    def bases(self):
        """Plans but for recomputation and what is on the host."""
        halves = self.allowed("halves", [0, 1]) if self.case["execution"] == "scheduled" else [None]
        for s in self.shapes():
            for o in self.orders(s):
                for zero in self.zeros(s):
                    for h in halves:
                        if not (h and s["mbs"] % 2):
                            yield {**s, **o, "zero": zero, **({} if h is None else {"halves": h})}

    def size(self, most):
        """Predictions that the case takes, about; counted up to most."""
        count = 0
        for base in self.bases():
            for way in self.recomputations(base):
                count += len(list(self.offloads(base, way)))
            if count > most:
                break
        return count

    def plans(self):
        """Every plan of the space that its framework can run."""
        pinned_full = self.case["pins"].get("recompute") == FULL
        for base in self.bases():
            alike = {}  # recomputed layers, the same in all stages: the plan
            if pinned_full and not any(self.run({**base, **way}) for way in ({"recompute": FULL}, {"recompute": FULL, "recompute_layers": 1})):
                continue
            full = []
            for way in self.recomputations(base):
                for away in self.offloads(base, way):
                    if pinned_full and way == {"recompute": NONE} and away["offload"] & 1 and not self.run({**base, "recompute": FULL, **away}):
                        continue  # none of the layers, where some could be
                    if "fewest" in way:
                        got = self.fewest(base, away, alike, way["fewest"])
                    else:
                        got = self.run({**base, **way, **away})
                    if not got:
                        continue
                    if not away["offload"] and way.get("recompute") == NONE:
                        alike[0] = got
                    elif not away["offload"] and way.get("recompute") == FULL:
                        alike[way.get("recompute_layers", 1 << 20)] = got
                    # by the question's text slower than without; it may hide more of the exchange where another stage is the slowest
                    got.slower = self.case["objective"] != "memory" and 0 in alike and alike[0] is not got and alike[0].peak <= alike[0].usable
                    if self.case["objective"] == "memory" and way.get("recompute", FULL) in (NONE, FULL) and not away["offload"]:
                        full.append(got)
                    else:
                        yield got
            for p in full:
                p.slower = p is not min(full, key=lambda p: p.peak)  # the first: with the fewest layers
                yield p

    def fewest(self, base, away, alike, longest):
        """The fewest layers of each stage with which it fits."""
        if away.get("offload"):
            return None
        counts = []
        for stage in range(base["pp"]):
            n = next((k for k in sorted(alike) if alike[k].stages[stage] <= alike[k].usable), None)
            if n is None:
                return None
            counts.append(min(n, longest))
        return self.run({**base, "stage_recompute": counts}) if len(set(counts)) > 1 else None

    def value(self, p):
        return {"time": p.step_s, "memory": p.peak, "cost": p.step_s * p.devices}[self.case["objective"]]

    def best(self):
        """The best value, its plan, whether it is late; None where nothing fits; and the number of plans."""
        q = self.case["question"]
        fit, beside, count, least = [], [], 0, None
        for p in self.plans():
            count += 1
            if least is None or p.peak < least:
                least = p.peak
            if p.peak <= p.usable and not p.slower:
                fit.append(p)
            elif p.peak <= p.usable:
                beside.append(p)
        if beside and self.case["objective"] != "memory" and min(map(self.value, beside)) < min(map(self.value, fit)):
            least_of = min(map(self.value, beside)) / min(map(self.value, fit))
            print(f"    {self.case['i']}: with recomputation {100 * (1 - least_of):.4f}% better, though it fits without")
        late = False
        if self.case["deadline_s"] and fit:
            steps = self.case["tokens"] / (q["batch"] * q["seq"])
            intime = [p for p in fit if p.step_s * steps <= self.case["deadline_s"]]
            late = not intime
            if late:
                return min(fit + beside, key=lambda p: p.step_s), True, count, least, fit
            fit = intime
        return (min(fit, key=self.value) if fit else None), late, count, least, fit


    # ---- what place says

    def place(self, tie=0):
        o = ffi.new("struct pz_training_place_options *", lib.pz_training_place_options_default())
        case = self.case
        fields = dict(case["pins"])
        o.plan = self.plan({k: v for k, v in fields.items()})[0]
        given = lib.pz_plan_given(ffi.addressof(o, "plan"))
        o.pinned = given & lib.pz_plan_searched()
        if "overlap" in fields:
            o.pinned |= 1 << lib.PZ_PLAN_OVERLAP
        if case["offload"]:
            o.plan.offload = (1 if "activations" in case["offload"] else 0) | (2 if "optimizer" in case["offload"] else 0)
        o.risk = 1  # none: the oracle has steps as they are predicted
        o.plan.dispatcher = {"nemo": 2, "hai-llm": 1, "automodel": 1}.get(case["framework"], 0)
        o.plan.cuda_graphs = 0
        o.objective = ["time", "memory", "cost"].index(case["objective"])
        o.tie, o.top, o.threads = tie, 1, 1
        o.uniform, o.all_devices = case["uniform"], case["all_devices"]
        o.tokens, o.deadline_s = case["tokens"], case["deadline_s"]
        out = ffi.new("struct pz_training_plans **")
        self.err = ffi.new("struct pz_error *")
        rc = lib.pz_training_place(self.model, self.chip._c, self.net._c if self.net else ffi.NULL, o, out, self.err)
        if rc:
            return {"error": ffi.string(self.err.message).decode(), "status": rc, "line": ffi.string(self.err.origin_file).decode() if self.err.origin_file else "", "n": self.err.origin_line}
        r = out[0]
        got = {"n": r.n, "late": bool(r.late), "plans": r.certificate.plans, "gap": r.certificate.gap}
        run = r.runs[0] if r.n else r.least
        if run != ffi.NULL:
            p = run.p
            got.update(step_s=p.step_s, peak=p.needed_bytes, usable=p.usable_bytes, devices=run.plan.tp * run.plan.cp * run.plan.pp * run.plan.dp,
                       refusal=ffi.string(run.refusal).decode(), mfu=p.mfu, hfu=p.hfu)
            got["parts"] = [getattr(p.parts, f) for f, _ in ffi.typeof("struct pz_training_parts").fields]
            got["plan"] = {f: getattr(run.plan, f) for f in ("tp", "cp", "pp", "dp", "mbs", "ep", "vpp", "pipeline", "first_layers",
                                                                "last_layers", "recompute")}
            line = ffi.new("char[900]")
            got["line"] = ffi.string(lib.pz_plan_line(ffi.addressof(run, "plan"), True, line, 900)).decode()
            got["text"] = ffi.string(lib.pz_plan_text(ffi.addressof(run, "plan"), line, 900)).decode()
        lib.pz_training_plans_free(r)
        return got


# ---- what no step can be, by formulas of this file

def floors(case, chip, plan):
    """Seconds that no step is below, by name: FLOP at the peak, bytes at the full rate of the fastest link and of HBM."""
    size = case["info"].get("size")
    if not size:
        return {}
    width, inner, layers = size  # inner: of query and output projections
    q, fixed = case["question"], case["fixed"]
    devices = plan["tp"] * plan["cp"] * plan["pp"] * plan["dp"]
    weights = 2 * width * inner * layers
    passes = 2 if "peft" in fixed else 3
    peak = chip.flop_per_s * {"fp8": 2, "nvfp4": 4}.get(fixed.get("precision"), 1)
    rates = [level["bytes_per_s"] for level in case["cluster"]["levels"]] if case["cluster"] else [chip.link.bytes_per_s]
    micro = q["batch"] // plan["dp"] // plan["mbs"]
    least = {"FLOP at the peak": passes * 2 * weights * q["batch"] * q["seq"] / devices / peak,
             "tensor-parallel bytes": layers / plan["pp"] * micro * 4 * (1 - 1 / plan["tp"]) * plan["mbs"] * q["seq"] / plan["cp"] *
             width / max(rates)}
    if "peft" not in fixed:
        own = weights / plan["tp"] / plan["pp"]
        least["gradients' bytes"] = 2 * own * (1 - 1 / plan["dp"]) / max(rates)
        least["the optimizer's bytes"] = (2 if case["offload"] else 4) * own / plan["dp"] / plan["cp"] / chip.hbm_bytes_per_s
    return least


def laws(case, chip, got):
    wrong = [f"{what} take {s:.4g} s, the step {got['step_s']:.4g}" for what, s in floors(case, chip, got["plan"]).items() if s > got["step_s"]]
    if not 0 < got["mfu"] <= got["hfu"] * (1 + 1e-12) or got["hfu"] > 1:
        wrong.append(f"MFU {got['mfu']}, HFU {got['hfu']}")
    if abs(sum(got["parts"]) / got["step_s"] - 1) > 1e-9 or min(got["parts"]) < 0:
        wrong.append(f"parts {got['parts']} of {got['step_s']}")
    if got["peak"] > got["usable"] or got["usable"] > chip.hbm_bytes:
        wrong.append(f"{got['peak']} of {got['usable']} bytes, HBM {chip.hbm_bytes}")
    if got["devices"] > case["question"]["devices"]:
        wrong.append(f"{got['devices']} devices")
    return "; ".join(wrong)


def simplicity(plan):
    """Of equal plans the one with the least is told (doc/place.md, ties), as far as recomputation."""
    degrees = [plan["tp"], plan["cp"], plan["pp"]]
    how = [NONE, SELECTIVE, ALTERNATE, HALF, FULL].index(plan.get("recompute", FULL))
    return (sum(d > 1 for d in degrees + [plan["ep"]]), math.prod(degrees), plan["ep"], plan["vpp"],
            ORDERS[plan["pipeline"]] not in ("1f1b", "interleaved"), bool(plan.get("first_layers") or plan.get("last_layers")), how)


# ---- random questions

def model_of(r, folder, i):
    family = r.choice(["gpt2", "llama", "llama", "mixtral", "qwen3_moe", "deepseek_v3", "nemotron_h", "qwen3_next", "bert", "gemma2"])
    layers = r.choice([2, 3, 4, 4, 6, 8])
    heads = r.choice([4, 6, 8, 12])
    kv = r.choice([k for k in (1, 2, 4, heads) if heads % k == 0])
    width, vocab = r.choice([64, 128, 256, 512]) * heads, r.choice([512, 1000, 32000])
    experts = r.choice([4, 6, 8])
    rope = {"vocab_size": vocab, "hidden_size": width, "num_hidden_layers": layers, "num_attention_heads": heads,
            "num_key_value_heads": kv, "max_position_embeddings": 8192, "intermediate_size": r.choice([2, 3, 4]) * width,
            "tie_word_embeddings": r.random() < 0.3, "rms_norm_eps": 1e-5, "hidden_act": "silu"}
    info = {"layers": layers, "experts": 0, "family": family, "mtp": 0}
    if family in ("gpt2", "bert", "llama", "mixtral", "qwen3_moe", "gemma2"):
        info["size"] = width, heads * (64 if family in ("qwen3_moe", "gemma2") else width // heads), layers
    if family == "gpt2":
        config = {"model_type": "gpt2", "n_layer": layers, "n_embd": width, "n_head": heads, "n_positions": 8192, "vocab_size": vocab}
    elif family == "bert":
        config = {"model_type": "bert", "hidden_size": width, "num_hidden_layers": layers, "num_attention_heads": heads,
                  "intermediate_size": 4 * width, "max_position_embeddings": 8192, "vocab_size": vocab, "type_vocab_size": 2}
    elif family == "llama":
        config = {"model_type": "llama", **rope}
    elif family == "gemma2":
        config = {"model_type": "gemma2", **rope, "head_dim": 64, "sliding_window": 128}
    elif family == "mixtral":
        config = {"model_type": "mixtral", **rope, "num_local_experts": experts, "num_experts_per_tok": 2}
        info["experts"] = experts
    elif family == "qwen3_moe":
        config = {"model_type": "qwen3_moe", **rope, "num_experts": experts, "num_experts_per_tok": 2, "head_dim": 64,
                  "moe_intermediate_size": width // 2, "decoder_sparse_step": 1, "mlp_only_layers": [], "norm_topk_prob": True}
        info["experts"] = experts
    elif family == "deepseek_v3":
        info["mtp"] = r.choice([0, 1])
        dense = r.choice([0, 1])
        config = {"model_type": "deepseek_v3", **{**rope, "num_key_value_heads": heads}, "q_lora_rank": 128, "kv_lora_rank": 64, "qk_nope_head_dim": 64,
                  "qk_rope_head_dim": 32, "v_head_dim": 64, "n_routed_experts": experts, "n_shared_experts": 1,
                  "num_experts_per_tok": 2, "moe_intermediate_size": width // 2, "first_k_dense_replace": dense,
                  "num_nextn_predict_layers": info["mtp"], "n_group": 1, "topk_group": 1, "moe_layer_freq": 1,
                  "scoring_func": "sigmoid", "topk_method": "noaux_tc", "routed_scaling_factor": 2.5, "norm_topk_prob": True}
        info["experts"] = experts
    else:
        data = os.path.join(os.environ.get("PHAZE_SOURCE", "."), "tests", "data", "hybrid")
        name = {"nemotron_h": "megatron-test", "qwen3_next": "qwen3-next-80b-a3b"}[family]
        with open(f"{data}/{name}.config.json") as f:
            config = json.load(f)
        if family == "nemotron_h":
            pattern = "".join(r.choice("MM*-") for _ in range(layers))
            if "*" not in pattern or "M" not in pattern:
                pattern = "M*" + pattern[2:]
            config.update(num_hidden_layers=layers, hybrid_override_pattern=pattern)
        else:
            layers = info["layers"] = 4 * r.choice([1, 2])
            config.update(num_hidden_layers=layers, num_experts=16, hidden_size=512, moe_intermediate_size=128)
            config.pop("layer_types", None)
            info["experts"] = 16
    path = os.path.join(folder, f"model{i}.config.json")
    with open(path, "w") as f:
        json.dump(config, f)
    return path, info


def case_of(r, folder, i):
    path, info = model_of(r, folder, i)
    devices = r.choice([1, 2, 3, 4, 4, 6, 8, 8, 12, 16])
    seq = r.choice([64, 96, 128, 256, 1024, 2048])
    batch = r.choice([1, 2, 4, 6, 8, 12, 16])
    framework = r.choice(["megatron", "megatron", "nemo", "torchtitan", "deepspeed", "maxtext", "hai-llm", "zero-bubble", "automodel",
                          "compiled", "torch", "transformers", "llm-foundry", "mindformers", "paxml", "jax"])
    chip = r.choice(["h100", "h100", "a100-80", "b200", "gb200", "h200", "tpuv5p", "mi300x", "v100-32"])
    if framework == "compiled":
        chip = r.choice(["h100", "tpuv4-real", "tpuv6e"])
    inner = r.choice([2, 4, 4, 8, 6])
    levels = [{"name": "node", "devices": inner, "bytes_per_s": r.choice([1e10, 1e11, 4e11]), "latency_s": 1e-6}]
    if r.random() < 0.7:
        levels.append({"name": "rack", "devices": inner * r.choice([2, 3, 4]), "bytes_per_s": levels[0]["bytes_per_s"] / r.choice([1.5, 4, 10]),
                       "latency_s": r.choice([0, 2e-6, 1e-5])})
    if len(levels) > 1 and r.random() < 0.3:
        levels.append({"name": "room", "devices": levels[-1]["devices"] * r.choice([2, 3]),
                       "bytes_per_s": levels[-1]["bytes_per_s"] / r.choice([1, 3]), "latency_s": 2e-5})
    cluster = {"name": "random", "about": "", "devices": levels[-1]["devices"], "levels": levels}
    devices = min(devices, cluster["devices"])
    fixed = {"framework": framework}
    fp8 = chip in ("h100", "h200", "b200", "gb200", "mi300x")
    if r.random() < 0.25 and fp8:
        fixed["precision"] = "fp8"
        if r.random() < 0.6:
            fixed["fp8_recipe"] = r.choice(["delayed", "current", "blockwise"] + (["mxfp8"] if "b200" in chip else []))
        if r.random() < 0.3:
            fixed["bf16_layers"] = "1"
    elif r.random() < 0.3 and "b200" in chip:
        fixed["precision"] = "nvfp4"
    attention = "flash"
    if r.random() < 0.15:
        attention = fixed["attention"] = "standard"
    elif framework in ("zero-bubble", "jax"):
        attention = fixed["attention"] = r.choice(["standard", "flash"])
    if r.random() < 0.25:
        fixed["cp_form"] = "all-to-all"
    if info["experts"]:
        if r.random() < 0.4:
            fixed["dispatcher"] = r.choice(["alltoall", "deepep", "hybridep"])
        if r.random() < 0.3:
            fixed["imbalance"] = r.choice(["1.2", "1.5"])
    if info["mtp"] and r.random() < 0.6:
        fixed["mtp"] = "on"
    if r.random() < 0.15:
        fixed["grad_bytes"] = r.choice(["2", "4"])
    if r.random() < 0.15:
        fixed["moment_bytes"] = r.choice(["1", "2"])
    if r.random() < 0.1:
        fixed["main_params"] = r.choice(["fp16", "remainders"])
    if r.random() < 0.1:
        fixed["fused_loss"] = "on"
    if r.random() < 0.1:
        fixed["act_precision"] = "fp8"
    if r.random() < 0.1 and framework in ("megatron", "nemo"):
        fixed["execution"] = "graph"
    elif r.random() < 0.1 and framework in ("megatron", "nemo"):
        fixed["cuda_graphs"] = "attn"
    if r.random() < 0.12 and framework == "torchtitan":
        fixed["execution"] = "eager"
    if r.random() < 0.15 and framework in ("nemo", "torchtitan", "automodel", "transformers", "torch"):
        fixed["peft"] = r.choice(["lora:8:all", "lora:4:attention", "lora:12:linear_qkv", "lora:16:all:0.1"])
    if r.random() < 0.15 and devices >= 4:
        fixed["shard"] = r.choice(["2", "4"])
    pins = {}
    for name, values in (("overlap", [0, 1, 3, 9, 11, 31]), ("recompute", [NONE, SELECTIVE, FULL, ALTERNATE, HALF])):
        if r.random() < 0.12:
            pins[name] = r.choice(values)
    if pins.get("recompute") == SELECTIVE and r.random() < 0.5:
        fixed["recompute_modules"] = r.choice(["layernorm", "mlp", "core_attn", "moe_act", "moe", "layernorm,core_attn", "shared_experts", "mla_up_proj"])
    offload = []
    if r.random() < 0.2:
        offload = r.choice([["activations"], ["optimizer"], ["activations", "optimizer"]])
        if "activations" in offload and r.random() < 0.3:
            if r.random() < 0.5:
                pins["offload_layers"] = 1
            else:
                fixed["offload_modules"] = r.choice(["core_attn", "attn_proj", "qkv_linear,core_attn"])
        if "optimizer" in offload and r.random() < 0.3:
            pins["offload_fraction"] = r.choice([0.5, 0.3])
    case = {"i": i, "model": path, "info": info, "chip": chip, "cluster": cluster if r.random() < 0.9 else None, "framework": framework,
            "question": {"devices": devices, "batch": batch, "seq": seq}, "fixed": fixed, "pins": pins, "attention": attention,
            "execution": "scheduled" if framework == "compiled" else "", "offload": offload, "uniform": r.random() < 0.1,
            "all_devices": r.random() < 0.3, "objective": r.choice(["time", "time", "time", "memory", "cost"]),
            "deadline_s": 0, "tokens": 0,
            "by_stage": {"hai-llm", "zero-bubble", "llm-foundry", "transformers", "torch", "mindformers", "compiled", "paxml", "jax"}}
    return case


PINNED = ("tp", "sp", "cp", "ep", "pp", "vpp", "pipeline", "dp", "mbs", "zero", "halves")


def limits(r, case, most):
    """Pins, memory and a deadline near what plans of the case have; more pins where there are too many plans."""
    some = []
    for base in Oracle(case, 0).bases():
        some.append(base)
        if len(some) == 20000:
            break
    if not some:
        return
    probe, way = Oracle(case, 1 << 30), {"recompute": case["pins"].get("recompute", NONE)}
    runs = (b for b in r.sample(some, min(30, len(some))) if probe.run({**b, **way}))
    base = next(runs, some[0])
    order = list(PINNED)
    r.shuffle(order)
    for n, name in enumerate(order):
        small = Oracle(case, 0).size(most) <= most
        if small and n > 1 or (small and r.random() < 0.6):
            break
        if name in base and (name != "ep" or case["info"]["experts"]):
            case["pins"][name] = base[name] if r.random() < 0.97 or name in ("sp", "halves") else base[name] + 1
    probe = Oracle(case, 1 << 30)
    some = [b for b in itertools.islice(probe.bases(), 20000)]
    p = None
    for _ in range(20):
        if some and not p:
            b = r.choice(some)
            p = probe.run({**b, "recompute": case["pins"].get("recompute", NONE)})
    if not p:
        return
    if r.random() < 0.65:
        chip = phaze.Chip.load(case["chip"])
        stacks = chip.to_dict()["hbm"]["stacks"] or 1
        want = p.peak * r.choice([0.7, 0.9, 0.99, 1.02, 1.3, 2])
        part = max(chip.hbm_bytes - (p.usable - want), want) / stacks
        for _ in range(3):  # usable memory is not a fixed part of HBM
            case["chip"] = chip.replace(hbm={"bytes_per_stack": int(part)})
            usable = Oracle(case, 9).price(**{**b, "recompute": case["pins"].get("recompute", NONE)}).usable
            part = max(part + (want - usable) / stacks, 1e6)
    if r.random() < 0.2:
        q = case["question"]
        case["tokens"] = 1e9
        case["deadline_s"] = p.step_s * 1e9 / q["batch"] / q["seq"] * r.choice([0.8, 1.1, 2])


def told(case):
    chip = case["chip"] if isinstance(case["chip"], str) else f"{case['chip'].name} {case['chip'].hbm_bytes:.6g} B"
    return " ".join(str(x) for x in (case["i"], case["info"], chip, case["cluster"] and case["cluster"]["levels"], case["question"], case["fixed"],
                                     {k: v for k, v in case["pins"].items()}, case["offload"], case["objective"], "uniform" * case["uniform"],
                                     "all" * case["all_devices"], case["deadline_s"] or ""))


def judge(oracle, verbose):
    """'' where place agrees with every plan, else what differs."""
    case = oracle.case
    best, late, count, least, fit = oracle.best()
    oracle.count, oracle.feasible = count, len(fit)
    got = oracle.place()
    if verbose:
        print(case["i"], oracle.calls, count, len(fit), got.get("plans"), got.get("error", "")[:150])
    if not count:
        return "" if "error" in got else f"no plan at all, but place has {got}"
    if "error" in got:
        return f"place: {got['error']}; {count} plans, {len(fit)} fit"
    if best is None:
        if got["n"]:
            return f"nothing fits of {count}, but place has {got}"
        if abs(got["peak"] / least - 1) > 1e-12:
            return f"least memory {least}, place has {got}"
        return ""
    if not got["n"]:
        return f"{len(fit)} of {count} fit, place has none; best {best.step_s} {best.fields}"
    value = {"time": got["step_s"], "memory": got["peak"], "cost": got["step_s"] * got["devices"]}[case["objective"]]
    want = oracle.value(best)
    if late:
        value, want = got["step_s"], best.step_s
    if late != got["late"]:
        return f"late {late}, place says {got}"
    if abs(value / want - 1) > 1e-12:
        return f"best {want} {best.fields} overlap {best.overlap}; place {value}, {(value / want - 1) * 100:+.4f}%, {got}"
    if got["refusal"]:
        return f"place's plan is refused: {got}"
    if got["gap"]:
        return f"gap {got['gap']}"
    if case["objective"] == "time" and not late:
        simple = oracle.place(0.01)
        want = min(simplicity(p.fields) for p in fit if p.step_s <= best.step_s * 1.01)
        if simplicity(simple["plan"]) != want or simple["step_s"] > best.step_s * 1.01:
            return f"simplest {want}, place has {simplicity(simple['plan'])} {simple}"
    return laws(case, oracle.chip, got)


def main():
    cases = int(sys.argv[1]) if len(sys.argv) > 1 else 3
    seed = int(sys.argv[2]) if len(sys.argv) > 2 else 1
    most = int(sys.argv[3]) if len(sys.argv) > 3 else 6000
    only = int(os.environ.get("ONLY", -1))
    verbose = bool(os.environ.get("VERBOSE"))
    wrong = done = skipped = calls = feasible = 0
    with tempfile.TemporaryDirectory() as folder:
        i = 0
        while done < cases:
            i += 1
            r = random.Random(f"{seed}-{i}")
            case = case_of(r, folder, i)
            if only >= 0 and i != only:
                if i > only:
                    break
                continue
            try:
                limits(r, case, most)
                oracle = Oracle(case, most)
                what = judge(oracle, verbose)
            except TooMany:
                skipped += 1
                continue
            except ValueError as e:
                print("case", i, e)
                skipped += 1
                continue
            calls += oracle.calls
            done += oracle.count > 0
            feasible += oracle.feasible > 0
            if what:
                wrong += 1
                print("DIFFERS", told(case), "\n   ", what, flush=True)
            if verbose and only >= 0:
                print(told(case))
                for k, v in oracle.why.items():
                    print("   ", k, v)
    print(f"{done} questions with plans ({feasible} with one that fits) of {i}, {calls} predictions, {skipped} too large, {wrong} differ")
    return wrong > 0


if __name__ == "__main__":
    sys.exit(main())
