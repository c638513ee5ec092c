# SPDX-License-Identifier: Apache-2.0
"""LLaMA with Mixture-of-Head attention (MoH, arXiv 2410.11842) for Hugging Face's transformers.

Written by moh beside the weights of a model that it exports; AutoModelForCausalLM loads it with
`trust_remote_code=True`. It computes what moh computes, in the plain way: attention of every head, then each head's
output times its gate, which is 0 for the heads that a token does not choose. It is for evaluation, generation and
further training in Python; moh itself skips the heads that are not chosen.

Shapes: B sequences, T tokens, D width, H query heads, d head width, S shared heads, E = H - S routed heads of which each
token keeps K.
"""

import math
from dataclasses import dataclass, fields
from typing import Optional

import torch
from torch import nn
from torch.nn import functional as F
from transformers import GenerationMixin, PreTrainedModel
from transformers.cache_utils import DynamicCache
from transformers.modeling_outputs import CausalLMOutputWithPast

from .configuration_moh_llama import MohLlamaConfig


@dataclass
class MohCausalLMOutputWithPast(CausalLMOutputWithPast):
    """What routing did, with `output_gates`; one entry per layer, None without it.

    gates         [B, T, H] float32: the factor of each head's output, 0 where a token does not choose the head.
    head_loads    [H]: the share of the tokens that choose each head. Tokens that the attention mask leaves out do not count.
    balance_loss  the mean of the layers' load-balance losses, without its weight; None where no head is routed.
    """

    gates: Optional[tuple[torch.FloatTensor, ...]] = None
    head_loads: Optional[tuple[torch.FloatTensor, ...]] = None
    balance_loss: Optional[torch.FloatTensor] = None


class RMSNorm(nn.Module):
    def __init__(self, width, eps):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))
        self.eps = eps

    def forward(self, x):
        y = x.float()
        y = y * torch.rsqrt(y.square().mean(-1, keepdim=True) + self.eps)
        return (self.weight.float() * y).to(x.dtype)


def frequencies_of(theta, config):
    """The d/2 frequencies of the rotary embedding, in radians per token, as floats."""
    return [theta ** (-i / config.head_dim) for i in range(0, config.head_dim, 2)]


def blended(frequencies, kept, factor):
    """Of each frequency the share `kept` as it is, the rest divided by the factor."""
    return [f * (k + (1 - k) / factor) for f, k in zip(frequencies, kept)]


def between_0_and_1(x):
    return min(max(x, 0.0), 1.0)


