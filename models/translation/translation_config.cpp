#include "models/translation/translation_config.h"

#include <string>
#include <string_view>
#include <utility>

#include "ops/attention/attention.h"

namespace moh {

namespace {

/// Checks that counts are in range. Returns whether there is no fault.
bool check_counts(const TranslationConfig& c, ConfigFaults& faults) {
  const std::size_t before = faults.all().size();
  for (const auto& [field, value] : {std::pair<std::string_view, std::int64_t>{"vocab_size", c.vocab_size},
                                     {"encoder_layers", c.encoder_layers},
                                     {"decoder_layers", c.decoder_layers},
                                     {"hidden", c.hidden},
                                     {"intermediate", c.intermediate},
                                     {"heads", c.heads},
                                     {"max_positions", c.max_positions}}) {
    if (value < 1) faults.add({field}, "1 or more", number_text(value));
  }
  for (const auto& [field, value] :
       {std::pair<std::string_view, std::int64_t>{"source_vocab_size", c.source_vocab_size},
        {"kv_heads", c.kv_heads},
        {"head_dim", c.head_dim},
        {"position_offset", c.position_offset}}) {
    if (value < 0) faults.add({field}, "0 or more", number_text(value));
  }
  return faults.all().size() == before;
}

void check_numbers(const TranslationConfig& c, ConfigFaults& faults) {
  if (!(c.norm_eps > 0)) faults.add({"norm_eps"}, "a number above 0", number_text(c.norm_eps));
  for (const auto& [field, value] : {std::pair<std::string_view, double>{"dropout", c.dropout},
                                     {"attention_dropout", c.attention_dropout},
                                     {"activation_dropout", c.activation_dropout}}) {
    if (!(value >= 0 && value < 1)) faults.add({field}, "0 or more, below 1", number_text(value));
  }
}

void check_heads(const TranslationConfig& c, ConfigFaults& faults) {
  const TranslationConfig spelt = spelt_out(c);
  if (c.head_dim == 0 && c.hidden % c.heads != 0) {
    faults.add({"heads", "hidden", "head_dim"},
               "a divisor of " + faults.key("hidden") + " (" + number_text(c.hidden) + ")",
               number_text(c.heads), "or set " + faults.key("head_dim"));
  } else if (spelt.head_dim > kMostHeadDim) {
    faults.add({"head_dim", "hidden", "heads"}, "at most " + number_text(kMostHeadDim),
               number_text(spelt.head_dim));
  }
  if (c.heads % spelt.kv_heads != 0) {
    faults.add({"kv_heads", "heads"},
               "a divisor of " + faults.key("heads") + " (" + number_text(c.heads) + ")",
               number_text(c.kv_heads));
  }
}

void check_embeddings(const TranslationConfig& c, ConfigFaults& faults) {
  if (c.shared_embeddings == SharedEmbeddings::kAll && spelt_out(c).source_vocab_size != c.vocab_size) {
    faults.add({"source_vocab_size", "shared_embeddings", "vocab_size"},
               "0 or " + faults.key("vocab_size") + " (" + number_text(c.vocab_size) + ") with " +
                   faults.key("shared_embeddings") + ": all",
               number_text(c.source_vocab_size), "or set " + faults.key("shared_embeddings") + ": decoder");
  }
  if (c.positions != PositionKind::kSinusoidal) {
    if (c.sinusoids != SinusoidKind::kFairseq)
      faults.add({"sinusoids", "positions"}, "fairseq where positions are learned", "marian");
  } else if (c.hidden % 2 != 0 || c.hidden < 4) {
    faults.add({"hidden", "positions"}, "an even number from 4 on, for sines and cosines of positions",
               number_text(c.hidden));
  }
}

void check_routing(const TranslationConfig& c, ConfigFaults& faults) {
  if (c.moh.learn_shared_until != 0)
    faults.add({"moh.learn_shared_until"}, "0 for a translation model",
               number_text(c.moh.learn_shared_until));
  if (c.moh.routed != RoutedRows::kQueries)
    faults.add({"moh.routed"}, "queries for a translation model", "queries_keys_values",
               "cross-attention has its keys and values from other tokens than those that are routed");
  if (!c.moh.routing->keeps_heads() && c.attention_gate != AttentionGate::kNone)
    faults.add({"attention_gate", "moh.routing"},
               "none with " + faults.key("moh.routing") + ": " + std::string(c.moh.routing->name), "gates",
               "they are of heads, and its outputs are others");
  const std::int64_t kv_heads = spelt_out(c).kv_heads;
  check(c.moh,
        {.layers = c.attention_layers(),
         .heads = c.moh.routing->units({c.heads, kv_heads}),
         .heads_field = c.moh.routing->unit_field,
         .kv_heads = kv_heads,
         .sources = {.queries = true},
         .layers_field = "encoder_layers",
         .layers_text = "attention layers, one of each encoder layer and two of each decoder layer"},
        faults);
}

}  // namespace

TranslationConfig spelt_out(TranslationConfig config) {
  if (config.source_vocab_size == 0) config.source_vocab_size = config.vocab_size;
  if (config.kv_heads == 0) config.kv_heads = config.heads;
  if (config.head_dim == 0) config.head_dim = config.hidden / config.heads;
  return config;
}

void check(const TranslationConfig& c, ConfigFaults& faults) {
  if (!check_counts(c, faults)) return;
  check_numbers(c, faults);
  check_heads(c, faults);
  check_embeddings(c, faults);
  check_routing(c, faults);
}

void require_valid(const TranslationConfig& config) {
  ConfigFaults faults;
  check(config, faults);
  faults.throw_first("translation");
}

HeadRoutingOptions routing_of(const TranslationConfig& c, std::int64_t layer) {
  return routing_of(c.moh, c.heads, layer, spelt_out(c).kv_heads);
}

std::vector<HeadRoutingOptions> routing_of(const TranslationConfig& c) {
  std::vector<HeadRoutingOptions> layers;
  for (std::int64_t i = 0; i < c.attention_layers(); ++i) layers.push_back(routing_of(c, i));
  return layers;
}

}  // namespace moh
