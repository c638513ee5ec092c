"""The paper's tables of language models, of attention's cost, and of what heads do."""

import recovery
from model_settings import preset

from . import diffusion_tables, image_tables
from .table import Row, Small, Table

TEXT = "RedPajama, Dolma and Pile in the paper's shares (configs/llm/paper_mixture.yaml); its tokenizer is not published: data.tokenizer=PATH"
LLAMA = ("Meta's LLaMA3-8B, from which the first stage begins (configs/llm/llama3_8b_continue_dense.yaml, init.from=FOLDER), and the second "
         "from its run; 400B tokens of text (data.train=PATH), the paper does not say which")
LOSS = "loss on held-out text, nats per byte, lower is better; not accuracy"
CONTINUED_DENSE, CONTINUED_MOH = recovery.CONFIGS[False]
QUERY_NORM = tuple(dict(recovery.ROUTERS)["query norm, gradients of selected heads"])
FURTHER = tuple(recovery.DENSE_FURTHER[1])
MOH_LLAMA = Small(CONTINUED_MOH, QUERY_NORM)


def full(name):
    return f"configs/llm/{name}.yaml"


def scratch(name, tokens, heads, average, config, params_m, settings=()):
    small = {100: "dense", 75: "moh_75", 50: "moh_50"}[heads]
    share = "" if heads == 100 else f" {heads}%"
    return Row(f"{'MoH-' if share else ''}{name}{share}, {tokens}", heads, {"average": average, "params_m": params_m}, full(config),
               Small(full(f"tiny_shakespeare_{small}")), settings, base=f"{name}, {tokens}")


def asks(tasks):
    """The command that gives a trained model the benchmarks, whose files the user has."""
    return (f"scripts/lm_eval.py --checkpoint RUN --tasks {tasks} --data benchmarks",)


def continued(title, source, setting, rows, tasks):
    return Table(title, source, "recovery", "average", setting, tuple(rows), data="text", needs=LLAMA,
                 evaluation=asks(tasks),
                 small_score="share of the dense model's learning that is kept, % (docs/benchmarks/continue_tuning.md); not accuracy")


def tuned_row(name, heads, average, config, small, note=""):
    return Row(name, heads, {"average": average}, full(config) if config else "", small, note=note)


def curve_point(billions, mmlu, hellaswag, truthfulqa):
    return Row(f"{billions}B tokens", 75, {"tokens_b": billions, "mmlu": mmlu, "hellaswag": hellaswag, "truthfulqa": truthfulqa},
               full("moh_llama3_8b"), MOH_LLAMA)


def layer_row(tokens, heads, ms, flops_m, memory_m):
    """A row of table 7, with the operations and the memory of the review, both in M and counted in a way that it does not say."""
    name = "multi-head" if heads == 100 else f"MoH {heads}%"
    return Row(f"{name}, {tokens} tokens", heads, {"tokens": tokens, "ms": ms, "flops_m": flops_m, "memory_m": memory_m})


def similarity(name, value, small, measure, data, config=""):
    return Row(name, None, {"value": value}, full(config) if config else "", Small(small), measure=measure, data=data)


VIT_DENSE, VIT_MOH = image_tables.DENSE, image_tables.THREE_QUARTERS  # the paper's ViT is a TransNeXt
LLM_DENSE, LLM_MOH = full("tiny_shakespeare_dense"), full("tiny_shakespeare_moh_75")
# Published: the number of tokens; learning rates and warmup, those of the run on 100B. Proposed: a run of its own, whose cosine ends with
# its last step, rather than a continuation of the run on 100B.
STEPS_200B = ("train.steps=47684",)
ATTENTION, OUTPUTS = "similarity.attention.mean.all", "similarity.outputs.mean.all"

