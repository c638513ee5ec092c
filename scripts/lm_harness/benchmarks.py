"""The benchmarks of the paper's tables: their configuration in lm-evaluation-harness, their files, examples and score."""

from dataclasses import dataclass


class Refused(Exception):
    """What the user has to change."""


@dataclass(frozen=True)
class Benchmark:
    """`config`: the harness's file, below lm_eval/tasks; with a star, one for each subject, whose number of questions is its
    weight. `asked` and `shown` are the parts of the data set with the questions and with the examples. `members`: instead of
    questions of its own, the mean of others."""

    config: str = ""
    dataset: str = ""  # of Hugging Face, and the name of its part
    asked: str = "test"
    shown: str = ""
    shots: int = 0
    score: str = "acc,none"
    folder: str = ""  # of the files, if not the benchmark's name
    members: tuple = ()

    def has_subjects(self):
        return "*" in self.config


# Shots are those of the paper's tables. Where it does not say which score it reports, the score is the one that the levels of
# LLaMA3-8B fit (inferred): acc_norm of HellaSwag, LogiQA, SciQ, PIQA and ARC-Challenge, the mean of both variants of
# TruthfulQA, and strict-match of GSM8K.
BENCHMARKS = {
    "sciq": Benchmark("sciq/sciq.yaml", "allenai/sciq", shown="train", score="acc_norm,none"),
    "piqa": Benchmark("piqa/piqa.yaml", "baber/piqa", asked="validation", shown="train", score="acc_norm,none"),
    "winogrande": Benchmark("winogrande/default.yaml", "allenai/winogrande, winogrande_xl", asked="validation", shown="train"),
    "openbookqa": Benchmark("openbookqa/openbookqa.yaml", "allenai/openbookqa, main", shown="train", score="acc_norm,none"),
    "logiqa": Benchmark("logiqa/logiqa.yaml", "EleutherAI/logiqa, logiqa", shown="train", score="acc_norm,none"),
    "truthfulqa": Benchmark(members=("truthfulqa_mc1", "truthfulqa_mc2")),
    "truthfulqa_mc1": Benchmark("truthfulqa/truthfulqa_mc1.yaml", "truthfulqa/truthful_qa, multiple_choice", asked="validation",
                                folder="truthfulqa"),
    "truthfulqa_mc2": Benchmark("truthfulqa/truthfulqa_mc2.yaml", "truthfulqa/truthful_qa, multiple_choice", asked="validation",
                                folder="truthfulqa"),
    "mmlu": Benchmark("mmlu/default/mmlu_*.yaml", "cais/mmlu, SUBJECT", shown="dev", shots=5),
    "ceval": Benchmark("ceval/ceval-valid_*.yaml", "ceval/ceval-exam, SUBJECT", asked="val", shown="dev", shots=5),
    "cmmlu": Benchmark("cmmlu/cmmlu_*.yaml", "haonan-li/cmmlu, SUBJECT", shown="dev", shots=5),
    "gsm8k": Benchmark("gsm8k/gsm8k.yaml", "openai/gsm8k, main", shown="train", shots=8, score="exact_match,strict-match"),
    "gsm8k_cot": Benchmark("gsm8k/gsm8k-cot.yaml", "openai/gsm8k, main", shots=8, score="exact_match,strict-match", folder="gsm8k"),
    "hellaswag": Benchmark("hellaswag/hellaswag.yaml", "Rowan/hellaswag", asked="validation", shown="train", shots=10,
                           score="acc_norm,none"),
    "boolq": Benchmark("super_glue/boolq/default.yaml", "aps/super_glue, boolq", asked="validation", shown="train", shots=32),
    "lambada": Benchmark("lambada/lambada_openai.yaml", "EleutherAI/lambada_openai, default"),
    "nq": Benchmark("nq_open/nq_open.yaml", "google-research-datasets/nq_open", asked="validation", shown="train", shots=32,
                    score="exact_match,remove_whitespace"),
    "arc_easy": Benchmark("arc/arc_easy.yaml", "allenai/ai2_arc, ARC-Easy", shown="train"),
    "arc_challenge": Benchmark("arc/arc_challenge.yaml", "allenai/ai2_arc, ARC-Challenge", shown="train", shots=25,
                               score="acc_norm,none"),
    "wikitext": Benchmark("wikitext/wikitext.yaml", "EleutherAI/wikitext_document_level, wikitext-2-raw-v1",
                          score="word_perplexity,none"),
}


def leaves(name):
    """The benchmarks with questions that one consists of."""
    return BENCHMARKS[name].members or (name,)


def columns(name):
    """What a part of Hugging Face's data set is called, and its part: ("allenai/ai2_arc", "ARC-Easy")."""
    dataset, _, part = BENCHMARKS[name].dataset.partition(", ")
    return dataset, part
