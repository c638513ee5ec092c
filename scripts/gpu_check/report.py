#!/usr/bin/env python3
"""Makes Markdown tables of the results of scripts/gpu_check.sh, on any machine with Python 3.

    report.py RESULTS --out FILE

RESULTS has two files for each part that ran: PART.json, its status, and PART.jsonl, its records.
"""

import argparse
import json
import os
import pathlib
import re
import statistics
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from pytorch_bench import report as pytorch_report  # noqa: E402  (needs the path)

PARTS = ("device", "first", "step", "attention_causal", "attention_full", "kernels", "tests", "memcheck", "modes", "losses",
         "processes", "train", "step_images", "attention_window", "ops_bf16", "module", "ops_f32", "memcheck_all", "racecheck",
         "synccheck", "pytorch")
MIB = 1 << 20
MOST_OPS = 12  # number of ops of a step's profile that have a row of their own
MOST_KERNELS = 30  # number of kernels of a step that have one


def table(header, rows):
    return pytorch_report.table(header, [[str(cell) for cell in row] for row in rows])


def read_lines(path):
    """The JSON objects of a file; an empty list if there is no file."""
    if not path.exists():
        return []
    lines = path.read_text(encoding="utf-8").splitlines()
    return [json.loads(line) for line in lines if line.startswith("{") and line.endswith("}")]  # the last line may be incomplete


def percent(share):
    return f"{share:.1%}"


def optional(value, show):
    return "" if value is None else show(value)


def stem(path):
    return pathlib.PurePath(path).stem


def model_of(record):
    """The name of a step's model: its configuration's, unless a preset is set beside it."""
    presets = [setting.split("=", 1)[1] for setting in record.get("overrides", ()) if setting.startswith("model.preset=")]
    return presets[-1] if presets else stem(record["config"])


class Results:
    """The records and the statuses of a results folder."""

    def __init__(self, folder):
        self.statuses = [status for part in PARTS for status in read_lines(folder / f"{part}.json")]
        self.records = {part: read_lines(folder / f"{part}.jsonl") for part in PARTS}

    def __getitem__(self, part):
        return self.records[part]


def head(results):
    device = (results["device"] or [{}])[0]
    dates = sorted(status["date"] for status in results.statuses) or ["unknown"]
    lines = ["# On a GPU", "",
             "Made by `scripts/gpu_check.sh`; docs/benchmarks/README.md says what the commands count.", "",
             f"- date: {dates[0]} to {dates[-1]}",
             f"- GPU: {device.get('gpu', 'unknown')}"]
    if device.get("nvidia_smi"):
        lines.append(f"- driver, highest clock rate, power limit: {device['nvidia_smi']}")
    lines += [f"- CPU: {device.get('cpu', 'unknown')}, {device.get('cores', '?')} cores",
              f"- dense attention in bfloat16: {device.get('dense_attention', 'unknown')}",
              f"- libraries: {'; '.join(device.get('libraries', ['unknown']))}",
              f"- moh {device.get('moh', '?')}, commit {device.get('commit', 'unknown')}",
              f"- command: `{device.get('command', 'unknown')}`"]
    return "\n".join(lines)


def parts_section(results):
    rows = []
    for status in results.statuses:
        summary = results[status["part"]] and results[status["part"]][0].get("summary", "")
        rows.append([status["part"], status["status"], status["seconds"], status.get("gpu_before", ""), status.get("gpu_after", ""),
                     status["reason"] or summary or ""])
    missing = [part for part in PARTS if part not in {status["part"] for status in results.statuses}]
    text = table(["part", "result", "seconds", "GPU before", "GPU after", ""], rows)
    legend = "GPU: clock rates of multiprocessors and memory, power, temperature, bit mask of the reasons that hold clocks down."
    return f"{text}\n\n{legend}" + (f"\n\nNot run: {', '.join(missing)}." if missing else "")


def first_section(results):
    rows = [[r["check"], r["result"], r["seconds"], r["says"]] for r in results["first"] if "check" in r]
    versions = [f"- {file}: {version}" for r in results["first"] for file, version in r.get("versions", {}).items()]
    return "\n\n".join(filter(None, [table(["tried", "result", "seconds", "last line"], rows), "\n".join(versions)]))


