"""Models that moh exports, opened by Hugging Face's transformers: the same logits, the same text."""

import copy
import functools
import json
import os
import pathlib
import random
import shutil
import subprocess
import unittest

from with_transformers import FOLDER, main  # first: it may begin again under another Python

import torch
import transformers
from safetensors import safe_open
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM, AutoTokenizer

SAMPLES = os.environ.get("MOH_HF_SAMPLES", "hf_samples")

# Largest difference of a logit, as a share of the largest logit. Found by this test: at most 1.3e-6, with transformers
# 4.57.6 as with 5.23.0.
TOLERANCE = 1e-5
# Of gradients that are next to nothing. Found: 1.3e-8, with torch 2.15.
ROUNDING = 3e-8


def setUpModule():
    subprocess.run([SAMPLES, FOLDER.name + "/samples"], check=True)


def tearDownModule():
    FOLDER.cleanup()


def samples():
    return sorted((pathlib.Path(FOLDER.name) / "samples").iterdir())


def trained(model):
    """The parameters that gradients train, by name. Biases of the selection get none."""
    biases = [name for name, _ in model.named_parameters() if name.endswith(".e_score_correction_bias")]
    assert all(parameter.grad is None for name, parameter in model.named_parameters() if name in biases)
    return [(name, parameter) for name, parameter in model.named_parameters() if name not in biases]


def opened(folder, **options):
    return AutoModelForCausalLM.from_pretrained(folder, trust_remote_code=True, **options)


@functools.cache
def first_opened(folder):
    """To be copied, which takes a fifth of the time."""
    return opened(folder).eval()


def class_of(sample):
    """The class that transformers gives a sample model, by its name."""
    if not sample.startswith("dense"):
        return "MohLlamaForCausalLM"
    return {"qwen2": "Qwen2ForCausalLM", "qwen3": "Qwen3ForCausalLM"}.get(sample.split("_")[1] if "_" in sample else "", "LlamaForCausalLM")


def depends_on_length(folder):
    """Whether the angles of a sample's rotary embedding depend on the length of the sequence."""
    return folder.name.endswith("dynamic")


def for_each_sample(test):
    """A test of one sample's model, the numbers of moh for it, and its folder; as a test of all of them."""

    @functools.wraps(test)
    def all_samples(self):
        self.assertGreaterEqual(len(samples()), 26)
        for folder in samples():
            with self.subTest(folder.name), torch.no_grad():
                test(self, copy.deepcopy(first_opened(folder)), load_file(folder / "expected.safetensors"), folder)

    return all_samples


