# SPDX-License-Identifier: Apache-2.0
"""Configuration of a Mixture-of-Head LLaMA model (MoH, arXiv 2410.11842) for Hugging Face's transformers.

Written by moh beside the weights of a model that it exports; AutoConfig and AutoModelForCausalLM load it with
`trust_remote_code=True`. The model itself is in modeling_moh_llama.py.
"""

from transformers import PretrainedConfig

ATTENTION_GATES = ("none", "head", "element")
ROUTERS = ("none", "learned", "query_norm")
ROUTINGS = ("heads", "groups", "within_groups")
GATE_SCALINGS = ("code", "paper")
BALANCE_LOSSES = ("code", "paper", "shares", "cv")
STRAIGHT_THROUGH = ("none", "selected", "all")
ROUTER_DTYPES = (None, "float32")
ROPE_TYPES = ("default", "linear", "llama3", "yarn", "dynamic")


def one_of(name, value, choices):
    if value not in choices:
        raise ValueError(f"{name}: expected one of {', '.join(map(str, choices))}, found {value!r}")
    return value


class MohLlamaConfig(PretrainedConfig):
    """The fields of LlamaConfig, those of its kin, and those of the routing of heads:

    qkv_bias, o_bias      biases of q_proj, k_proj and v_proj (Qwen 2), and of o_proj.
    mlp_bias              biases of gate_proj, up_proj and down_proj.
    qk_norm               RMSNorm of the queries and keys of each head before their rotation (Qwen 3).
    moh_attention_gate    sigmoid gates of the heads' outputs before o_proj (arXiv 2505.06708), from the layer's input: "none",
                          "head": one for each head of a token, "element": one for each element of a head.
    sliding_windows       tokens that a token attends to, itself and those before it: one number, or one per layer; 0: all.
    moh_router            "learned": linear maps of the layer's input. "query_norm": norms of the queries, gates 1.
                          "none": every head is shared, as in LLaMA; for head counts that LlamaConfig refuses.
    moh_routing           "heads": of query heads. "groups": of KV heads, each with all query heads that share it; then
                          they are what the following fields count and list. "within_groups": of query heads, as many of
                          each KV head; counts are those of the layer.
    moh_shared_heads      heads that are on for every token: one count, or one per layer.
    moh_active_heads      shared heads plus the routed ones that each token keeps: one count, or one per layer.
    moh_shared_heads_index   which heads are shared, ascending, one list per layer; None: the first ones, within groups of each.
    moh_gate_scaling      of "learned": "code", as the released code (gates of about 1), or "paper" (their sum is 1 at most).
    moh_two_stage         of "learned": weigh shared against routed heads, token by token.
    moh_straight_through  of "query_norm": gates of which heads pass gradients on to the router.
    moh_balance_loss      "code": E sum P_i f_i, "paper": without E, "shares": E sum P_i f_i / K, "cv": the squared
                          coefficient of variation of the heads' importance. None: as the scaling of "learned", else "code".
    moh_balance_weight    of the load-balance loss, which joins the loss in training.
    moh_balance_bias      above 0: the routed heads are selected by biased probabilities. It is the step by which moh moves the
                          biases in training; in Python they stay as they are.
    moh_router_dtype      "float32": the routers' weights keep this type in a model of another. None: they have the model's.
    """

    model_type = "moh_llama"
    keys_to_ignore_at_inference = ["past_key_values", "cache"]

    def __init__(
        self,
        vocab_size=32000,
        hidden_size=4096,
        intermediate_size=11008,
        num_hidden_layers=32,
        num_attention_heads=32,
        num_key_value_heads=None,
        head_dim=None,
        max_position_embeddings=2048,
        rms_norm_eps=1e-6,
        rope_theta=None,
        rope_scaling=None,
        rope_parameters=None,
        initializer_range=0.02,
        use_cache=True,
        qkv_bias=False,
        o_bias=False,
        mlp_bias=False,
        qk_norm=False,
        moh_attention_gate="none",
        sliding_windows=0,
        moh_router="query_norm",
        moh_routing="heads",
        moh_shared_heads=0,
        moh_active_heads=1,
        moh_shared_heads_index=None,
        moh_gate_scaling="code",
        moh_two_stage=True,
        moh_straight_through="selected",
        moh_balance_loss=None,
        moh_balance_weight=0.01,
        moh_balance_bias=0.0,
        moh_router_dtype=None,
        tie_word_embeddings=False,
        **kwargs,
    ):
        self.vocab_size = vocab_size
        self.hidden_size = hidden_size
        self.intermediate_size = intermediate_size
        self.num_hidden_layers = num_hidden_layers
        self.num_attention_heads = num_attention_heads
        self.num_key_value_heads = num_key_value_heads or num_attention_heads
        self.head_dim = head_dim or hidden_size // num_attention_heads
        self.max_position_embeddings = max_position_embeddings
        self.rms_norm_eps = rms_norm_eps
        # rope_theta and rope_scaling are how transformers 4 spells it, rope_parameters is how transformers 5 does.
        plain = {"rope_theta": rope_theta or 10000.0, "rope_type": "default"}
        self.rope_parameters = {**plain, **(rope_scaling or {}), **(rope_parameters or {})}
        one_of("rope_type", self.rope_parameters["rope_type"], ROPE_TYPES)
        self.initializer_range = initializer_range
        self.use_cache = use_cache
        self.qkv_bias, self.o_bias, self.mlp_bias, self.qk_norm = qkv_bias, o_bias, mlp_bias, qk_norm
        self.moh_attention_gate = one_of("moh_attention_gate", moh_attention_gate, ATTENTION_GATES)
        self.sliding_windows = sliding_windows
        self.moh_router = one_of("moh_router", moh_router, ROUTERS)
        self.moh_routing = one_of("moh_routing", moh_routing, ROUTINGS)
        self.moh_shared_heads = moh_shared_heads
        self.moh_active_heads = moh_active_heads
        self.moh_shared_heads_index = moh_shared_heads_index
        self.moh_gate_scaling = one_of("moh_gate_scaling", moh_gate_scaling, GATE_SCALINGS)
        self.moh_two_stage = moh_two_stage
        self.moh_straight_through = one_of("moh_straight_through", moh_straight_through, STRAIGHT_THROUGH)
        form = moh_balance_loss or (moh_gate_scaling if moh_router == "learned" else "code")
        self.moh_balance_loss = one_of("moh_balance_loss", form, BALANCE_LOSSES)
        self.moh_balance_weight = moh_balance_weight
        self.moh_balance_bias = moh_balance_bias
        self.moh_router_dtype = one_of("moh_router_dtype", moh_router_dtype, ROUTER_DTYPES)
        super().__init__(tie_word_embeddings=tie_word_embeddings, **kwargs)

    def shared_heads_of(self, layer):
        """Indices of the shared heads of a layer, ascending: the order of the rows of wg_1."""
        if self.moh_shared_heads_index is not None:
            return sorted(self.moh_shared_heads_index[layer])
        groups = self.head_groups()
        size, each = self.num_attention_heads // groups, self._of_layer(self.moh_shared_heads, layer) // groups
        return [group * size + i for group in range(groups) for i in range(each)]

    def head_groups(self):
        """The groups of heads of which a token keeps as many."""
        return self.num_key_value_heads if self.moh_routing == "within_groups" else 1

    def kept_heads_of(self, layer):
        """How many routed heads each token keeps in a layer (K)."""
        return self._of_layer(self.moh_active_heads, layer) - len(self.shared_heads_of(layer))

    def window_of(self, layer):
        """Tokens that a token of this layer attends to; 0: all."""
        return self._of_layer(self.sliding_windows, layer)

    @staticmethod
    def _of_layer(counts, layer):
        return counts if isinstance(counts, int) else counts[layer]