def compared_runs(records):
    rows = [[r["mode"], r["reference"], r["steps"],
             "same bits" if r["expected"] == "same" else f"losses within {r['tolerance']:g}" +
             (", other bits" if r["expected"] == "rounded" else ""),
             f"{r['loss_difference']:.2e}" if "loss_difference" in r else "did not run to the end",
             optional(r.get("norm_difference"), lambda difference: f"{difference:.2e}"),
             "yes" if r["good"] else "**no**"] for r in records]
    return table(["run", "beside", "steps", "expected", "losses differ by", "gradient norms by", "kept"], rows)


def modes_section(results):
    legend = ("moh, dense: Tiny Shakespeare in bfloat16, tiny_shakespeare_moh_50 and _dense; again: the same once more; graph: with "
              "`cuda_graph`; searched: moh with a new file of `gemm_algorithms`; read_back: with that file; tf32: float32 with "
              "`tf32`. Largest relative differences of all steps.")
    return compared_runs(results["modes"]) + "\n\n" + legend


def processes_section(results):
    legend = ("tiny_shakespeare_moh_50 in float32. host_2: two processes that share GPUs through host memory; nccl_N: N processes on a GPU "
              "each; graph: with `cuda_graph`; one_of_N: one process that computes all of their micro-batches.")
    return compared_runs(results["processes"]) + "\n\n" + legend


def losses_section(results):
    rows = [[r["model"], r["precision"], r["steps"], f"{r['early_difference']:.2e} (at most {r['early_tolerance']:g})",
             f"{r['cpu_loss']:.4f}", f"{r['gpu_loss']:.4f}", f"{r['difference']:.2e} (at most {r['tolerance']:g})",
             "yes" if r["good"] else "**no**", r["cpu_losses"]] for r in results["losses"]]
    return table(["configuration", "GPU computes in", "steps", "largest difference of the first steps' losses",
                  "validation loss, CPU in float32", "GPU", "difference", "kept", "CPU's losses made"], rows)


BY_CUDNN = "attention by cuDNN"


def attention_by(records, model, phase):
    """Who computed attention in a phase of that model's profiled step: "moh", "cuDNN", or both where layers differ."""
    ops = {op["op"]: op[f"{phase}_ms"] for r in records if model_of(r) == model
           for op in r.get("profile", {}).get("ops", [])}
    own = [name for name in ops if "attention" in name and name != BY_CUDNN and ops[name] > 0]
    cudnn = ops.get(BY_CUDNN, 0) > 0
    names = ["cuDNN"] * cudnn + ["moh"] * (not cudnn or any(name not in ("attention", "attention_packed") for name in own))
    return " + ".join(names) if own else ""


def rate_of(record):
    """Items per second of a step, with their unit: tokens or images."""
    key, = [key for key in record if key.endswith("_per_s")]
    return f"{record[key]:.0f} {key.removesuffix('_per_s')}"


def size_of(record):
    return f"{record['batch_size']} x {record.get('sequence_length', record.get('image_size'))}"


def graph_of(record):
    """Nodes of a captured step's graphs, and the time that the driver took to make them ready."""
    if "graph_nodes" not in record:
        return ""
    return f"{record['graph_nodes']} nodes, {record['graph_instantiation_ms']:.1f} ms"


def held_by(record):
    """MiB that the process holds, by what hands them out."""
    held = record.get("held_bytes")
    return held and " / ".join(f"{held[source] / MIB:.0f}" for source in ("pool", "arenas", "persistent")) or ""


def step_rows(records):
    for r in records:
        phases = [optional(r.get(f"{phase}_ms"), "{:.2f}".format) for phase in ("forward", "backward", "optimizer")]
        by = [attention_by(records, model_of(r), phase) for phase in ("forward", "backward")]
        yield [model_of(r), "replayed" if r["cuda_graph"] else "", " / ".join(by), size_of(r),
               f"{r['step_ms']:.2f}", percent(r["step_ms_spread"]), *phases, rate_of(r),
               f"{r['gflops'] / 1e3:.1f}", optional(r.get("share_of_published_peak"), percent),
               percent(r["share_of_matmul_peak"]), f"{r['peak_bytes']['total'] / MIB:.0f}", held_by(r), graph_of(r)]