class ExportTest(unittest.TestCase):
    def assert_close(self, found, expected):
        error = (found - expected).abs().max().item() / expected.abs().max().item()
        self.assertLess(error, TOLERANCE)

    def test_every_tensor_is_used_and_none_is_missing(self):
        for folder in samples():
            model, info = opened(folder, output_loading_info=True)
            for kind in ("missing_keys", "unexpected_keys", "mismatched_keys"):
                self.assertFalse(info[kind], (folder.name, kind))
            self.assertEqual(type(model).__name__, class_of(folder.name))
            with safe_open(folder / "model.safetensors", "pt") as file:
                self.assertEqual(file.metadata(), {"format": "pt"})
                stored = {name: file.get_tensor(name) for name in file.keys()}
            state = model.state_dict()
            if model.config.tie_word_embeddings:
                self.assertIs(model.get_output_embeddings().weight, model.get_input_embeddings().weight)
                state.pop("lm_head.weight")
            self.assertEqual(set(state), set(stored))
            for name, tensor in stored.items():
                self.assertTrue(torch.equal(state[name], tensor), name)

    @for_each_sample
    def test_logits_are_those_of_moh(self, model, expected, _):
        self.assert_close(model(expected["tokens"]).logits, expected["logits"])

    @for_each_sample
    def test_padded_batches(self, model, expected, folder):
        if depends_on_length(folder):
            return  # padding makes sequences longer
        tokens, padding = expected["tokens"], torch.zeros(2, 3, dtype=torch.long)
        right = torch.cat([tokens, padding], dim=1)
        mask = torch.cat([torch.ones_like(tokens), padding], dim=1)
        self.assert_close(model(right).logits[:, :11], expected["logits"])
        self.assert_close(model(right, attention_mask=mask).logits[:, :11], expected["logits"])
        left = model(right.roll(3, 1), attention_mask=mask.roll(3, 1)).logits
        self.assertTrue(left.isfinite().all())
        self.assert_close(left[:, 3:], expected["logits"])
        # Sequences of different lengths in one batch.
        mixed = torch.stack([tokens[0], tokens[1].roll(4)])
        mask = torch.ones_like(mixed)
        mask[1, :4] = 0
        logits = model(mixed, attention_mask=mask).logits
        self.assert_close(logits[0], expected["logits"][0])
        self.assert_close(logits[1, 4:], expected["logits"][1, :7])

    @for_each_sample
    def test_generated_text_is_that_of_moh_with_and_without_a_cache(self, model, expected, folder):
        options = {"max_new_tokens": 8, "do_sample": False, "pad_token_id": 0}
        tokens = expected["tokens"]
        caches = ({"use_cache": True}, {"use_cache": False}, {"cache_implementation": "static"})
        # Keys in a cache keep their angles; and a model of transformers remembers the longest sequence.
        for cache in caches[:1] if depends_on_length(folder) else caches:
            found = model.generate(tokens, attention_mask=torch.ones_like(tokens), **options, **cache)
            self.assertEqual(found[:, 11:].tolist(), expected["continued"].tolist(), cache)
        if depends_on_length(folder):
            return
        padded = torch.cat([torch.zeros(2, 2, dtype=torch.long), tokens], dim=1)
        mask = torch.ones_like(padded)
        mask[:, :2] = 0
        found = model.generate(padded, attention_mask=mask, **options)
        self.assertEqual(found[:, 13:].tolist(), expected["continued"].tolist())

    @for_each_sample
    def test_a_cache_is_continued_in_chunks(self, model, expected, folder):
        if depends_on_length(folder):
            return
        for name in ("past_key_values", "cache"):  # as transformers calls it before 5.24, and from then on
            if name == "cache" and class_of(folder.name) != "MohLlamaForCausalLM":
                continue
            begun = model(expected["tokens"][:, :6], use_cache=True)
            rest = model(expected["tokens"][:, 6:], use_cache=True, **{name: begun.past_key_values})
            self.assert_close(torch.cat([begun.logits, rest.logits], dim=1), expected["logits"])

    @for_each_sample
    def test_beams_and_guesses_do_not_change_with_the_cache(self, model, expected, folder):
        if depends_on_length(folder):
            return
        tokens = expected["tokens"]
        options = {"max_new_tokens": 6, "do_sample": False, "pad_token_id": 0}
        for beams in ({"num_beams": 3}, {"num_beams": 3, "num_return_sequences": 2}):
            found = [model.generate(tokens, attention_mask=torch.ones_like(tokens), use_cache=cache, **options, **beams).tolist()
                     for cache in (True, False)]
            self.assertEqual(*found, beams)
        # Several tokens are tried at once, and the cache is cut back to those that were right.
        alone, likely = tokens[:1], expected["continued"][0].tolist()
        end = next(token for token in range(model.config.vocab_size) if token not in likely)  # transformers 4 needs one
        guessed = model.generate(alone, attention_mask=torch.ones_like(alone), prompt_lookup_num_tokens=3, eos_token_id=end, **options)
        self.assertEqual(guessed[0, 11:].tolist(), likely[:6])

    def test_what_the_model_does_not_know_is_refused(self):
        folder = next(folder for folder in samples() if class_of(folder.name) == "MohLlamaForCausalLM")
        model, tokens = opened(folder).eval(), load_file(folder / "expected.safetensors")["tokens"]
        expected = model(tokens).logits
        for arguments in ({"layer_past": transformers.DynamicCache()}, {"nonsense": tokens}, {"nonsense": 3}):
            with self.assertRaisesRegex(TypeError, next(iter(arguments))):
                model(tokens, **arguments)
        harmless = {"token_type_ids": torch.zeros_like(tokens), "cache_position": torch.arange(tokens.shape[1]),
                    "output_router_logits": False, "return_dict": True}
        self.assertTrue(torch.equal(model(tokens, **harmless).logits, expected))

    @for_each_sample
    def test_gradients_are_those_of_moh(self, model, expected, _):
        model.train()
        with torch.enable_grad():
            loss = model(expected["tokens"], labels=expected["tokens"]).loss
        loss.backward()
        self.assertAlmostEqual(loss.item(), expected["loss"].item(), delta=1e-5 * loss.item())
        for name, parameter in trained(model):
            gradient = expected["grad." + name]
            error = (parameter.grad - gradient).abs().max().item()
            # Where gates cannot pass anything on (one routed head is kept), what is left is tiny.
            self.assertLess(error, 2e-5 * gradient.abs().max().item() + ROUNDING, name)

    @for_each_sample
    def test_gradient_checkpointing_changes_nothing(self, model, expected, _):
        model.train()
        for reentrant in (False, True):
            model.zero_grad()
            model.gradient_checkpointing_enable({"use_reentrant": reentrant})
            model.enable_input_require_grads()
            self.assertTrue(model.is_gradient_checkpointing)
            with torch.enable_grad():
                model(expected["tokens"], labels=expected["tokens"], use_cache=False).loss.backward()
            for name, parameter in trained(model):
                gradient = expected["grad." + name]
                error = (parameter.grad - gradient).abs().max().item()
                self.assertLess(error, 2e-5 * gradient.abs().max().item() + ROUNDING, (reentrant, name))
            model.disable_input_require_grads()

    def test_bfloat16(self):
        key = "dtype" if transformers.__version__ >= "5" else "torch_dtype"
        for folder in samples():
            with self.subTest(folder.name), torch.no_grad():
                model, expected = opened(folder, **{key: torch.bfloat16}).eval(), load_file(folder / "expected.safetensors")
                model.tie_weights()
                logits = model(expected["tokens"]).logits
                self.assertEqual(logits.dtype, torch.bfloat16)
                # Where rounding changes a choice of heads the logits do differ; most stay near.
                error = (logits.float() - expected["logits"]).abs() / expected["logits"].abs().max()
                self.assertLess(error.median().item(), 0.03)

    def test_routers_keep_a_precision_of_their_own(self):
        folder = shutil.copytree(pathlib.Path(FOLDER.name) / "samples/learned", pathlib.Path(FOLDER.name) / "own_precision")
        config = json.loads((folder / "config.json").read_text())
        (folder / "config.json").write_text(json.dumps({**config, "moh_router_dtype": "float32"}))
        key = "dtype" if transformers.__version__ >= "5" else "torch_dtype"
        for name, parameter in opened(folder, **{key: torch.bfloat16}).named_parameters():
            routes = ".self_attn.wg" in name
            self.assertEqual(parameter.dtype, torch.float32 if routes else torch.bfloat16, name)

    @for_each_sample
    def test_what_transformers_saves_is_the_same_model(self, model, expected, folder):
        saved = pathlib.Path(FOLDER.name) / "saved" / folder.name
        model.save_pretrained(saved)
        self.assert_close(opened(saved).eval()(expected["tokens"]).logits, expected["logits"])
        done = subprocess.run([SAMPLES, "--compare", folder / "config.json", saved / "config.json"], check=False,
                              capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr + (saved / "config.json").read_text())


