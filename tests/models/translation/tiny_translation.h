#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/random.h"
#include "models/translation/translation_model.h"

namespace moh::test {

constexpr std::int64_t kTranslationVocab = 17;

/// Two layers on each side, of width 16 with four heads of 6 that share two KV heads, a vocabulary of 17.
inline TranslationConfig tiny_translation() {
  return {.vocab_size = kTranslationVocab,
          .encoder_layers = 2,
          .decoder_layers = 2,
          .hidden = 16,
          .intermediate = 24,
          .heads = 4,
          .kv_heads = 2,
          .head_dim = 6,
          .max_positions = 12,
          .dropout = 0};
}

/// A kind of attention, in all of its layers.
struct TranslationKind {
  std::string name;
  TranslationConfig config;
};

inline TranslationKind routed_translation(const std::string& name, MohConfig moh) {
  TranslationConfig c = tiny_translation();
  c.moh = std::move(moh);
  return {name, c};
}

/// Dense, MoH with each router and each rule, and MoA.
inline std::vector<TranslationKind> translation_kinds() {
  std::vector<TranslationKind> kinds = {
      {"dense", tiny_translation()},
      routed_translation("learned", {.router = routers::kLearned, .num_shared = 1, .top_k = 2}),
      routed_translation("query_norm", {.router = routers::kQueryNorm, .num_shared = 1, .top_k = 1}),
      routed_translation("all gradients", {.router = routers::kQueryNorm,
                                           .num_shared = 1,
                                           .top_k = 1,
                                           .straight_through = StraightThrough::kAll}),
      routed_translation("static", {.router = routers::kStatic, .num_shared = 3}),
      routed_translation("groups", {.router = routers::kLearned, .routing = routings::kGroups, .top_k = 1}),
      routed_translation(
          "within_groups",
          {.router = routers::kLearned, .routing = routings::kWithinGroups, .num_shared = 2, .top_k = 2}),
      routed_translation("gqe", {.router = routers::kLearned, .routing = routings::kGqe, .top_k = 2}),
      routed_translation("by layer", {.router = routers::kLearned,
                                      .num_shared = std::vector<std::int64_t>{1, 0, 4, 2, 1, 2},
                                      .top_k = std::vector<std::int64_t>{2, 1, 0, 1, 3, 2}}),
      routed_translation("moa", {.router = routers::kLearned,
                                 .top_k = 2,
                                 .gate_scaling = GateScaling::kPaper,
                                 .balance_loss = BalanceLoss::kShares,
                                 .z_loss_weight = 0.001})};
  kinds.back().config.kv_heads = 1;
  kinds.back().config.attention_bias = false;
  return kinds;
}

/// Sentences of both sides, and their targets.
struct TranslationText {
  std::vector<std::vector<std::int32_t>> sources, targets;

  std::int64_t pairs() const { return static_cast<std::int64_t>(sources.size()); }
  PackedPairs packed() const { return packed_from(0, sources.size()); }
  /// The pair of that number by itself.
  PackedPairs alone(std::size_t pair) const { return packed_from(pair, 1); }
  PackedPairs packed_from(std::size_t first, std::size_t count) const {
    std::vector<SentencePair> pairs;
    for (std::size_t i = first; i < first + count; ++i) pairs.push_back({sources[i], targets[i]});
    return pack_pairs(pairs);
  }
};

inline TranslationText some_translations(const std::vector<std::pair<int, int>>& lengths) {
  TranslationText text;
  std::uint64_t drawn = 0;
  const auto sentence = [&](int length) {
    std::vector<std::int32_t> tokens;
    for (int i = 0; i < length; ++i)
      tokens.push_back(static_cast<std::int32_t>(random_below({7, 3}, drawn++, kTranslationVocab)));
    return tokens;
  };
  for (const auto& [source, target] : lengths) {
    text.sources.push_back(sentence(source));
    text.targets.push_back(sentence(target));
  }
  return text;
}

/// Initial values with biases and norm weights that differ from each other.
inline void fill_translation(TranslationModel& model, std::uint64_t seed) {
  model.initialise(seed);
  for (const NamedParameter& p : model.parameters()) {
    const bool norm = p.name.ends_with("norm.weight") || p.name.ends_with("layernorm_embedding.weight");
    if (p.variable.shape().rank() == 1 || p.name == "final_logits_bias")
      fill_normal(p.variable.value(), initialisation_key(seed, p.name), norm ? 1 : 0, 0.2);
  }
}

}  // namespace moh::test
