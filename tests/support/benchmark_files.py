"""Small made-up files of the benchmarks of configs/eval, in the layouts of their publishers and of Hugging Face."""

import csv
import io
import json
import random

WORDS = "the head of a router keeps few tokens and each gate weighs them while most heads rest idle in this layer".split()
SUBJECTS = {"mmlu": "anatomy", "ceval": "accountant", "cmmlu": "jurisprudence"}
LETTERS = "ABCD"


def _texts(seed):
    draw = random.Random(seed)
    return lambda low, high: " ".join(draw.choice(WORDS) for _ in range(draw.randint(low, high))), draw


def sciq(seed):
    text, _ = _texts(seed)
    return {"question": text(3, 9) + "?", "distractor1": text(1, 3), "distractor2": text(1, 3), "distractor3": text(1, 4),
            "correct_answer": text(1, 3), "support": " " + text(0, 12)}


def piqa(seed):
    text, draw = _texts(seed)
    return {"goal": text(2, 6), "sol1": text(2, 8), "sol2": text(2, 8), "label": draw.randrange(2)}


def winogrande(seed):
    text, draw = _texts(seed)
    return {"sentence": f"{text(2, 6)} _ {text(2, 6)} .", "option1": text(1, 1), "option2": text(2, 2), "answer": draw.choice("12")}


def choices(seed, labels=LETTERS):
    """A question of OpenBookQA or ARC."""
    text, draw = _texts(seed)
    return {"question": text(3, 8), "choices": {"text": [text(1, 4) for _ in labels], "label": list(labels)}, "answerKey": draw.choice(labels)}


def arc(seed):
    return choices(seed, "1234" if seed % 3 == 0 else LETTERS)


def openbookqa(seed):
    record = choices(seed)
    return {"question_stem": record.pop("question"), **record}


def logiqa(seed):
    text, draw = _texts(seed)
    return {"label": draw.choice("abcd"), "context": text(4, 9), "question": text(2, 6), "options": [text(1, 4) for _ in range(4)]}


def truthfulqa(seed):
    text, draw = _texts(seed)
    wrong, right = draw.randint(1, 4), draw.randint(1, 3)
    unique = [f"{text(2, 5)} {i}" for i in range(1 + wrong + right)]
    return {"question": text(3, 8), "mc1_targets": {"choices": unique[:1 + wrong], "labels": [1] + [0] * wrong},
            "mc2_targets": {"choices": unique[:right + wrong], "labels": [1] * right + [0] * wrong}}


def hellaswag(seed):
    text, draw = _texts(seed)
    endings = [f" {text(2, 5)} [title] {text(1, 3)}  [step] {text(1, 2)}" for _ in range(4)]
    return {"activity_label": text(1, 3).capitalize(), "ctx_a": text(3, 8) + ".", "ctx_b": text(1, 3).upper(), "endings": endings,
            "label": str(draw.randrange(4))}


def boolq(seed):
    text, draw = _texts(seed)
    return {"question": text(3, 8), "passage": f"{text(1, 2)} -- {text(6, 14)}.", "label": draw.randrange(2)}


def lambada(seed):
    text, _ = _texts(seed)
    return {"text": text(6, 14)}


def nq(seed):
    text, draw = _texts(seed)
    return {"question": text(3, 8), "answer": [text(1, 3) for _ in range(draw.randint(1, 3))]}


def gsm8k(seed):
    text, draw = _texts(seed)
    number = draw.randint(1, 5000)
    return {"question": f"{text(4, 10)} {number}?", "answer": f"{text(3, 7)} {number} = {number}.\n#### {number:,}"}


def exam(seed):
    text, draw = _texts(seed)
    return {"question": f" {text(3, 8)}，对吗？ ", **{letter: text(1, 3) for letter in LETTERS}, "answer": draw.choice(LETTERS)}


def wikitext(seed):
    text, _ = _texts(seed)
    lines = [f" = {text(1, 2)} = ", "", f" {text(8, 20)} , {text(2, 4)} @-@ {text(1, 2)} ( {text(1, 3)} ) . ", "", " = = Part = = ", "",
             f' " {text(3, 8)} " : {text(3, 60)} \'s . ', ""]
    return {"page": "\n".join(lines)}


MAKERS = {"sciq": sciq, "piqa": piqa, "winogrande": winogrande, "openbookqa": openbookqa, "logiqa": logiqa, "truthfulqa": truthfulqa,
          "hellaswag": hellaswag, "arc_easy": arc, "arc_challenge": arc, "boolq": boolq, "lambada": lambada, "nq": nq, "gsm8k": gsm8k,
          "mmlu": exam, "ceval": exam, "cmmlu": exam, "wikitext": wikitext}


def records(name, part, count):
    """`count` records of a part of a benchmark ("test", "train"), as Hugging Face has them."""
    return [MAKERS[name](1000 * (part == "train") + i) for i in range(count)]


def json_lines(rows):
    return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)