TABLES = {
    "llm_from_scratch": Table(
        "Language models from scratch", "table 3", "training", "average", "mean accuracy of six tasks, %, 0-shot", (
            scratch("LLM-S", "100B tokens", 100, 43.9, "llm_s", 186),
            scratch("LLM-S", "100B tokens", 75, 44.6, "moh_llm_s_75", 186),
            scratch("LLM-S", "100B tokens", 50, 45.4, "moh_llm_s_50", 186),
            scratch("LLM-B", "100B tokens", 100, 47.4, "llm_b", 881),
            scratch("LLM-B", "100B tokens", 75, 47.8, "moh_llm_b_75", 882),
            scratch("LLM-B", "100B tokens", 50, 47.2, "moh_llm_b_50", 882),
            scratch("LLM-B", "200B tokens", 100, 47.9, "llm_b", 881, STEPS_200B),
            scratch("LLM-B", "200B tokens", 75, 48.5, "moh_llm_b_75", 882, STEPS_200B),
            scratch("LLM-B", "200B tokens", 50, 47.5, "moh_llm_b_50", 882, STEPS_200B),
        ), data="text", needs=TEXT, evaluation=asks("paper_table_3"), small_score=LOSS),
    "llama3_main": continued("LLaMA3-8B and MoH-LLaMA3-8B", "table 4", "mean accuracy of 14 tasks, %; 300B and 100B tokens more", (
        tuned_row("LLaMA3-8B", 100, 61.6, "", Small(CONTINUED_DENSE), "Meta's weights"),
        tuned_row("MoH-LLaMA3-8B", 75, 64.0, "moh_llama3_8b", MOH_LLAMA),
    ), "paper_table_4"),
    "llama3_stage1": continued("The dense first stage and MoH-LLaMA3-8B", "appendix, table G", "mean accuracy of 14 tasks, %", (
        tuned_row("LLaMA3-8B-stage1", 100, 64.7, "llama3_8b_continue_dense", Small(CONTINUED_MOH, FURTHER)),
        tuned_row("MoH-LLaMA3-8B", 75, 64.8, "moh_llama3_8b", MOH_LLAMA),
    ), "paper_table_g"),
    "llama3_recovery_curve": Table(
        "Scores while LLaMA3-8B becomes a MoH model", "figure 2, read off", "recovery", "mmlu",
        "accuracy, %, after so many tokens of the second stage's 100B", (
            curve_point(0, 63.0, 78.0, 41.0), curve_point(1, 64.1, 77.8, 40.2), curve_point(5, 64.9, 78.8, 41.2),
            curve_point(10, 64.7, 79.1, 43.4), curve_point(20, 64.8, 79.1, 43.5), curve_point(29, 64.9, 79.3, 43.7),
        ), data="text", needs=LLAMA, evaluation=asks("mmlu,hellaswag,truthfulqa"),
        small_score="share of the dense model's learning, %, after that share of the continuation; not accuracy"),
    "efficiency": Table(
        "Time of one attention layer", "table 7, and the review", "layer", "ms", "32 heads of 64, GPU, type and batch not stated; sparse matrices "
        "in the baseline, too", (
            *(layer_row(256, *row) for row in ((100, 0.360, 23, 998), (90, 0.352, 22, 980), (75, 0.321, 18, 978), (50, 0.225, 13, 978))),
            *(layer_row(512, *row) for row in ((100, 1.376, 83, 3356), (90, 1.351, 77, 3354), (75, 1.180, 65, 3328), (50, 0.863, 45, 3302))),
        ), evaluation=("moh bench attention --device cuda --dtype bf16 --heads 32 --head-dim 64 --tokens 256,512 --active 1.0,0.9,0.75,0.5",),
        missing=("the counting of the review's operations: 23M at 256 tokens cannot be those of the dense core, which are 4 * 32 * 256^2 * 64 = "
                 "537M for one sequence; ratios can be compared",)),
    "head_similarity": Table(
        "How alike heads are", "appendix, table B", "analysis", "value", "mean over pairs of heads, models not stated", (
            similarity("attention, ViT, multi-head", 0.5159, VIT_DENSE, ATTENTION, "images"),
            similarity("attention, ViT, MoH", 0.3978, VIT_MOH, ATTENTION, "images"),
            similarity("outputs, ViT, multi-head", 0.0411, VIT_DENSE, OUTPUTS, "images"),
            similarity("outputs, ViT, MoH", 0.0165, VIT_MOH, OUTPUTS, "images"),
            similarity("attention, LLM, multi-head", 0.4795, LLM_DENSE, ATTENTION, "text", "llm_b"),
            similarity("attention, LLM, MoH", 0.4333, LLM_MOH, ATTENTION, "text", "moh_llm_b_75"),
            similarity("outputs, LLM (DiT in the review), multi-head", 0.2550, LLM_DENSE, OUTPUTS, "text", "llm_b"),
            similarity("outputs, LLM (DiT in the review), MoH", 0.2042, LLM_MOH, OUTPUTS, "text", "moh_llm_b_75"),
        ), needs=TEXT, evaluation=("moh analyze --checkpoint RUN --out heads.json",), small_score="the same, mean over layers"),
    "feature_rank": Table(
        "Rank of the features of shared and routed heads", "review", "analysis", "value", "of 768 (ViT) and 1536 (LLM); threshold not "
        "stated", (
            similarity("ViT, shared heads", 164, VIT_MOH, "rank.shared.rank", "images"),
            similarity("ViT, routed heads", 270, VIT_MOH, "rank.routed.rank", "images"),
            similarity("LLM, shared heads", 1123, LLM_MOH, "rank.shared.rank", "text", "moh_llm_b_75"),
            similarity("LLM, routed heads", 1441, LLM_MOH, "rank.routed.rank", "text", "moh_llm_b_75"),
        ), needs=TEXT, evaluation=("moh analyze --checkpoint RUN --out heads.json",),
        small_score="number of singular values above 0.01 of the largest, mean over layers"),
    "head_load_means": Table(
        "Mean load of the routed heads in the last layer with any", "figure 3", "analysis", "value", "K over routed heads by "
        "construction", (
            Row("MoH-ViT-B 75%", 75, {"value": 0.593}, image_tables.PAPER, Small(image_tables.THREE_QUARTERS),
                preset("moh_vit_base_75"), measure="load", data="images"),
            Row("MoH-DiT-XL/2 90%", 90, {"value": 0.375}, diffusion_tables.PAPER, diffusion_tables.NINETY,
                diffusion_tables.XL_NINETY.settings, measure="load", data="images"),
            Row("MoH-LLM-B 75%", 75, {"value": 0.667}, full("moh_llm_b_75"), Small(LLM_MOH), measure="load", data="text"),
        ), needs="the data of each model's own table", evaluation=("moh analyze --checkpoint RUN --out heads.json",),
        small_score="the same, of models with other numbers of heads", items=300 * image_tables.EPOCH),
    "token_heads": Table(
        "Routed heads of each token of a sentence", "review", "checkpoint", "heads", "MoH-LLaMA3-8B, layer not stated", (
            Row("Give", 75, {"heads": (0, 3, 7, 8, 9, 12, 14, 15)}),
            Row("me", 75, {"heads": (2, 7, 8, 10, 11, 13, 14, 15)}),
            Row("a", 75, {"heads": (0, 1, 4, 5, 6, 8, 9, 12)}),
            Row("short", 75, {"heads": (1, 4, 5, 6, 9, 11, 12, 15)}),
            Row("introduction", 75, {"heads": (0, 2, 3, 6, 7, 8, 9, 11)}),
            Row("to", 75, {"heads": (1, 2, 7, 8, 10, 12, 13, 14)}),
            Row("large", 75, {"heads": (1, 6, 7, 8, 9, 11, 12, 15)}),
            Row("language", 75, {"heads": (6, 7, 8, 9, 10, 11, 12, 15)}),
            Row("model", 75, {"heads": (0, 6, 7, 8, 9, 10, 11, 12)}),
            Row(".", 75, {"heads": (0, 2, 3, 8, 9, 10, 13)}, note="printed with seven entries"),
        ), needs="the released MoH-LLaMA3-8B and any text: --checkpoint FOLDER --data FILE",
        evaluation=("moh analyze --checkpoint FOLDER data=FILE --text 'Give me a short introduction to large language model.'",)),
}