def yarn_frequencies(config, rope, original):
    """YaRN (arXiv 2309.00071): dimensions that turn often within the original context are kept, others stretched."""

    def pair_that_turns(times):
        return config.head_dim * math.log(original / (2 * math.pi * times)) / (2 * math.log(rope["rope_theta"]))

    low, high = pair_that_turns(rope.get("beta_fast") or 32), pair_that_turns(rope.get("beta_slow") or 1)
    if rope.get("truncate", True):
        low, high = math.floor(low), math.ceil(high)
    low, high = max(low, 0), min(high, config.head_dim - 1)
    length = high - low or 0.001
    kept = [1 - between_0_and_1((i - low) / length) for i in range(config.head_dim // 2)]
    return blended(frequencies_of(rope["rope_theta"], config), kept, rope["factor"])


def rope_frequencies(config, length=0):
    """The frequencies for a sequence of `length` tokens, which matters to the rope type `dynamic` alone."""
    rope = config.rope_parameters
    kind, theta = rope["rope_type"], rope["rope_theta"]
    if kind == "default":
        return frequencies_of(theta, config)
    factor = rope["factor"]
    original = rope.get("original_max_position_embeddings") or config.max_position_embeddings
    if kind == "linear":
        return [f / factor for f in frequencies_of(theta, config)]
    if kind == "yarn":
        return yarn_frequencies(config, rope, original)
    if kind == "dynamic":
        original = config.max_position_embeddings
        stretch = factor * max(length, original) / original - (factor - 1)
        return frequencies_of(theta * stretch ** (config.head_dim / (config.head_dim - 2)), config)
    low, high, frequencies = rope["low_freq_factor"], rope["high_freq_factor"], frequencies_of(theta, config)
    kept = [between_0_and_1((original * f / (2 * math.pi) - low) / (high - low)) for f in frequencies]
    return blended(frequencies, kept, factor)


def rope_factor(config):
    """The factor of the cosines and sines: 1 unless the rope type is `yarn`."""
    rope = config.rope_parameters
    if rope["rope_type"] != "yarn":
        return 1.0
    return rope.get("attention_factor") or 0.1 * math.log(rope["factor"]) + 1


def rotate(x, cos, sin):
    """x [B, heads, T, d], cos and sin [B, 1, T, d/2]: element i turns with element i + d/2, in float32."""
    low, high = x.float().chunk(2, dim=-1)
    return torch.cat([low * cos - high * sin, high * cos + low * sin], dim=-1).to(x.dtype)


def balance_loss(probabilities, selected, form, groups):
    """sum_i P_i f_i over the tokens ("paper"), times E ("code"), over K ("shares"), or the squared coefficient of variation of
    the mean softmax over a token's selected heads ("cv"); the mean of that of each group of heads. probabilities and selected
    [B, T, E], the former softmaxes of each group."""
    experts = probabilities.shape[-1]
    if form == "cv":
        gates = (selected * probabilities).unflatten(-1, (groups, -1))
        gates = gates / gates.sum(-1, keepdim=True).clamp_min(torch.finfo(gates.dtype).tiny)
        importance = gates.flatten(0, -3).mean(0)
        return (importance.var(-1, correction=0) / importance.mean(-1).square()).mean()
    mean = probabilities.reshape(-1, experts).mean(0)
    load = selected.reshape(-1, experts).mean(0)
    if form == "shares":
        load = load / load.sum() * groups
    return (mean * load).sum() / groups * (1 if form == "paper" else experts // groups)


class HeadRouter(nn.Module):
    """Gates of all heads for every token, in float32. Its weights belong to the attention layer by name, as in the paper's
    released code, each only where it is needed: wg [E, D] routed heads, wg_0 [2, D] shared against routed, wg_1 [S, D]
    shared heads. Where groups are routed, its heads are KV heads, whose gate is that of all query heads of theirs. Where heads
    are routed within groups, as many are kept of each; probabilities and gates are those of the layer all the same. With
    moh_balance_bias the heads are selected by probabilities plus e_score_correction_bias [E]; gates come from the former."""

    def __init__(self, config, layer):
        super().__init__()
        self.kind, self.scaling, self.form = config.moh_router, config.moh_gate_scaling, config.moh_balance_loss
        self.straight_through = config.moh_straight_through
        self.shared = config.shared_heads_of(layer)
        groups = config.moh_routing == "groups"
        count = config.num_key_value_heads if groups else config.num_attention_heads
        self.unit = config.num_attention_heads // count  # query heads that share a gate
        self.routed = [h for h in range(count) if h not in self.shared]
        self.kept = config.kept_heads_of(layer)
        if not 0 <= self.kept <= len(self.routed):
            raise ValueError(f"layer {layer}: expected 0 to {len(self.routed)} kept heads, found {self.kept}")
        self.groups = config.head_groups()
        if self.kept % self.groups or len(self.routed) % self.groups:
            raise ValueError(f"layer {layer}: expected as many heads of each of {self.groups} KV heads, found {self.kept} of "
                             f"{len(self.routed)} kept")
        order = self.shared + self.routed
        self.place = [order.index(h) for h in range(len(order))]  # of each head in [shared, routed]

    def add_weights(self, attention, config):
        if config.moh_balance_bias > 0 and self.kept > 0:
            bias = torch.zeros(len(self.routed), dtype=torch.float32)
            attention.e_score_correction_bias = nn.Parameter(bias, requires_grad=False)
        if self.kind != "learned":
            return
        shared, width = len(self.shared), config.hidden_size
        if self.kept > 0:
            attention.wg = nn.Linear(width, len(self.routed), bias=False)
        if self.kept > 0 and shared > 0 and config.moh_two_stage:
            attention.wg_0 = nn.Linear(width, 2, bias=False)
        if shared > 1:
            attention.wg_1 = nn.Linear(width, shared, bias=False)

    def forward(self, attention, x, q):
        """x [B, T, D] and the queries q [B, H, T, d] before their rotation to gates [B, T, H] and the layer's load-balance
        loss, None without routed heads."""
        shared, routed, balance = self.shared_gates(attention, x), None, None
        if self.kept > 0:
            logits = self.query_norms(q) if self.kind == "query_norm" else logits_of(attention.wg, x)
            probabilities = logits.softmax(-1)
            in_groups = logits.unflatten(-1, (self.groups, -1))
            scores = in_groups
            if hasattr(attention, "e_score_correction_bias"):
                scores = (probabilities + attention.e_score_correction_bias.float()).unflatten(-1, (self.groups, -1))
            # Stable, so that of equal logits the first head is kept.
            top = scores.argsort(dim=-1, descending=True, stable=True)[..., : self.kept // self.groups]
            selected = torch.zeros_like(in_groups).scatter(-1, top, 1.0).flatten(-2)
            routed = self.routed_gates(probabilities, selected)
            balance = balance_loss(in_groups.softmax(-1).flatten(-2), selected, self.form, self.groups)
        else:
            routed = x.new_zeros((*x.shape[:-1], len(self.routed)), dtype=torch.float32)
        if self.kind == "learned" and self.kept > 0 and self.shared:
            shared, routed = self.weigh_kinds(attention, x, shared, routed)
        gates = torch.cat([shared, routed], dim=-1)[..., self.place]
        return gates.repeat_interleave(self.unit, dim=-1), balance

    def shared_gates(self, attention, x):
        count = len(self.shared)
        if self.kind == "learned" and count > 1:
            gates = logits_of(attention.wg_1, x).softmax(-1)
            return gates if self.scaling == "paper" else count * gates
        return x.new_ones((*x.shape[:-1], count), dtype=torch.float32)

    def routed_gates(self, probabilities, selected):
        if self.kind == "query_norm":
            passed_on = probabilities - probabilities.detach()  # 0, with the gradient of the probabilities
            if self.straight_through == "all":
                return selected + passed_on
            return selected * (1 + passed_on) if self.straight_through == "selected" else selected
        if self.scaling == "paper":
            return selected * probabilities
        chosen = selected * probabilities
        floor = torch.finfo(chosen.dtype).eps
        return self.kept * chosen / chosen.sum(-1, keepdim=True).clamp_min(floor)

    def weigh_kinds(self, attention, x, shared, routed):
        scale = 1.0 if self.scaling == "paper" else 2.0
        if hasattr(attention, "wg_0"):
            kinds = scale * logits_of(attention.wg_0, x).softmax(-1)
            return kinds[..., :1] * shared, kinds[..., 1:] * routed
        return scale / 2 * shared, scale / 2 * routed

    def query_norms(self, q):
        """Norms of the routed heads' queries over their standard deviation; 0 where all norms are equal."""
        q = q.unflatten(1, (-1, self.unit)).transpose(2, 3).flatten(3)  # the queries of a group are one
        norms = q[:, self.routed].float().norm(dim=-1).transpose(1, 2)
        spread = norms.std(dim=-1, keepdim=True)
        return torch.where(spread > 0, norms / spread.clamp_min(torch.finfo(norms.dtype).tiny), 0.0)


def logits_of(linear, x):
    return F.linear(x.float(), linear.weight.float())


def attention_weights(q, k, mask):
    """What F.scaled_dot_product_attention multiplies the values by, [B, H, T, last + 1], in q's dtype. mask as of causal_mask()."""
    scores = q.float() @ k.float().transpose(-1, -2) / math.sqrt(q.shape[-1])
    if mask is None and q.shape[2] > 1:
        mask = torch.ones(q.shape[2], k.shape[2], dtype=torch.bool, device=q.device).tril()
    if mask is not None:
        scores = scores.masked_fill(~mask, float("-inf")) if mask.dtype == torch.bool else scores + mask
    return scores.softmax(-1).to(q.dtype)


class Attention(nn.Module):
    def __init__(self, config, layer):
        super().__init__()
        self.layer, self.head_dim = layer, config.head_dim
        heads, kv_heads = config.num_attention_heads, config.num_key_value_heads
        self.group = heads // kv_heads
        self.q_proj = nn.Linear(config.hidden_size, heads * config.head_dim, bias=config.qkv_bias)
        self.k_proj = nn.Linear(config.hidden_size, kv_heads * config.head_dim, bias=config.qkv_bias)
        self.v_proj = nn.Linear(config.hidden_size, kv_heads * config.head_dim, bias=config.qkv_bias)
        self.o_proj = nn.Linear(heads * config.head_dim, config.hidden_size, bias=config.o_bias)
        if config.qk_norm:
            self.q_norm = RMSNorm(config.head_dim, config.rms_norm_eps)
            self.k_norm = RMSNorm(config.head_dim, config.rms_norm_eps)
        if config.moh_attention_gate != "none":
            gates = heads * (config.head_dim if config.moh_attention_gate == "element" else 1)
            self.output_gate = nn.Linear(config.hidden_size, gates, bias=False)
        self.router = HeadRouter(config, layer)
        self.router.add_weights(self, config)

    def forward(self, x, cos, sin, mask, past, places, with_weights):
        """x [B, T, D]; mask as of causal_mask(); places [T], those of the tokens in the cache, as a range of Python. Returns the
        output, the gates, the load-balance loss or None, and the attention weights, if they are wanted, or None."""
        projections = (self.q_proj, self.k_proj, self.v_proj)
        q, k, v = (p(x).unflatten(-1, (-1, self.head_dim)).transpose(1, 2) for p in projections)
        gates, balance = self.router(self, x, q)  # which looks at the queries before their norm
        if hasattr(self, "q_norm"):
            q, k = self.q_norm(q), self.k_norm(k)
        q, k = rotate(q, cos, sin), rotate(k, cos, sin)
        if past is not None:
            # transformers 4 has to be told the places; a cache of fixed size returns its empty ones as well.
            positions = torch.arange(places.start, places.stop, device=x.device)
            k, v = past.update(k, v, self.layer, {"cache_position": positions})
            k, v = k[:, :, : places.stop], v[:, :, : places.stop]
        k, v = (y.repeat_interleave(self.group, dim=1) for y in (k, v))
        y = F.scaled_dot_product_attention(q, k, v, mask, is_causal=mask is None and q.shape[2] > 1)
        y = y.transpose(1, 2) * gates.unsqueeze(-1).to(y.dtype)
        if hasattr(self, "output_gate"):
            y = y * self.output_gate(x).sigmoid().unflatten(-1, (y.shape[2], -1))
        weights = attention_weights(q, k, mask) if with_weights else None
        return self.o_proj(y.flatten(2)), gates, balance, weights


class MLP(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.gate_proj = nn.Linear(config.hidden_size, config.intermediate_size, bias=config.mlp_bias)
        self.up_proj = nn.Linear(config.hidden_size, config.intermediate_size, bias=config.mlp_bias)
        self.down_proj = nn.Linear(config.intermediate_size, config.hidden_size, bias=config.mlp_bias)

    def forward(self, x):
        return self.down_proj(F.silu(self.gate_proj(x)) * self.up_proj(x))


class DecoderLayer(nn.Module):
    def __init__(self, config, layer):
        super().__init__()
        self.input_layernorm = RMSNorm(config.hidden_size, config.rms_norm_eps)
        self.self_attn = Attention(config, layer)
        self.post_attention_layernorm = RMSNorm(config.hidden_size, config.rms_norm_eps)
        self.mlp = MLP(config)

    def forward(self, x, *context):
        y, *routing = self.self_attn(self.input_layernorm(x), *context)
        x = x + y
        return x + self.mlp(self.post_attention_layernorm(x)), *routing


def causal_mask(attention_mask, places, device, window=0):
    """True where a token of `places` looks at one of those up to the last place, [B or 1, 1, T, last + 1]; None where each
    looks at all before it, which attention kernels do without a mask. attention_mask [B, last + 1 or more] is 0 for
    padding, on whichever side; one of four axes is taken as it is, within the window. With a window a token looks at itself
    and the window - 1 before it."""
    end = places.stop
    window = window if 0 < window < end else 0  # a longer one hides nothing
    keys = torch.arange(end, device=device)
    queries = keys[places.start :, None]
    if attention_mask is not None and attention_mask.dim() == 4:
        mask = attention_mask[..., :end]
        near = keys > queries - window
        return mask if not window else mask & near if mask.dtype == torch.bool else mask.masked_fill(~near, float("-inf"))
    padded = attention_mask is not None and not bool(attention_mask.bool().all())
    if not padded and not window and len(places) in (1, end):
        return None
    mask = (keys <= queries)[None, None]
    if window:
        mask = mask & (keys > queries - window)
    if padded:
        # A padded token looks at itself: a row without any key would be NaN, and spread.
        mask = mask & attention_mask[:, None, None, :end].bool() | (keys == queries)
    return mask


class Decoder(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.config, self.frequencies, self.rope_factor = config, rope_frequencies(config), rope_factor(config)
        self.embed_tokens = nn.Embedding(config.vocab_size, config.hidden_size)
        self.layers = nn.ModuleList(DecoderLayer(config, layer) for layer in range(config.num_hidden_layers))
        self.norm = RMSNorm(config.hidden_size, config.rms_norm_eps)
        self.gradient_checkpointing = False  # transformers sets it, and _gradient_checkpointing_func

    def rotations(self, positions):
        """Cosines and sines [B, 1, T, d/2] of positions [B, T]. Angles are formed in double precision where there is one."""
        dtype = torch.float32 if positions.device.type == "mps" else torch.float64
        frequencies = self.frequencies
        if self.config.rope_parameters["rope_type"] == "dynamic":
            frequencies = rope_frequencies(self.config, int(positions.max()) + 1)
        angles = positions.to(dtype)[:, None, :, None] * torch.tensor(frequencies, dtype=dtype, device=positions.device)
        return (self.rope_factor * angles.cos()).float(), (self.rope_factor * angles.sin()).float()

    def run(self, layer, x, *context):
        """A layer, which the backward pass computes again where transformers asks for that. A cache would be filled twice."""
        past = context[3]
        if self.gradient_checkpointing and self.training and past is None:
            return self._gradient_checkpointing_func(layer.__call__, x, *context)
        return layer(x, *context)

    def forward(self, x, attention_mask, position_ids, past, with_weights):
        """Embeddings x [B, T, D] to the hidden states before each layer and the normed output, and, layer by layer, gates,
        balance losses and attention weights."""
        start = int(past.get_seq_length()) if past is not None else 0
        places = range(start, start + x.shape[1])
        if position_ids is None:
            position_ids = torch.arange(places.start, places.stop, device=x.device)[None]
        rotations = self.rotations(position_ids)
        windows = [self.config.window_of(layer) for layer in range(len(self.layers))]
        masks = {window: causal_mask(attention_mask, places, x.device, window) for window in set(windows)}
        states, routing = [x], []
        for layer, window in zip(self.layers, windows):
            x, *of_layer = self.run(layer, x, *rotations, masks[window], past, places, with_weights)
            states.append(x)
            routing.append(of_layer)
        states[-1] = self.norm(x)
        return tuple(states), *zip(*routing)


def head_loads(gates, attention_mask):
    """The share of the tokens for which a gate [B, T, H] is not 0. attention_mask [B, T or more, with what is cached] or None."""
    chosen = (gates != 0).float()
    if attention_mask is None or attention_mask.dim() != 2:
        return chosen.mean((0, 1))
    counts = attention_mask[:, -gates.shape[1] :, None].to(chosen)
    return (chosen * counts).sum((0, 1)) / counts.sum().clamp_min(1)


# The name of the cache among a model's outputs, which transformers 5.24 changed.
CACHE_OUTPUT = "cache" if "cache" in {field.name for field in fields(CausalLMOutputWithPast)} else "past_key_values"

# What transformers passes to every model and means nothing here: the places of the tokens in the cache, which the cache
# itself knows, and how far `generate` has come.
WITHOUT_MEANING = ("cache_position", "is_first_iteration", "next_sequence_length")


def one_cache(**given):
    """The cache that a caller hands over, by whichever of its names: transformers 5.24 calls `cache` what was
    `past_key_values` before it. None if there is none."""
    given = {name: value for name, value in given.items() if value is not None}
    cache = next(iter(given.values()), None)
    if any(value is not cache for value in given.values()):
        raise ValueError(f"expected one cache, found {' and '.join(given)}, which differ")
    if cache is not None and not hasattr(cache, "get_seq_length"):
        raise TypeError(f"{next(iter(given))}: expected a Cache of transformers, found {type(cache).__name__}")
    return cache


def refuse_unknown(arguments):
    """Throws for an argument that has a meaning which would be lost: a cache by a new name, a tensor, a number. Flags that
    are off, and those that ask for more output, do no harm."""
    for name, value in arguments.items():
        bidirectional = name == "is_causal" and value is False
        one_type = name == "token_type_ids" and value is not None and not bool(value.any())  # as of tokenizers for one text
        if value is None or name in WITHOUT_MEANING or one_type or (isinstance(value, bool) and not bidirectional):
            continue
        raise TypeError(f"forward: expected arguments that MohLlamaForCausalLM knows, found {name} ({type(value).__name__}); "
                        "it would be ignored, and the result wrong without a word")


class MohLlamaForCausalLM(PreTrainedModel, GenerationMixin):
    config_class = MohLlamaConfig
    base_model_prefix = "model"
    _no_split_modules = ["DecoderLayer"]
    _supports_sdpa = True
    supports_gradient_checkpointing = True
    _tied_weights_keys = {"lm_head.weight": "model.embed_tokens.weight"}

    def __init__(self, config):
        super().__init__(config)
        self.model = Decoder(config)
        self.lm_head = nn.Linear(config.hidden_size, config.vocab_size, bias=False)
        routers = ["wg", "wg_0", "wg_1"] if config.moh_router_dtype == "float32" else []
        # A name that no parameter has is refused.
        biases = {"e_score_correction_bias"} & {name.rpartition(".")[2] for name, _ in self.named_parameters()}
        self._keep_in_fp32_modules_strict = [*routers, *biases]
        self.post_init()

    def _init_weights(self, module):
        if isinstance(module, (nn.Linear, nn.Embedding)):
            nn.init.normal_(module.weight, mean=0.0, std=self.config.initializer_range)
            if getattr(module, "bias", None) is not None:
                nn.init.zeros_(module.bias)
        elif isinstance(module, RMSNorm):
            nn.init.ones_(module.weight)

    def get_input_embeddings(self):
        return self.model.embed_tokens

    def set_input_embeddings(self, value):
        self.model.embed_tokens = value

    def get_output_embeddings(self):
        return self.lm_head

    def set_output_embeddings(self, value):
        self.lm_head = value

    def forward(
        self,
        input_ids=None,
        attention_mask=None,
        position_ids=None,
        past_key_values=None,
        inputs_embeds=None,
        labels=None,
        use_cache=None,
        output_attentions=None,
        output_hidden_states=None,
        output_gates=False,
        return_dict=None,
        logits_to_keep=0,
        num_items_in_batch=None,
        cache=None,
        past_key_value=None,
        **kwargs,
    ):
        """Logits in the model's dtype. With `labels` (input_ids, -100 where there is nothing to learn) the loss is the mean
        cross-entropy of the next tokens; in training the layers' mean load-balance loss joins it. With `num_items_in_batch`,
        the tokens to learn of all micro-batches of a step, the losses of the micro-batches sum to that of the step.
        Attention weights [B, H, T, S] are those before the gates. The cache may be called `past_key_values`, `cache` or
        `past_key_value`."""
        refuse_unknown(kwargs)
        past_key_values = one_cache(past_key_values=past_key_values, cache=cache, past_key_value=past_key_value)
        if (input_ids is None) == (inputs_embeds is None):
            raise ValueError("expected either input_ids or inputs_embeds")
        x = self.model.embed_tokens(input_ids) if inputs_embeds is None else inputs_embeds
        use_cache = self.config.use_cache if use_cache is None else use_cache
        output_attentions = getattr(self.config, "output_attentions", False) if output_attentions is None else output_attentions
        if use_cache and past_key_values is None and not self.training:
            past_key_values = DynamicCache()
        states, gates, balances, weights = self.model(x, attention_mask, position_ids, past_key_values, output_attentions)
        balances = [balance for balance in balances if balance is not None]
        balance = torch.stack(balances).mean() if balances else None
        kept = slice(-logits_to_keep, None) if isinstance(logits_to_keep, int) else logits_to_keep
        logits = self.lm_head(states[-1][:, kept])
        output = MohCausalLMOutputWithPast(
            loss=None if labels is None else self.loss_of(logits, labels, balance, num_items_in_batch),
            logits=logits,
            **{CACHE_OUTPUT: past_key_values if use_cache else None},
            hidden_states=states if output_hidden_states else None,
            attentions=weights if output_attentions else None,
            gates=gates if output_gates else None,
            head_loads=tuple(head_loads(g, attention_mask) for g in gates) if output_gates else None,
            balance_loss=balance if output_gates else None,
        )
        return output if return_dict is None or return_dict else output.to_tuple()

    def loss_of(self, logits, labels, balance, num_items_in_batch):
        targets = labels[:, 1:].flatten().to(logits.device)
        loss = F.cross_entropy(logits[:, :-1].flatten(0, 1).float(), targets)
        if self.training and balance is not None:
            loss = loss + self.config.moh_balance_weight * balance
        if num_items_in_batch is None:
            return loss
        return loss * (targets != -100).sum() / num_items_in_batch
