"""Small made-up files of the benchmarks of scripts/lm_eval.py."""

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


def table(rows):
    """Rows of maps as a CSV."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(rows[0])
    writer.writerows(row.values() for row in rows)
    return out.getvalue()
