"""Translation models of other programs: random models of transformers, MarianMTModel and FSMTForConditionalGeneration, and a checkpoint
of fairseq's layout have the logits in moh that transformers computes, sentence by sentence; what moh exports, transformers opens."""

import argparse
import json
import os
import pathlib
import subprocess
import sys
import unittest

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1] / "language/hf"))
from with_transformers import FOLDER, main  # first: it may begin again under another Python

import torch
from safetensors.torch import load_file
from transformers import FSMTConfig, FSMTForConditionalGeneration, MarianConfig, MarianMTModel

MOH, LOGITS = os.environ.get("MOH_BINARY", "moh"), os.environ["MOH_TRANSLATION_LOGITS"]
# For a logit of size 1. Sinusoids of transformers are computed in float32.
TOLERANCE = 2e-5
HERE = pathlib.Path(FOLDER.name)

VOCAB = 23
SIZES = {"d_model": 16, "encoder_layers": 2, "decoder_layers": 3, "encoder_attention_heads": 4, "decoder_attention_heads": 4,
         "encoder_ffn_dim": 24, "decoder_ffn_dim": 24, "max_position_embeddings": 32, "init_std": 0.4}
# Source ids, and those that the decoder reads; none is that of padding.
PAIRS = [([4, 7, 9, 12, 0], [22, 5, 6]), ([3, 0], [22, 8, 11, 13, 2]), ([14, 15, 21, 20, 19, 18, 0], [22])]
MARIAN = {"vocab_size": VOCAB, "pad_token_id": 1, "eos_token_id": 0, "decoder_start_token_id": 22, "forced_eos_token_id": 0}
# name: the class of transformers, and what its configuration has besides the sizes.
MODELS = {
    "marian": (MarianMTModel, MarianConfig, {**MARIAN, "activation_function": "swish", "scale_embedding": True}),
    "marian_gelu": (MarianMTModel, MarianConfig, MARIAN),
    "marian_two_tables": (MarianMTModel, MarianConfig, {
        **MARIAN, "share_encoder_decoder_embeddings": False, "activation_function": "relu"}),
    "fsmt": (FSMTForConditionalGeneration, FSMTConfig, {"src_vocab_size": VOCAB + 2, "tgt_vocab_size": VOCAB}),
    "fsmt_one_table": (FSMTForConditionalGeneration, FSMTConfig, {
        "src_vocab_size": VOCAB, "tgt_vocab_size": VOCAB, "tie_word_embeddings": True, "activation_function": "gelu"}),
}

# Models that moh trains, of bytes.
RUN = """\
task: translation
seed: 3
threads: 1
output: {dir: %s}
data: {train: pairs.tsv, validation_fraction: 0, batch_tokens: 96, max_length: 32}
model: {vocab_size: 256, encoder_layers: 1, decoder_layers: 1, hidden: 16, intermediate: 24, heads: 4, max_positions: 32, sinusoids: marian, output_bias: true}
train: {steps: 2, batch_size: 1}
optim: {learning_rate: 0.1}
schedule: {warmup_steps: 0}
"""


def make(name):
    """A model whose biases and norm weights differ from each other, unlike those of a new one."""
    kind, config, options = MODELS[name]
    torch.manual_seed(1)
    model = kind(config(**SIZES, **options))
    with torch.no_grad():
        for parameter_name, parameter in model.named_parameters():
            if parameter.dim() == 1:
                parameter.normal_(1.0 if parameter_name.endswith("norm.weight") else 0.0, 0.3)
        if kind is MarianMTModel:
            model.final_logits_bias.normal_(0, 0.3)
    model.save_pretrained(HERE / name)
    return model.eval()


def logits_in_transformers(model):
    """Each pair alone, without padding."""
    with torch.no_grad():
        rows = [model(input_ids=torch.tensor([source]), attention_mask=torch.ones(1, len(source), dtype=torch.long),
                      decoder_input_ids=torch.tensor([target]), use_cache=False).logits[0] for source, target in PAIRS]
    return torch.cat(rows)


