#!/usr/bin/env python3
"""Makes beam_golden.json: what the beam search of transformers finds with a model whose logits are a hash of the tokens so far.

    build/pytorch-venv/bin/python tests/train/families/translation/make_beam_golden.py

beam_search_golden_test.cpp has the same logits. All of them are sums of few powers of two, so both programs have equal ones. Made with
transformers 4.57.6.
"""

import itertools
import json
import pathlib

import torch
import transformers
from transformers import GenerationMixin, PretrainedConfig, PreTrainedModel
from transformers.modeling_outputs import CausalLMOutput

GOLDEN = pathlib.Path(__file__).with_name("beam_golden.json")
VOCAB, END, START = 14, 0, 13
SEEDS = range(10)  # one for each sentence
MAX_LENGTH = 12  # tokens of a translation with its end


def logits_after(seed, tokens):
    state = seed + 1
    for token in tokens:
        state = (state * 1103515245 + token + 12345) % 2**31
    mixed = [(state * (2 * v + 3) + 7919 * v + 1) % 2**31 for v in range(VOCAB)]
    logits = [((number * 48271 % 2**31) >> 16) / 4096 for number in mixed]
    logits[END] += len(tokens) / 4 - 0.5  # sentences of all lengths
    return logits


class Config(PretrainedConfig):
    model_type = "hashed"

    def __init__(self, **others):
        super().__init__(**{"vocab_size": VOCAB, "eos_token_id": END, "pad_token_id": START, **others})


class Hashed(PreTrainedModel, GenerationMixin):
    """The logits of the sentence `seed`, after the start token."""

    config_class = Config

    def __init__(self, config):
        super().__init__(config)
        self.unused = torch.nn.Parameter(torch.zeros(1))

    def prepare_inputs_for_generation(self, input_ids, **_):
        return {"input_ids": input_ids}

    def forward(self, input_ids, **_):
        rows = [logits_after(self.seed, row[1:]) for row in input_ids.tolist()]
        return CausalLMOutput(logits=torch.tensor(rows)[:, None, :])


def translations(model, beams, length_penalty, early_stopping, seed):
    model.seed = seed
    found = model.generate(
        torch.tensor([[START]]), num_beams=beams, length_penalty=length_penalty, early_stopping=early_stopping, max_length=MAX_LENGTH + 1,
        forced_eos_token_id=END, bad_words_ids=[[START]], num_return_sequences=beams, do_sample=False, use_cache=False,
        return_dict_in_generate=True, output_scores=True)
    scores = found.sequences_scores.tolist() if beams > 1 else [None]
    return [{"tokens": list(itertools.takewhile(lambda token: token not in (END, START), row[1:])), "score": score}
            for row, score in zip(found.sequences.tolist(), scores)]


def made():
    model, cases = Hashed(Config()), []
    for beams, length_penalty, early_stopping in [(1, 1.0, False), *itertools.product((2, 4, 5), (0.0, 0.6, 1.0, 2.0, -0.5),
                                                                                     (False, True, "never"))]:
        cases.append({"beams": beams, "length_penalty": length_penalty, "early_stopping": early_stopping,
                      "sentences": [translations(model, beams, length_penalty, early_stopping, seed) for seed in SEEDS]})
    return {"vocab": VOCAB, "end": END, "start": START, "max_length": MAX_LENGTH, "cases": cases}


if __name__ == "__main__":
    transformers.logging.set_verbosity_error()
    GOLDEN.write_text(json.dumps(made(), separators=(",", ":")) + "\n")
