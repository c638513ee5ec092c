"""Families of models beside LLaMA: a checkpoint of transformers with random weights has the loss that transformers computes, comes back
from a conversion as it was, and becomes a Mixture-of-Head model that transformers opens with the same loss."""

import json
import os
import pathlib
import subprocess
import unittest

from with_transformers import FOLDER, main  # first: it may begin again under another Python

import torch
import transformers
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM

MOH = os.environ.get("MOH_BINARY", "moh")
TOLERANCE = 1e-5  # of a loss, in nats per token
HERE = pathlib.Path(FOLDER.name)

SIZES = {"vocab_size": 256, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4,
         "num_key_value_heads": 2, "max_position_embeddings": 64, "initializer_range": 0.2, "bos_token_id": None, "eos_token_id": 0}
YARN = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 16, "beta_fast": 4.0, "beta_slow": 1.0}
LLAMA3 = {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 16}
# name: the class, and what its configuration has besides the sizes.
FAMILIES = {
    "llama": ("Llama", {}),
    "llama_biases": ("Llama", {"attention_bias": True, "mlp_bias": True}),
    "llama_linear": ("Llama", {"rope_scaling": {"rope_type": "linear", "factor": 4.0}}),
    "llama3": ("Llama", {"rope_scaling": LLAMA3, "rope_theta": 500000.0}),
    "llama_yarn": ("Llama", {"rope_scaling": YARN}),
    # The text is longer than this context, and shorter than the stretched one.
    "llama_dynamic": ("Llama", {"rope_scaling": {"rope_type": "dynamic", "factor": 2.0}, "max_position_embeddings": 32}),
    "mistral": ("Mistral", {"sliding_window": None}),
    # Windows shorter than the text, in all layers and in the last alone.
    "mistral_window": ("Mistral", {"sliding_window": 9}),
    "qwen2_window": ("Qwen2", {"use_sliding_window": True, "sliding_window": 9, "max_window_layers": 1}),
    "qwen3_window": ("Qwen3", {"head_dim": 16, "use_sliding_window": True, "sliding_window": 5, "max_window_layers": 0}),
    "qwen2": ("Qwen2", {"use_sliding_window": False}),
    "qwen2_tied": ("Qwen2", {"tie_word_embeddings": True, "rope_theta": 1000000.0, "rope_scaling": {**YARN, "attention_factor": 1.1}}),
    "qwen3": ("Qwen3", {"head_dim": 16}),
    "qwen3_tied_biases": ("Qwen3", {"head_dim": 8, "tie_word_embeddings": True, "attention_bias": True}),
}
TEXT = "Heads are routed: each token keeps three of four, one of them shared."[:65]  # 64 inputs: a whole sequence of moh
JOB = """init: {{from: {name}}}
model: {{moh: {{router: {router}, num_shared: 25%, top_k: 50%}}}}
data: {{train: long.txt, sequence_length: 32}}
train: {{steps: 3, batch_size: 2}}
optim: {{learning_rate: 0.01}}
schedule: {{warmup_steps: 1}}
sample: {{tokens: 0}}
threads: 1
output: {{dir: {run}}}
"""


