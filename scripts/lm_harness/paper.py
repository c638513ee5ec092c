"""What the paper reports of language models: MoH, arXiv 2410.11842 v3, tables 3, 4 and G; percent."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Table:
    title: str
    benchmarks: tuple
    models: dict  # scores in the order of the benchmarks, and their average

    def average(self, model):
        return self.models[model][-1]


TABLES = {
    "paper_table_3": Table(
        "table 3, from scratch, 0-shot", ("sciq", "piqa", "winogrande", "openbookqa", "logiqa", "truthfulqa"), {
            "LLM-S, 100B tokens": (63.0, 63.1, 51.1, 27.4, 26.9, 31.6, 43.9),
            "MoH-LLM-S 75%, 100B tokens": (64.7, 62.0, 50.6, 28.8, 26.4, 35.2, 44.6),
            "MoH-LLM-S 50%, 100B tokens": (67.0, 62.2, 51.5, 29.2, 26.7, 35.6, 45.4),
            "LLM-B, 100B tokens": (73.1, 69.7, 52.0, 31.8, 28.4, 29.5, 47.4),
            "MoH-LLM-B 75%, 100B tokens": (74.7, 69.2, 52.8, 30.0, 28.1, 32.2, 47.8),
            "MoH-LLM-B 50%, 100B tokens": (75.2, 67.0, 52.0, 29.0, 26.9, 32.8, 47.2),
            "LLM-B, 200B tokens": (73.1, 70.3, 53.3, 32.4, 29.0, 29.5, 47.9),
            "MoH-LLM-B 75%, 200B tokens": (76.0, 69.2, 52.7, 30.4, 29.8, 32.6, 48.5),
            "MoH-LLM-B 50%, 200B tokens": (75.6, 66.9, 53.5, 29.4, 26.7, 32.7, 47.5),
        }),
    "paper_table_4": Table(
        "table 4, continue-tuned", ("mmlu", "ceval", "cmmlu", "gsm8k", "truthfulqa", "hellaswag", "logiqa", "boolq", "lambada", "sciq",
                                    "piqa", "winogrande", "nq", "arc_challenge"), {
            "LLaMA3-8B": (65.2, 52.3, 50.7, 49.5, 35.4, 81.9, 30.0, 83.9, 75.5, 94.0, 81.0, 72.5, 31.5, 59.0, 61.6),
            "MoH-LLaMA3-8B": (65.8, 61.5, 64.4, 56.9, 44.0, 80.1, 30.3, 84.0, 76.4, 92.2, 78.8, 72.9, 28.3, 60.1, 64.0),
        }),
    "paper_table_g": Table(
        "table G, beside the dense first stage", ("mmlu", "cmmlu", "nq", "gsm8k", "truthfulqa", "hellaswag", "logiqa", "boolq",
                                                  "lambada", "sciq", "piqa", "winogrande", "arc_easy", "arc_challenge"), {
            "LLaMA3-8B-stage1": (66.2, 66.0, 28.1, 58.6, 41.9, 79.4, 30.4, 85.1, 75.8, 92.2, 79.1, 73.0, 70.9, 59.6, 64.7),
            "MoH-LLaMA3-8B": (65.8, 64.4, 28.3, 56.9, 44.0, 80.1, 30.3, 84.0, 76.4, 92.2, 78.8, 72.9, 72.5, 60.1, 64.8),
        }),
}

# Names for several benchmarks; `paper`: all of the tables.
GROUPS = {"paper": tuple(dict.fromkeys(name for table in TABLES.values() for name in table.benchmarks)),
          **{name: table.benchmarks for name, table in TABLES.items()}}