def run(program, *arguments, code=0):
    done = subprocess.run([program, *map(str, arguments)], cwd=HERE, capture_output=True, text=True, timeout=120)
    if done.returncode != code:
        raise AssertionError(f"{program} {arguments}: {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout if code == 0 else done.stdout + done.stderr


def logits_in_moh(path, *settings):
    (HERE / "pairs.json").write_text(json.dumps(PAIRS))
    return torch.tensor(json.loads(run(LOGITS, path, "pairs.json", *settings)))


def setUpModule():
    for name in MODELS:
        make(name)


def tearDownModule():
    FOLDER.cleanup()


class TranslationFolders(unittest.TestCase):
    def check(self, found, expected):
        self.assertEqual(found.shape, expected.shape)
        self.assertLess((found - expected).abs().max().item(), TOLERANCE * expected.abs().max().item())
        self.assertGreater(expected.std().item(), 0.1)  # a model of one answer would agree with all

    def test_logits_of_models_of_transformers(self):
        for name in MODELS:
            with self.subTest(name):
                model = MODELS[name][0].from_pretrained(HERE / name).eval()
                self.check(logits_in_moh(name), logits_in_transformers(model))

    def test_logits_of_a_checkpoint_of_fairseq(self):
        """One table under three names, no sinusoids, and what fairseq saves besides; the heads are for the user to say."""
        model = make("fsmt_one_table")
        state = {name.removeprefix("model."): tensor.clone() for name, tensor in model.state_dict().items() if "embed_positions" not in name}
        state |= {f"{stack}.version": torch.tensor([3.0]) for stack in ("encoder", "decoder")}
        state |= {f"{stack}.embed_positions._float_tensor": torch.zeros(1) for stack in ("encoder", "decoder")}
        torch.save({"args": argparse.Namespace(arch="transformer"), "model": state, "extra_state": {"epoch": 3}}, HERE / "fairseq.pt")
        settings = ("model.heads=4", "model.activation=gelu")
        self.check(logits_in_moh("fairseq.pt", *settings), logits_in_transformers(model))
        message = run(LOGITS, "fairseq.pt", "pairs.json", code=1)
        self.assertIn("give model.heads, model.activation", message)
        state["decoder.output_projection.weight"][0, 0] += 1  # a matrix of its own, which is not left out
        torch.save({"model": state}, HERE / "other_output.pt")
        self.assertGreater((logits_in_moh("other_output.pt", *settings) - logits_in_transformers(model)).abs().max().item(), 1e-3)

    def test_positions_that_are_no_sinusoids_are_not_left_out(self):
        tensors = load_file(HERE / "fsmt/model.safetensors")
        name = "model.encoder.embed_positions.weight"
        tensors.setdefault(name, MODELS["fsmt"][0].from_pretrained(HERE / "fsmt").model.encoder.embed_positions.weight.detach().clone())
        tensors[name][5, 3] += 0.1
        (HERE / "learned").mkdir()
        (HERE / "learned/config.json").write_text((HERE / "fsmt/config.json").read_text())
        torch.save(tensors, HERE / "learned/pytorch_model.bin")
        self.assertIn(name, run(LOGITS, "learned", "pairs.json", code=1))

    def test_transformers_opens_what_moh_exports(self):
        for name in ("marian", "marian_gelu", "marian_two_tables"):
            with self.subTest(name):
                expected = logits_in_transformers(MODELS[name][0].from_pretrained(HERE / name).eval())
                run(MOH, "convert", "--from", name, "--to", f"{name}_moh", "--format", "moh")
                self.check(logits_in_moh(f"{name}_moh"), expected)
                run(MOH, "convert", "--from", f"{name}_moh", "--to", f"{name}_again", "--format", "hf")
                again, report = MarianMTModel.from_pretrained(HERE / f"{name}_again", output_loading_info=True)
                self.assertEqual([list(report[key]) for key in ("missing_keys", "unexpected_keys", "mismatched_keys")], [[], [], []])
                torch.testing.assert_close(logits_in_transformers(again.eval()), expected, rtol=0, atol=0)
                for key in ("eos_token_id", "decoder_start_token_id", "pad_token_id"):
                    self.assertEqual(getattr(again.config, key), MARIAN[key])

    def train(self, name, *settings):
        (HERE / "pairs.tsv").write_text("".join(f"a text {i}\tein Text {i}\n" for i in range(30)))
        (HERE / f"{name}.yaml").write_text(RUN % name)
        run(MOH, "train", f"{name}.yaml", *settings)

    def test_transformers_opens_what_moh_trained(self):
        self.train("trained")
        run(MOH, "convert", "--from", "trained", "--to", "trained_hf", "--format", "hf")
        exported = MarianMTModel.from_pretrained(HERE / "trained_hf").eval()
        self.check(logits_in_moh("trained"), logits_in_transformers(exported))

    def test_a_file_of_moh_tells_its_sizes(self):
        self.train("routed", "model.moh={router: learned, num_shared: 1, top_k: 2}", "model.norm=before", "model.shared_embeddings=none")
        self.assertIn("format hf: model.moh.router: expected none in a MarianMTModel of transformers, found learned",
                      run(MOH, "convert", "--from", "routed", "--to", "routed_hf", "--format", "hf", code=2))
        run(MOH, "convert", "--from", "routed", "--to", "routed.safetensors")
        message = run(LOGITS, "routed.safetensors", "pairs.json", code=1)
        given = {"position_offset": 0, "scale_embedding": "true", "sinusoids": "marian", "heads": 4, "activation": "relu",
                 "moh.router": "learned", "moh.num_shared": 1, "moh.top_k": 2}
        self.assertIn("give " + ", ".join(f"model.{key}" for key in given), message)
        found = logits_in_moh("routed.safetensors", *(f"model.{key}={value}" for key, value in given.items()))
        self.check(found, logits_in_moh("routed"))

    def test_models_that_marian_cannot_compute_are_not_exported(self):
        self.assertIn("format hf: model.sinusoids: expected marian in a MarianMTModel of transformers, found fairseq; convert to safetensors",
                      run(MOH, "convert", "--from", "fsmt", "--to", "fsmt_hf", "--format", "hf", code=2))

    def test_configurations_that_moh_lacks_are_refused(self):
        config = json.loads((HERE / "marian/config.json").read_text())
        for changes, message in (({"decoder_ffn_dim": 32}, "decoder_ffn_dim: expected encoder_ffn_dim (24), found 32"),
                                 ({"activation_function": "tanh"}, "activation_function: expected relu, gelu, silu or swish, found tanh"),
                                 ({"tie_word_embeddings": False}, "tie_word_embeddings: expected true, found false"),
                                 ({"model_type": "t5"}, "model_type: expected marian or fsmt, found t5; its positions are biases"),
                                 ({"d_model": 18}, "heads: expected a divisor of hidden (18), found 4"),
                                 ({"dropout": 2}, "dropout: expected 0 or more, below 1, found 2")):
            with self.subTest(changes):
                folder = HERE / "refused"
                folder.mkdir(exist_ok=True)
                (folder / "config.json").write_text(json.dumps({**config, **changes}))
                (folder / "model.safetensors").write_bytes((HERE / "marian/model.safetensors").read_bytes())
                self.assertIn(message, run(LOGITS, "refused", "pairs.json", code=1))


if __name__ == "__main__":
    main()