def moh(*arguments, code=0):
    done = subprocess.run([MOH, *map(str, arguments)], cwd=HERE, capture_output=True, text=True, timeout=120)
    if done.returncode != code:
        raise AssertionError(f"moh {arguments}: {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout if code == 0 else done.stdout + done.stderr


def make(name, **changes):
    """A checkpoint of the family. Biases and norm weights differ from each other, unlike those of a new model."""
    kind, options = FAMILIES[name]
    torch.manual_seed(1)
    model = getattr(transformers, kind + "ForCausalLM")(getattr(transformers, kind + "Config")(**{**SIZES, **options, **changes}))
    with torch.no_grad():
        for parameter_name, parameter in model.named_parameters():
            if parameter.dim() == 1:
                parameter.normal_(1.0 if parameter_name.endswith("norm.weight") else 0.0, 0.3)
    model.save_pretrained(HERE / name)
    return model.eval()


def setUpModule():
    (HERE / "short.txt").write_text(TEXT)
    (HERE / "long.txt").write_text("".join(f"{i}: {TEXT}\n" for i in range(100)))
    for name in FAMILIES:
        make(name)


def tearDownModule():
    FOLDER.cleanup()


def loss_in_transformers(folder):
    """Of a model that is opened anew, as those with dynamic scaling remember the longest sequence, and is given what moh gives it: the
    last token is a target alone."""
    model = AutoModelForCausalLM.from_pretrained(HERE / folder, trust_remote_code=True).eval()
    ids = torch.tensor([list(TEXT.encode())])
    with torch.no_grad():
        return torch.nn.functional.cross_entropy(model(ids[:, :-1]).logits[0].float(), ids[0, 1:]).item()


def loss_in_moh(folder):
    found = json.loads(moh("eval", "--checkpoint", folder, "data=short.txt", "data.sequence_length=64", "--json"))
    return found["loss"]


def meta_order(weight, heads):
    """Rows of queries or keys in the order of Meta's code: of each head element i + j d/2 becomes 2 i + j."""
    rows, columns = weight.shape
    return weight.view(heads, 2, rows // heads // 2, columns).transpose(1, 2).reshape(rows, columns)


def save_as_meta(model, folder, files, embedding_axis):
    """The model of transformers as Meta publishes it, in that many files."""
    config, state = model.config, model.state_dict()
    parts = [{} for _ in range(files)]

    def add(name, tensor, axis):
        pieces = [tensor] * files if axis is None else tensor.chunk(files, axis)
        for part, piece in zip(parts, pieces):
            part[name] = piece.clone()

    add("tok_embeddings.weight", state["model.embed_tokens.weight"], embedding_axis)
    add("norm.weight", state["model.norm.weight"], None)
    add("output.weight", state["lm_head.weight"], 0)
    for i in range(config.num_hidden_layers):
        old, new = f"model.layers.{i}.", f"layers.{i}."
        add(new + "attention.wq.weight", meta_order(state[old + "self_attn.q_proj.weight"], config.num_attention_heads), 0)
        add(new + "attention.wk.weight", meta_order(state[old + "self_attn.k_proj.weight"], config.num_key_value_heads), 0)
        for meta, name, axis in (("attention.wv", "self_attn.v_proj", 0), ("attention.wo", "self_attn.o_proj", 1),
                                 ("feed_forward.w1", "mlp.gate_proj", 0), ("feed_forward.w2", "mlp.down_proj", 1),
                                 ("feed_forward.w3", "mlp.up_proj", 0), ("attention_norm", "input_layernorm", None),
                                 ("ffn_norm", "post_attention_layernorm", None)):
            add(f"{new}{meta}.weight", state[f"{old}{name}.weight"], axis)
    add("rope.freqs", torch.arange(4.0), None)
    (HERE / folder).mkdir()
    for number, part in enumerate(parts):
        torch.save(part, HERE / folder / f"consolidated.{number:02}.pth")
    params = {"dim": config.hidden_size, "n_layers": config.num_hidden_layers, "n_heads": config.num_attention_heads,
              "n_kv_heads": config.num_key_value_heads, "multiple_of": 16, "ffn_dim_multiplier": 0.5, "norm_eps": config.rms_norm_eps,
              "vocab_size": -1, "rope_theta": 500000.0, "use_scaled_rope": True}
    (HERE / folder / "params.json").write_text(json.dumps(params))


class MetaTest(unittest.TestCase):
    def test_what_meta_publishes_is_the_model_of_transformers(self):
        scaling = {**LLAMA3, "original_max_position_embeddings": 8192}
        FAMILIES["llama_of_meta"] = ("Llama", {"rope_scaling": scaling, "rope_theta": 500000.0, "max_position_embeddings": 131072})
        try:
            model = make("llama_of_meta")
        finally:
            del FAMILIES["llama_of_meta"]
        expected = load_file(HERE / "llama_of_meta/model.safetensors")
        for files, axis in ((1, 0), (2, 0), (2, 1)):
            with self.subTest(files=files, axis=axis):
                folder = f"meta_{files}_{axis}"
                save_as_meta(model, folder, files, axis)
                self.assertAlmostEqual(loss_in_moh(folder), loss_in_transformers("llama_of_meta"), delta=TOLERANCE)
                moh("convert", "--from", folder, "--to", folder + "_hf", "--format", "hf")
                found = load_file(HERE / (folder + "_hf") / "model.safetensors")
                self.assertEqual(set(found), set(expected))
                for name, tensor in expected.items():
                    self.assertTrue(torch.equal(tensor, found[name]), name)
                self.assertAlmostEqual(loss_in_transformers(folder + "_hf"), loss_in_transformers("llama_of_meta"), delta=TOLERANCE)
        (HERE / "job.yaml").write_text(JOB.format(name="meta_2_1", router="learned", run="meta_run"))
        moh("train", "job.yaml", "data.tokenizer=byte")
        moh("convert", "--from", "meta_run", "--to", "meta_run_hf", "--format", "hf")
        self.assertAlmostEqual(loss_in_moh("meta_run"), loss_in_transformers("meta_run_hf"), delta=TOLERANCE)


class FamiliesTest(unittest.TestCase):
    def assert_same_loss(self, folder, other=None):
        self.assertAlmostEqual(loss_in_moh(folder), loss_in_transformers(other or folder), delta=TOLERANCE)

    def test_the_loss_is_that_of_transformers(self):
        losses = set()
        for name in FAMILIES:
            with self.subTest(name):
                self.assert_same_loss(name)
                losses.add(round(loss_in_transformers(name), 4))
        self.assertGreaterEqual(len(losses), len(FAMILIES) - 1)  # Mistral is a LLaMA; all others differ

    def test_conversions_change_no_byte(self):
        for name, (kind, _) in FAMILIES.items():
            with self.subTest(name):
                moh("convert", "--from", name, "--to", f"{name}_moh", "--format", "moh")
                moh("convert", "--from", f"{name}_moh", "--to", f"{name}_back", "--format", "hf")
                before, after = (load_file(HERE / f / "model.safetensors") for f in (name, f"{name}_back"))
                self.assertEqual(set(before), set(after))
                for tensor_name, tensor in before.items():
                    self.assertEqual(tensor.dtype, after[tensor_name].dtype)
                    self.assertTrue(torch.equal(tensor, after[tensor_name]), tensor_name)
                config, again = (json.loads((HERE / f / "config.json").read_text()) for f in (name, f"{name}_back"))
                if name == "mistral":  # without a window it is a LLaMA, and is written as one
                    config["model_type"] = "llama"
                    config["architectures"] = ["LlamaForCausalLM"]
                keys = ("model_type", "architectures", *SIZES, "attention_bias", "mlp_bias", "tie_word_embeddings", "use_sliding_window",
                        *(("sliding_window", "max_window_layers", "layer_types") if name.endswith("_window") else ()))
                for key in keys:
                    self.assertEqual(config.get(key) or None, again.get(key) or None, key)
                self.assertAlmostEqual(loss_in_transformers(f"{name}_back"), loss_in_transformers(name), delta=TOLERANCE)
                self.assertFalse((HERE / f"{name}_back" / "modeling_moh_llama.py").exists())

    def test_with_three_of_four_heads(self):
        for name in FAMILIES:
            for router in ("learned", "query_norm"):
                with self.subTest(name=name, router=router):
                    run = f"{name}_{router}"
                    (HERE / "job.yaml").write_text(JOB.format(name=name, router=router, run=run))
                    moh("train", "job.yaml")
                    moh("convert", "--from", run, "--to", run + "_hf", "--format", "hf")
                    config = json.loads((HERE / (run + "_hf") / "config.json").read_text())
                    self.assertEqual((config["model_type"], config["moh_active_heads"]), ("moh_llama", 3))
                    self.assert_same_loss(run, run + "_hf")
                    self.assertAlmostEqual(loss_in_moh(run + "_hf"), loss_in_moh(run), delta=TOLERANCE)

    def test_what_moh_cannot_compute_is_refused_by_name(self):
        for name, changes, said in (
                ("llama", {"sliding_window": 16}, "sliding_window: expected none, found 16"),
                ("llama", {"hidden_act": "gelu"}, "hidden_act: expected silu, found gelu")):
            with self.subTest(name):
                kind, options = FAMILIES[name]
                FAMILIES["refused"] = (kind, {**options, **changes})
                try:
                    make("refused")
                finally:
                    del FAMILIES["refused"]
                self.assertIn(said, " ".join(moh("eval", "--checkpoint", "refused", "data=short.txt", code=2).split()))


if __name__ == "__main__":
    main()