def profile_table(record):
    profile = record["profile"]
    shown = profile["ops"][:MOST_OPS]
    rows = [[op["op"], f"{op['forward_ms']:.3f}", f"{op['backward_ms']:.3f}", f"{op['optimizer_ms']:.3f}",
             percent(op["share"]), optional(op.get("gflops"), lambda rate: f"{rate / 1e3:.1f}")] for op in shown]
    rest = sum(op["share"] for op in profile["ops"][MOST_OPS:])
    rows += [["other ops", "", "", "", percent(rest), ""],
             ["outside ops", "", "", "", percent(profile["other_ms"] / profile["step_ms"]), ""]]
    return (f"{model_of(record)}, share of the time by op ({profile['step_ms']:.2f} ms a step with taking times):\n\n"
            + table(["op", "forward, ms", "backward, ms", "optimizer, ms", "share", "TFLOP/s"], rows))


def step_section(part):
    def section(results):
        header = ["model", "CUDA graph", "attention forward / backward by", "batch", "step, ms", "spread", "forward", "backward",
                  "optimizer", "per second", "TFLOP/s", "MFU, published peak", "of the measured product", "peak of tensors, MiB",
                  "held: pool / arenas / persistent, MiB", "graphs, made ready in"]
        convention = ("Model FLOPs: matrix products, convolutions and the pairs of attention that mask and router leave (causal: about "
                      "half), forward times three; what is computed twice counts once. bfloat16, random data.")
        profiles = [profile_table(r) for r in results[part] if "profile" in r]
        return "\n\n".join([table(header, step_rows(results[part])), convention, *profiles])

    return section


def resources_of(row):
    """Registers, bytes of local memory, of shared memory, and resident blocks, as far as they are known."""
    keys = ("threads", "registers", "local_bytes", "shared_bytes", "resident_blocks")
    return [row.get(key, "") for key in keys]


def kernel_rows(record):
    rows = record["kernels"]["rows"]
    for r in rows[:MOST_KERNELS]:
        yield [r["kernel"], r["op"], r["phase"], f"{r['calls']:.0f}", f"{r['median_us']:.1f}", f"{r['ms']:.3f}", percent(r["share"]),
               optional(r.get("gbytes_per_s"), "{:.0f}".format), optional(r.get("share_of_copy"), percent),
               optional(r.get("op_share_of_matmul_peak"), percent), *resources_of(r)]
    if len(rows) > MOST_KERNELS:
        rest = rows[MOST_KERNELS:]
        yield [f"{len(rest)} others", "", "", f"{sum(r['calls'] for r in rest):.0f}", "", f"{sum(r['ms'] for r in rest):.3f}",
               percent(sum(r["share"] for r in rest)), *[""] * 8]


def sums_by_kernel(record):
    sums = {}
    for row in record["kernels"]["rows"]:
        calls, ms = sums.get(row["kernel"], (0, 0))
        sums[row["kernel"]] = (calls + row["calls"], ms + row["ms"])
    return sums


def kernel_differences(dense, moh):
    """What a MoH step has more than the dense one, kernel by kernel."""
    of_dense, of_moh = sums_by_kernel(dense), sums_by_kernel(moh)
    rows = [(name, *of_dense.get(name, (0, 0)), *of_moh.get(name, (0, 0))) for name in {**of_dense, **of_moh}]
    rows.sort(key=lambda row: row[2] - row[4])
    rows.append(("all", *(sum(row[i] for row in rows) for i in range(1, 5))))
    shown = [[name, f"{calls:.0f}", f"{ms:.3f}", f"{moh_calls:.0f}", f"{moh_ms:.3f}", f"{moh_ms - ms:+.3f}"]
             for name, calls, ms, moh_calls, moh_ms in rows if name == "all" or calls != moh_calls or abs(moh_ms - ms) > 1e-3]
    return (f"{model_of(moh)} beside {model_of(dense)}, by kernel, where they differ:\n\n"
            + table(["kernel", "dense, calls", "ms", "MoH, calls", "ms", "more, ms"], shown))