class TokenizerTest(unittest.TestCase):
    """The tokenizer that is exported with models of bytes."""

    def test_ids_are_the_bytes_of_any_text(self):
        folder = pathlib.Path(FOLDER.name) / "tokenizer"
        folder.mkdir()
        subprocess.run([SAMPLES, "--tokenizer", folder], check=True)
        tokenizer = AutoTokenizer.from_pretrained(folder)
        tokenizer.save_pretrained(folder / "saved")
        draw = random.Random(1)
        texts = ["", "hello", " two  spaces \n\tand\r\nlines ", "it's I'm <|endoftext|> </s>", "\u0100\u0120 \u00e9\u00ad \u6f22 \U0001f642",
                 "".join(chr(draw.randrange(1, 0xd800)) for _ in range(2000))]
        for loaded in (tokenizer, AutoTokenizer.from_pretrained(folder / "saved")):
            self.assertEqual((len(loaded), loaded.eos_token_id, loaded.bos_token_id, loaded.model_max_length), (256, 0, None, 64))
            for text in texts:
                ids = loaded(text)["input_ids"]
                self.assertEqual(ids, list(text.encode()))
                self.assertEqual(loaded.decode(ids), text)
            self.assertEqual(loaded("a\0b")["input_ids"], [97, 0, 98])
            self.assertEqual(loaded.decode([97, 0, 98], skip_special_tokens=True), "ab")
            self.assertEqual(loaded.encode(loaded.eos_token, add_special_tokens=False), [0])


