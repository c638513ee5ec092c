"""The code that an exported MoH model brings, called as versions of transformers call it: the cache arrives by whichever name, and
nothing that has a meaning is passed over. Stand-ins take the place of torch and transformers, so this needs neither."""

import dataclasses
import importlib
import os
import pathlib
import sys
import types
import unittest

PYTHON = pathlib.Path(os.environ["MOH_SOURCE_DIR"], "train/families/language/hf/python")


class Anything:
    """Stands for any object of the libraries: a tensor, a type, a module."""

    def __init__(self, *_, **__):
        pass

    def __call__(self, *_, **__):
        return Anything()

    def __getattr__(self, name):
        if name.startswith("__") or name == "get_seq_length":  # the latter tells a cache
            raise AttributeError(name)
        return Anything()

    def __getitem__(self, _):
        return Anything()


class Cache:
    def get_seq_length(self):
        return 3


class Ids:
    """Of the types of tokens."""

    def __init__(self, *ids):
        self.ids = ids

    def any(self):
        return any(self.ids)


@dataclasses.dataclass
class Output:
    loss: object = None
    logits: object = None
    past_key_values: object = None
    hidden_states: object = None
    attentions: object = None


def stand_in(name, **members):
    module = types.ModuleType(name)
    module.__getattr__ = lambda member: type(member, (Anything,), {})  # a type, which can be a base
    vars(module).update(members)
    sys.modules[name] = module
    return module


def modeling():
    """modeling_moh_llama.py with stand-ins for what it imports."""
    functional = stand_in("torch.nn.functional")
    nn = stand_in("torch.nn", functional=functional)
    stand_in("torch", nn=nn, FloatTensor=Anything)
    stand_in("transformers")
    stand_in("transformers.cache_utils", DynamicCache=Cache)
    stand_in("transformers.modeling_outputs", CausalLMOutputWithPast=Output)
    package = types.ModuleType("exported")
    package.__path__ = [str(PYTHON)]
    sys.modules["exported"] = package
    return importlib.import_module("exported.modeling_moh_llama")


CODE = modeling()


class Decoder:
    """Stands for the layers, and notes the cache that they are given."""

    def __init__(self):
        self.past = None

    def embed_tokens(self, _):
        return Anything()

    def __call__(self, x, attention_mask, position_ids, past, with_weights):
        self.past = past
        return [Anything()], [], [], []


class CallTest(unittest.TestCase):
    def setUp(self):
        self.model = CODE.MohLlamaForCausalLM.__new__(CODE.MohLlamaForCausalLM)
        self.model.model, self.model.lm_head, self.model.training = Decoder(), Anything(), False
        self.model.config = types.SimpleNamespace(use_cache=True, output_attentions=False)

    def call(self, **arguments):
        return self.model.forward(input_ids=Anything(), **arguments)

    def refused(self, **arguments):
        (name,) = arguments
        with self.assertRaisesRegex(TypeError, f"found {name} "):
            self.call(**arguments)

    def test_a_cache_is_taken_by_each_of_its_names(self):
        for name in ("past_key_values", "cache", "past_key_value"):
            cache = Cache()
            output = self.call(**{name: cache})
            self.assertIs(self.model.model.past, cache, name)
            self.assertIs(output.past_key_values, cache, name)
        cache = Cache()
        self.call(cache=cache, past_key_values=cache)
        self.assertIs(self.model.model.past, cache)
        with self.assertRaisesRegex(ValueError, "past_key_values and cache, which differ"):
            self.call(cache=cache, past_key_values=Cache())
        with self.assertRaisesRegex(TypeError, "cache: expected a Cache of transformers, found tuple"):
            self.call(cache=((1, 2), (3, 4)))

    def test_without_one_a_cache_is_made_where_it_is_wanted(self):
        self.call()
        self.assertIsInstance(self.model.model.past, Cache)
        self.call(use_cache=False, cache=None)
        self.assertIsNone(self.model.model.past)

    def test_what_has_a_meaning_is_not_passed_over(self):
        for value in (Cache(), Anything(), (Cache(),), {"cache": Cache()}, 3, 0, "text"):
            self.refused(nonsense=value)
        self.refused(layer_past=Cache())
        self.refused(encoder_hidden_states=Anything())
        self.refused(cu_seq_lens_q=Anything())
        self.refused(is_causal=False)
        self.refused(token_type_ids=Ids(0, 1))

    def test_what_transformers_passes_to_every_model_is_taken(self):
        self.call(attention_mask=None, position_ids=None, cache_position=Anything(), logits_to_keep=1, use_cache=True,
                  output_attentions=False, output_hidden_states=True, output_router_logits=True, return_dict=True,
                  num_items_in_batch=Anything(), inputs_embeds=None, labels=None, head_mask=None, is_first_iteration=True,
                  is_causal=True, token_type_ids=Ids(0, 0))


if __name__ == "__main__":
    unittest.main()