def searches_table(record):
    rows = [[search["gemm"], search["candidates"], f"{search['first_us']:.1f}", f"{search['best_us']:.1f}",
             f"{search['first_us'] / search['best_us']:.2f}"] for search in record["gemm_searches"]]
    return (f"{model_of(record)}, matrix multiplications, first proposal and best:\n\n"
            + table(["multiplication", "algorithms", "first, us", "best, us", "ratio"], rows))


def kernels_section(results):
    header = ["kernel", "of", "phase", "calls", "median, us", "ms a step", "share", "GB/s", "of copy", "op, of the measured product",
              "threads", "registers", "local bytes", "shared bytes", "blocks a multiprocessor"]
    texts = ["Events around each launch, without a graph. GB/s: the tensors that a launch is given, each read or written once, over "
             "its time. A launch shorter than some microseconds shows the host's time."]
    records = results["kernels"]
    for r in records:
        texts.append(f"{model_of(r)}, {r['kernels']['step_ms']:.2f} ms a step with taking times; copy "
                     f"{r['kernels']['copy_gbytes_per_s']:.0f} GB/s, product {r['matmul_peak_gflops'] / 1e3:.1f} TFLOP/s:\n\n"
                     + table(header, kernel_rows(r)))
    models = {model_of(r): r for r in records}
    for name, r in models.items():
        moh = re.compile(f"moh_{name.replace('deit', 'vit')}_[0-9]+")
        texts += [kernel_differences(r, other) for beside, other in models.items() if moh.fullmatch(beside)]
    texts += [searches_table(r) for r in records if "gemm_searches" in r]
    return "\n\n".join(texts)


def training_runs(results):
    """(model, its lines) of each run, in order."""
    runs = []
    for record in results["train"]:
        if "model" in record:
            runs.append((record["model"], []))
        elif record.get("kind") == "train":
            runs[-1][1].append(record)
    return [(model, lines) for model, lines in runs if lines]


def train_section(results):
    steps = {stem(r["config"]): r for r in results["step"] if not r["cuda_graph"]}  # training is without, too
    rows = []
    for model, lines in training_runs(results):
        speed = statistics.median(line["tokens_per_s"] for line in lines[1:] or lines)
        measured = steps.get(model)
        tokens = measured and measured["batch_size"] * measured["accumulate"] * measured["sequence_length"]
        gflops = measured and measured["flops_per_step"] / tokens * speed * 1e-9

        def share_of(peak, gflops=gflops, measured=measured):
            return percent(gflops / measured[peak]) if measured and peak in measured else ""

        rows.append([model, lines[-1]["step"], f"{lines[0]['loss']:.3f}", f"{lines[-1]['loss']:.3f}", f"{speed:.0f}",
                     share_of("published_peak_gflops"), share_of("matmul_peak_gflops"),
                     f"{max(line['peak_memory_bytes'] for line in lines) / MIB:.0f}"])
    return table(["model", "steps", "first loss", "last loss", "tokens/s", "MFU, published peak", "of the measured product",
                  "peak of tensors, MiB"], rows)


def attention_section(part):
    def section(results):
        rows = []
        for r in results[part]:
            dense = r["op"] == "attention" or r["op"] == "aggregated_attention" and r["active"] == 1
            any_order = r["op"] == "attention_in_any_order"
            form = "dense, gradients in any order" if any_order else "dense" if dense else "lists"
            rows.append([r["tokens"], r["batch"], form, percent(r["pairs_share"]), f"{r['forward_ms']:.3f}",
                         f"{r['forward_backward_ms']:.3f}", percent(r["spread"]), f"{r['forward_ratio']:.3f}",
                         f"{r['forward_backward_ratio']:.3f}", percent(r["pairs_share"] / r["forward_backward_ratio"]),
                         f"{r['forward_gflops'] / 1e3:.1f}", f"{r['forward_backward_gflops'] / 1e3:.1f}"])
        return table(["tokens", "batch", "form", "heads", "forward, ms", "forward + backward, ms", "spread", "forward to dense",
                      "both to dense", "of the ideal saving", "forward, TFLOP/s", "both, TFLOP/s"], rows)

    return section