class RoutingTest(unittest.TestCase):
    """Shared heads by index, and training."""

    def sample(self, name, **changes):
        folder = pathlib.Path(FOLDER.name) / f"{name}_changed"
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(pathlib.Path(FOLDER.name) / "samples" / name, folder)
        config = json.loads((folder / "config.json").read_text())
        (folder / "config.json").write_text(json.dumps({**config, **changes}))
        return opened(folder).eval(), load_file(folder / "expected.safetensors")

    def test_shared_heads_by_index(self):
        first = [[0, 1, 2, 3]] * 2
        model, expected = self.sample("query_norm", moh_shared_heads_index=first)
        with torch.no_grad():
            self.assertLess((model(expected["tokens"]).logits - expected["logits"]).abs().max().item(), 1e-4)
        # Moving heads, their index and their weights alike, changes nothing: with 4 KV heads of 2 query heads each,
        # groups change places.
        order = [4, 5, 0, 1, 6, 7, 2, 3]  # head i of the new model was head order[i]
        shared = sorted(order.index(h) for h in first[0])
        moved, _ = self.sample("query_norm", moh_shared_heads_index=[shared] * 2)
        self.assertEqual(shared, [2, 3, 6, 7])
        with torch.no_grad():
            for layer in moved.model.layers:
                attention, groups = layer.self_attn, [2, 0, 3, 1]
                for projection, places in ((attention.q_proj, order), (attention.k_proj, groups), (attention.v_proj, groups)):
                    projection.weight.copy_(projection.weight.unflatten(0, (-1, 4))[places].flatten(0, 1))
                attention.o_proj.weight.copy_(attention.o_proj.weight.unflatten(1, (-1, 4))[:, order].flatten(1))
            self.assertLess((moved(expected["tokens"]).logits - expected["logits"]).abs().max().item(), 1e-4)

    def test_gradients_reach_what_trains_the_router(self):
        for name, parameter in (("learned", "wg"), ("learned", "wg_0"), ("learned", "wg_1"), ("query_norm", "q_proj")):
            model, expected = self.sample(name)
            model.train()
            model(expected["tokens"], labels=expected["tokens"]).loss.backward()
            gradient = getattr(model.model.layers[0].self_attn, parameter).weight.grad
            self.assertGreater(gradient.abs().max().item(), 0, (name, parameter))

    def test_straight_through_changes_gradients_and_no_output(self):
        gradients = {}
        for passed_on in ("none", "selected", "all"):
            model, expected = self.sample("query_norm", moh_straight_through=passed_on, moh_balance_weight=0.0)
            loss = model.train()(expected["tokens"], labels=expected["tokens"]).loss
            loss.backward()
            gradients[passed_on] = (loss.item(), model.model.layers[0].self_attn.q_proj.weight.grad)
        self.assertEqual(len({loss for loss, _ in gradients.values()}), 1)
        for a, b in (("none", "selected"), ("selected", "all")):
            self.assertGreater((gradients[a][1] - gradients[b][1]).abs().max().item(), 1e-6)

    def test_attention_weights_are_those_that_were_used(self):
        for name in ("query_norm", "learned", "odd_heads"):
            model, expected = self.sample(name)
            tokens = expected["tokens"]
            mask = torch.ones_like(tokens)
            mask[1, :4] = 0
            values = {}
            handles = [layer.self_attn.v_proj.register_forward_hook(
                lambda _, __, output, i=i: values.update({i: output})) for i, layer in enumerate(model.model.layers)]
            inputs = {}
            handles += [layer.self_attn.o_proj.register_forward_hook(
                lambda _, args, __, i=i: inputs.update({i: args[0]})) for i, layer in enumerate(model.model.layers)]
            for attention_mask in (None, mask):
                with torch.no_grad():
                    output = model(tokens, attention_mask=attention_mask, output_attentions=True, output_gates=True)
                self.assertEqual(len(output.attentions), len(model.model.layers))
                for i, weights in enumerate(output.attentions):
                    attention = model.model.layers[i].self_attn
                    v = values[i].unflatten(-1, (-1, attention.head_dim)).transpose(1, 2).repeat_interleave(attention.group, 1)
                    heads = (weights @ v).transpose(1, 2) * output.gates[i].unsqueeze(-1)
                    self.assertLess((heads.flatten(2) - inputs[i]).abs().max().item(), 1e-5)
            for handle in handles:
                handle.remove()
            generated = model.generate(tokens, max_new_tokens=3, do_sample=False, pad_token_id=0, output_attentions=True,
                                       return_dict_in_generate=True)
            self.assertEqual([tuple(step[0].shape[2:]) for step in generated.attentions], [(11, 11), (1, 12), (1, 13)])

    def test_gates_and_loads(self):
        for name in ("query_norm_per_layer", "learned_listed", "odd_heads"):
            model, expected = self.sample(name)
            tokens = expected["tokens"]
            mask = torch.ones_like(tokens)
            mask[1, :4] = 0
            with torch.no_grad():
                plain, output = model(tokens), model(tokens, attention_mask=mask, output_gates=True)
            self.assertIsNone(plain.gates)
            self.assertIsNone(plain.balance_loss)
            self.assertEqual(output.balance_loss is None, name == "odd_heads")
            for layer, (gates, loads) in enumerate(zip(output.gates, output.head_loads)):
                router = model.model.layers[layer].self_attn.router
                self.assertEqual(gates.shape, (*tokens.shape, model.config.num_attention_heads))
                self.assertTrue(((gates != 0).sum(-1) == len(router.shared) + router.kept).all())
                self.assertTrue((loads[router.shared] == 1).all())
                self.assertAlmostEqual(loads.sum().item(), len(router.shared) + router.kept, places=5)
                kept = torch.cat([gates[0], gates[1, 4:]])
                self.assertLess(((kept != 0).float().mean(0) - loads).abs().max().item(), 1e-6)

    def test_the_losses_of_micro_batches_sum_to_that_of_the_step(self):
        model, expected = self.sample("learned", moh_balance_weight=0.0)
        tokens, labels = expected["tokens"], expected["tokens"].clone()
        labels[0, 2:6] = -100
        model.train()
        whole = model(tokens, labels=labels).loss
        items = (labels[:, 1:] != -100).sum()
        parts = [model(tokens[i : i + 1], labels=labels[i : i + 1], num_items_in_batch=items).loss for i in range(2)]
        self.assertAlmostEqual(sum(parts).item(), whole.item(), places=5)

    def test_unknown_settings_are_refused(self):
        for change in ({"moh_router": "random"}, {"moh_gate_scaling": "none"}, {"moh_active_heads": 9},
                       {"rope_parameters": {"rope_type": "longrope", "factor": 2.0}}):
            with self.assertRaises(ValueError):
                self.sample("query_norm", **change)


if __name__ == "__main__":
    main()
