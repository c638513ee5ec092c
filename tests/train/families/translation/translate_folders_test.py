"""moh translate with random models of transformers, MarianMTModel and FSMTForConditionalGeneration: beam search and greedy decoding find
what generate() finds, ten sentences in a batch with its padding."""

import json
import os
import pathlib
import subprocess
import sys
import unittest

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1] / "language/hf"))
from with_transformers import FOLDER, main  # first: it may begin again under another Python

import torch
from transformers import FSMTConfig, FSMTForConditionalGeneration, MarianConfig, MarianMTModel

MOH = os.environ.get("MOH_BINARY", "moh")
HERE = pathlib.Path(FOLDER.name)
TOLERANCE = 2e-4  # of a score
END, BYTES = 0, 256  # a token for each byte, of which 0 ends a sentence
# Marian has one token more, with which the decoder begins. The position of the first token of FSMT follows from its number.
PAD = {"marian": 256, "fsmt": 1}
SENTENCES = ["a", "Heads are routed.", "not every token needs all", "The file cannot be opened.", "%s: no such file", "yes", "x y z",
             "An encoder and a decoder with attention between them", "0123456789", "short"]
SIZES = {"d_model": 32, "encoder_layers": 2, "decoder_layers": 2, "encoder_attention_heads": 4, "decoder_attention_heads": 4,
         "encoder_ffn_dim": 48, "decoder_ffn_dim": 48, "max_position_embeddings": 64, "init_std": 0.5,
         "eos_token_id": END, "forced_eos_token_id": END, "activation_function": "relu"}


class WholeRows(FSMTForConditionalGeneration):
    """generate() of transformers 4.57 gives a decoder with a cache the last token alone, and that of FSMT takes its position for the
    first. Its forward() expects all tokens so far, and takes the last one itself."""

    def prepare_inputs_for_generation(self, input_ids, **others):
        return {**super().prepare_inputs_for_generation(input_ids, **others), "decoder_input_ids": input_ids}


MODELS = {
    "marian": lambda: MarianMTModel(MarianConfig(
        **SIZES, pad_token_id=PAD["marian"], vocab_size=BYTES + 1, decoder_start_token_id=PAD["marian"], scale_embedding=True)),
    "fsmt": lambda: WholeRows(FSMTConfig(
        **SIZES, pad_token_id=PAD["fsmt"], src_vocab_size=BYTES, tgt_vocab_size=BYTES, tie_word_embeddings=True, bos_token_id=2, decoder_start_token_id=END)),
}
# (num_beams, length_penalty, early_stopping, longest translation in tokens with its end)
SEARCHES = [(1, 1.0, False, 24), (4, 1.0, False, 24), (5, 0.6, True, 20), (3, 2.0, "never", 30)]


def make(name):
    """A model that ends some sentences early."""
    torch.manual_seed(2)
    model = MODELS[name]()
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() == 1:
                parameter.add_(0.3 * torch.randn_like(parameter))
        if name == "marian":
            model.final_logits_bias.normal_(0, 0.3)
            model.final_logits_bias[0, END] = 3
    model.save_pretrained(HERE / name)
    return type(model).from_pretrained(HERE / name).eval()


def expected(name, model, beams, length_penalty, early_stopping, longest):
    """For each sentence the (tokens, score) of its translations."""
    rows = [[*sentence.encode(), END] for sentence in SENTENCES]
    width = max(map(len, rows))
    ids = torch.tensor([row + [PAD[name]] * (width - len(row)) for row in rows])
    found = model.generate(
        ids, attention_mask=(ids != PAD[name]).long(), num_beams=beams, length_penalty=length_penalty, early_stopping=early_stopping,
        max_length=longest + 1, num_return_sequences=beams, bad_words_ids=[[PAD[name]]], do_sample=False, return_dict_in_generate=True,
        output_scores=True)
    scores = found.sequences_scores.tolist() if beams > 1 else [None] * len(rows)
    tokens = [row[1:row.index(END, 1)] for row in found.sequences.tolist()]
    return [list(zip(tokens[i:i + beams], scores[i:i + beams])) for i in range(0, len(tokens), beams)]


def translated(name, beams, length_penalty, early_stopping, longest):
    (HERE / "sentences.txt").write_text("\n".join(SENTENCES) + "\n")
    stopping = {False: "no", True: "yes"}.get(early_stopping, early_stopping)
    command = [MOH, "translate", "--checkpoint", name, "--input", "sentences.txt", "--json", "--beam", beams, "--n-best", beams,
               "--length-penalty", length_penalty, "--early-stopping", stopping, "--max-length", longest, "data.tokenizer=byte"]
    done = subprocess.run([*map(str, command)], cwd=HERE, capture_output=True, text=True, timeout=120)
    if done.returncode != 0:
        raise AssertionError(f"{command}: {done.returncode}\n{done.stdout}{done.stderr}")
    return [[(each["ids"], each["score"]) for each in json.loads(line)["translations"]] for line in done.stdout.splitlines()]


class TranslateFolders(unittest.TestCase):
    def test_searches_find_what_generate_finds(self):
        lengths = set()
        for name in MODELS:
            model = make(name)
            for search in SEARCHES:
                with self.subTest(model=name, search=search):
                    for sentence, of_moh, of_transformers in zip(SENTENCES, translated(name, *search), expected(name, model, *search), strict=True):
                        self.assertEqual([tokens for tokens, _ in of_moh], [tokens for tokens, _ in of_transformers], sentence)
                        lengths.update(len(tokens) for tokens, _ in of_moh)
                        for (_, ours), (_, theirs) in zip(of_moh, of_transformers):
                            if theirs is not None:
                                self.assertAlmostEqual(ours, theirs, delta=TOLERANCE, msg=sentence)
        self.assertGreater(len(lengths), 5)


if __name__ == "__main__":
    main()