def table(rows, header=True):
    """Rows of maps as a CSV."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    if header:
        writer.writerow(rows[0])
    writer.writerows(row.values() for row in rows)
    return out.getvalue()


def hub_files(name, questions=6, examples=40):
    """{path: contents} with the records as Hugging Face has them; of the exams the published CSV files."""
    test, train = records(name, "test", questions), records(name, "train", examples)
    subject = SUBJECTS.get(name)
    if name == "mmlu":
        return {f"mmlu/test/{subject}_test.csv": table(test, header=False), f"mmlu/dev/{subject}_dev.csv": table(train, header=False)}
    if name == "ceval":
        return {f"ceval/{part}/{subject}_{part}.csv": table([{"id": i, **row} for i, row in enumerate(rows)])
                for part, rows in (("val", test), ("dev", train))}
    if name == "cmmlu":
        return {f"cmmlu/{part}/{subject}.csv": table([{"": i, **{key.capitalize(): value for key, value in row.items()}}
                                                      for i, row in enumerate(rows)]) for part, rows in (("test", test), ("dev", train))}
    held_out = "validation" if name in ("piqa", "winogrande", "truthfulqa", "hellaswag", "boolq", "nq") else "test"
    files = {f"{name}/{held_out}.jsonl": json_lines(test)}
    if name not in ("truthfulqa", "lambada", "wikitext"):
        files[f"{name}/train.jsonl"] = json_lines(train)
    return files


def published_files(name, questions=6, examples=40):
    """The same records in the files that the benchmark's authors publish."""
    test, train = records(name, "test", questions), records(name, "train", examples)

    def nested(row):
        question = {"stem": row.get("question") or row["question_stem"],
                    "choices": [{"text": t, "label": m} for t, m in zip(row["choices"]["text"], row["choices"]["label"])]}
        return {"question": question, "answerKey": row["answerKey"]}

    if name == "sciq":
        return {"sciq/test.json": json.dumps(test), "sciq/train.json": json.dumps(train)}
    if name == "piqa":
        files = {}
        for part, rows in (("valid", test), ("train", train)):
            files[f"piqa/{part}-labels.lst"] = "".join(f"{row['label']}\n" for row in rows)
            files[f"piqa/{part}.jsonl"] = json_lines({key: row[key] for key in ("goal", "sol1", "sol2")} for row in rows)
        return files
    if name == "winogrande":
        return {"winogrande/dev.jsonl": json_lines(test), "winogrande/train_xl.jsonl": json_lines(train)}
    if name == "openbookqa":
        return {"openbookqa/test.jsonl": json_lines(map(nested, test)), "openbookqa/train.jsonl": json_lines(map(nested, train))}
    if name.startswith("arc_"):
        title = "ARC-" + name[4:].capitalize()
        return {f"arc/{title}/{title}-Test.jsonl": json_lines(map(nested, test)),
                f"arc/{title}/{title}-Train.jsonl": json_lines(map(nested, train))}
    if name == "truthfulqa":
        return {"truthfulqa/mc_task.json": json.dumps([
            {"question": row["question"], **{key: dict(zip(row[key]["choices"], row[key]["labels"])) for key in ("mc1_targets", "mc2_targets")}}
            for row in test])}
    if name == "hellaswag":
        return {f"hellaswag/hellaswag_{part}.jsonl": json_lines({**row, "label": int(row["label"])} for row in rows)
                for part, rows in (("val", test), ("train", train))}
    if name == "boolq":
        return {f"boolq/{part}.jsonl": json_lines({**row, "label": row["label"] == 1} for row in rows)
                for part, rows in (("val", test), ("train", train))}
    if name == "lambada":
        return {"lambada/lambada_test.jsonl": json_lines(test)}
    if name == "nq":
        return {"nq/NQ-open.dev.jsonl": json_lines(test), "nq/NQ-open.train.jsonl": json_lines(train)}
    if name == "wikitext":
        return {"wikitext2/wiki.test.raw": "\n".join(row["page"] for row in test)}
    return hub_files(name, questions, examples)


def files_of(name, questions=6, examples=40):
    """{path: contents} of a benchmark of scripts/lm_eval.py, with the fields that Hugging Face's data set has."""
    if name == "truthfulqa":  # the mean of two others
        return {}
    base = name.rsplit("_mc", 1)[0].replace("gsm8k_cot", "gsm8k")
    subject = SUBJECTS.get(name)
    test, train = records(base, "test", questions), records(base, "train", examples)
    asked = {"ceval": "val"}.get(name, "validation" if base in ("piqa", "winogrande", "truthfulqa", "hellaswag", "boolq", "nq") else "test")
    if name == "mmlu":
        test, train = ([{"question": row["question"], "choices": [row[letter] for letter in LETTERS], "answer": LETTERS.index(row["answer"])}
                        for row in rows] for rows in (test, train))
    if name == "cmmlu":
        test, train = ([{key.capitalize(): value for key, value in row.items()} for row in rows] for rows in (test, train))
        return {f"cmmlu/{part}/{subject}.csv": table(rows) for part, rows in (("test", test), ("dev", train))}
    folder = f"{name}/{subject}" if subject else base
    return {f"{folder}/{asked}.jsonl": json_lines(test), f"{folder}/{'dev' if subject else 'train'}.jsonl": json_lines(train)}