def module_section(results):
    rows = [[r["tokens"], r["batch"], "causal" if r["causal"] else "full", percent(r["active"]), f"{r['forward_ms']:.3f}",
             f"{r['forward_backward_ms']:.3f}", percent(r["spread"]), f"{r['forward_ratio']:.3f}",
             f"{r['forward_backward_ratio']:.3f}", percent(r["achieved_of_ideal"])] for r in results["module"]]
    return table(["tokens", "batch", "mask", "heads", "forward, ms", "forward + backward, ms", "spread", "forward to dense",
                  "both to dense", "of the ideal forward saving"], rows)


def ops_section(part):
    def section(results):
        rows = [[r["op"], r["model"], r["pass"], r["shape"], f"{r['ms']:.4f}" if r["ms"] > 0 else "", percent(r["spread"]),
                 f"{r['rate']:.0f} {r['unit']}", percent(r["share"])] for r in results[part]]
        return table(["op", "of", "pass", "shape", "ms", "spread", "rate", "of the ceiling"], rows)

    return section


def pytorch_section(results):
    records = results["pytorch"]
    head_line = next((r for r in records if r["kind"] == "environment"), None)
    texts = [f"PyTorch {head_line['torch']} ({'; '.join(head_line['libraries'])})."] if head_line else []
    for case in dict.fromkeys(r["case"] for r in records if "case" in r):
        texts += [f"### {case}", pytorch_report.markdown([r for r in records if r.get("case") == case])]
    texts += [f"Not measured: {r['name']}: {r['reason']}" for r in records if r["kind"] == "failure"]
    return "\n\n".join(filter(None, texts))


SECTIONS = (("first", "What was tried first", first_section),
            ("step", "Steps of the language models and diffusion transformers", step_section("step")),
            ("kernels", "Kernels of a step", kernels_section),
            ("modes", "Modes of computing beside each other", modes_section),
            ("losses", "Losses beside the CPU's", losses_section),
            ("processes", "Several processes", processes_section),
            ("train", "Training", train_section),
            ("step_images", "Steps of the image classifiers", step_section("step_images")),
            ("attention_causal", "Attention, causal", attention_section("attention_causal")),
            ("attention_full", "Attention, full", attention_section("attention_full")),
            ("attention_window", "Aggregated attention, at the sizes of TransNeXt", attention_section("attention_window")),
            ("module", "Attention layers, router to output projection", module_section),
            ("ops_bf16", "Ops in bfloat16", ops_section("ops_bf16")), ("ops_f32", "Ops in float32", ops_section("ops_f32")),
            ("pytorch", "Beside PyTorch", pytorch_section))


def section_text(section, results):
    """A section, or why there is none: records of a part that went wrong do not cost the tables of the others."""
    try:
        return section(results)
    except (KeyError, IndexError, TypeError, ValueError, ZeroDivisionError) as reason:
        return f"No tables, as the records are not as expected: {type(reason).__name__}: {reason}"


def document(results):
    texts = [head(results), "## Parts", parts_section(results)]
    for part, title, section in SECTIONS:
        if results[part]:
            texts += [f"## {title}", section_text(section, results)]
    return "\n\n".join(texts) + "\n"


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("results", type=pathlib.Path, metavar="RESULTS")
    parser.add_argument("--out", type=pathlib.Path, required=True, metavar="FILE")
    options = parser.parse_args(arguments)
    if not options.results.is_dir():
        parser.error(f"expected a results folder, found none at {options.results}")
    text = document(Results(options.results))
    whole = options.out.with_name(options.out.name + ".new")  # an interruption leaves the old tables
    whole.write_text(text, encoding="utf-8")
    os.replace(whole, options.out)


if __name__ == "__main__":
    main()
