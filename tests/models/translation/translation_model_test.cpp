#include "models/translation/translation_model.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <initializer_list>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "autograd/node.h"
#include "core/dry_run.h"
#include "core/error.h"
#include "models/find_preset.h"
#include "models/layers/attention_observer.h"
#include "models/translation/translation_presets.h"
#include "ops/elementwise/add.h"
#include "ops/elementwise/scale.h"
#include "ops/loss/cross_entropy.h"
#include "tests/models/translation/tiny_translation.h"
#include "tests/support/same_bits.h"

using namespace moh;
using namespace moh::test;

namespace {

/// Pairs of different lengths, one of them with a source of one token, and one with such a target.
TranslationText some_text() {
  return some_translations({{5, 3}, {1, 6}, {7, 1}, {3, 4}});
}

std::vector<std::string> names_of(const Module& model) {
  std::vector<std::string> names;
  for (const NamedParameter& p : model.parameters()) names.push_back(p.name);
  return names;
}

Variable loss_of(const TranslationModel& model, const PackedPairs& pairs,
                 const ForwardContext& context = {}) {
  const TranslationModel::Output output = model.forward(pairs, context);
  const double tokens = static_cast<double>(pairs.target.numel());
  const Tensor targets = pairs.target.reshape({1, pairs.target.numel()});
  Variable loss = cross_entropy(output.logits, targets, {.normalizer = tokens});
  for (const LayerRouting& layer : output.routing) {
    if (layer.balance.defined()) loss = add(loss, scale(layer.balance, 0.01));
    if (layer.z_loss.defined()) loss = add(loss, scale(layer.z_loss, 0.001));
  }
  return loss;
}

std::vector<Tensor> gradients_of(const TranslationModel& model) {
  std::vector<Tensor> gradients;
  for (NamedParameter& p : model.parameters()) {
    gradients.push_back(p.variable.grad());
    p.variable.zero_grad();
  }
  return gradients;
}

double largest_difference(const Tensor& a, const Tensor& b) {
  REQUIRE(a.numel() == b.numel());
  double worst = 0;
  for (std::int64_t i = 0; i < a.numel(); ++i)
    worst = std::max(worst, std::abs(a.data<double>()[i] - b.data<double>()[i]));
  return worst;
}

std::int64_t parameters_of_preset(std::string_view name) {
  const DryRunScope no_memory;
  return count_parameters(TranslationModel(preset_config(translation_presets(), name), DType::kFloat32));
}

/// The layers of attention as they are seen, with the numbers of their queries and keys, and whose they are.
class SeenLayers : public AttentionObserver {
 public:
  void observe(const AttentionTrace& trace) override {
    layers.push_back(trace.layer);
    tokens.push_back(trace.heads.dim(1));
    keys.push_back(trace.k.dim(1));
    sides.push_back({trace.side, trace.key_side});
    causal.push_back(trace.causal);
    CHECK(trace.document_starts.dim(1) == trace.q.dim(1));
    CHECK(trace.document_ends.defined() == !trace.causal);
  }
  std::vector<std::int64_t> layers, tokens, keys;
  std::vector<std::pair<std::size_t, std::size_t>> sides;
  std::vector<bool> causal;
};

}  // namespace

TEST_CASE("translation: presets have the parameters of their sizes, counted by hand") {
  constexpr std::int64_t kTable = 32768 * 512, kNorm = 2 * 512, kMlp = 2 * 512 * 2048 + 2048 + 512;
  constexpr std::int64_t kDense = 4 * (512 * 512 + 512);
  const auto base = [&](std::int64_t attention) {
    return kTable + 6 * (attention + kMlp + 2 * kNorm) + 6 * (2 * attention + kMlp + 3 * kNorm);
  };
  CHECK(parameters_of_preset("transformer_base") == base(kDense));
  CHECK(parameters_of_preset("transformer_big") == 209911808);
  // Eight experts with two matrices 512 x 128 each, one key and one value, and the router; no biases.
  CHECK(parameters_of_preset("moa_base") == base(8 * 2 * 512 * 128 + 2 * 512 * 128 + 8 * 512));
  CHECK(parameters_of_preset("moh_base_75") == base(kDense + (8 + 2) * 512));
  CHECK(activated_heads(routing_of(preset_config(translation_presets(), "moh_base_75"))) == 0.75);
  for (const TranslationPreset& preset : translation_presets()) CHECK_NOTHROW(require_valid(preset.config));
}

TEST_CASE("translation: parameters have the names of fairseq's transformer") {
  TranslationConfig c = tiny_translation();
  c.encoder_layers = c.decoder_layers = 1;
  c.norm = NormPlace::kBefore;
  c.positions = PositionKind::kLearned;
  c.position_offset = 2;
  c.shared_embeddings = SharedEmbeddings::kNone;
  c.moh = {.router = routers::kLearned, .num_shared = 2, .top_k = 1};
  std::set<std::string> expected = {
      "encoder.embed_tokens.weight", "encoder.embed_positions.weight", "encoder.layer_norm.weight",
      "encoder.layer_norm.bias",     "decoder.embed_tokens.weight",    "decoder.embed_positions.weight",
      "decoder.layer_norm.weight",   "decoder.layer_norm.bias",        "decoder.output_projection.weight"};
  const auto expect = [&](const std::string& module, std::initializer_list<const char*> tensors) {
    for (const char* tensor : tensors) expected.insert(module + tensor);
  };
  for (const std::string stack : {"encoder", "decoder"}) {
    const std::string layer = stack + ".layers.0.";
    for (const std::string attention : {"self_attn", "encoder_attn"}) {
      if (attention == "encoder_attn" && stack == "encoder") continue;
      expect(layer + attention,
             {".q_proj.weight", ".q_proj.bias", ".k_proj.weight", ".k_proj.bias", ".v_proj.weight",
              ".v_proj.bias", ".out_proj.weight", ".out_proj.bias", ".wg.weight", ".wg_0.weight",
              ".wg_1.weight", "_layer_norm.weight", "_layer_norm.bias"});
    }
    expect(layer, {"fc1.weight", "fc1.bias", "fc2.weight", "fc2.bias", "final_layer_norm.weight",
                   "final_layer_norm.bias"});
  }
  const TranslationModel model(c, DType::kFloat32);
  const std::vector<std::string> names = names_of(model);
  CHECK(std::set<std::string>(names.begin(), names.end()) == expected);
  CHECK(names.size() == expected.size());
  for (const NamedParameter& p : model.parameters()) {
    if (p.name.ends_with("embed_positions.weight")) CHECK(p.variable.shape() == Shape{14, 16});
  }
}

TEST_CASE("translation: embeddings that are shared exist once") {
  const auto has = [](SharedEmbeddings shared, std::string_view name) {
    TranslationConfig c = tiny_translation();
    c.shared_embeddings = shared;
    c.output_bias = true;
    const std::vector<std::string> names = names_of(TranslationModel(c, DType::kFloat32));
    return std::ranges::count(names, name);
  };
  for (const SharedEmbeddings shared :
       {SharedEmbeddings::kAll, SharedEmbeddings::kDecoder, SharedEmbeddings::kNone}) {
    CHECK(has(shared, "encoder.embed_tokens.weight") == 1);
    CHECK(has(shared, "decoder.embed_tokens.weight") == (shared != SharedEmbeddings::kAll));
    CHECK(has(shared, "decoder.output_projection.weight") == (shared == SharedEmbeddings::kNone));
    CHECK(has(shared, "final_logits_bias") == 1);
  }
}

TEST_CASE("translation: a pair in a packed batch has the logits that it has alone") {
  const TranslationText text = some_text();
  for (const TranslationKind& kind : translation_kinds()) {
    for (const NormPlace norm : {NormPlace::kAfter, NormPlace::kBefore}) {
      INFO(kind.name << ", norm " << static_cast<int>(norm));
      TranslationConfig c = kind.config;
      c.norm = norm;
      TranslationModel model(c, DType::kFloat64);
      fill_translation(model, 1);
      const Tensor packed = model.forward(text.packed()).logits.value();
      std::int64_t begin = 0;
      for (std::size_t pair = 0; pair < text.sources.size(); ++pair) {
        const Tensor alone = model.forward(text.alone(pair)).logits.value().select(0);
        const std::int64_t end = begin + alone.dim(0);
        CHECK(largest_difference(alone, packed.select(0).slice(begin, end)) < 1e-12);
        begin = end;
      }
      CHECK(begin == packed.dim(1));
    }
  }
}

TEST_CASE("translation: the order of the pairs permutes the logits") {
  TranslationText text = some_text();
  TranslationModel model(translation_kinds()[1].config, DType::kFloat64);
  fill_translation(model, 2);
  const Tensor before = model.forward(text.packed()).logits.value().select(0);
  std::swap(text.sources.front(), text.sources.back());
  std::swap(text.targets.front(), text.targets.back());
  const Tensor after = model.forward(text.packed()).logits.value().select(0);
  CHECK(largest_difference(before.slice(0, 3), after.slice(after.dim(0) - 3, after.dim(0))) < 1e-12);
}

TEST_CASE("translation: with K = E and zero routers, a MoH model is the dense model") {
  const PackedPairs pairs = some_text().packed();
  TranslationConfig c = tiny_translation();
  TranslationModel dense(c, DType::kFloat64);
  c.moh = {.router = routers::kLearned, .num_shared = 1, .top_k = 3, .router_init = RouterInit::kZeros};
  TranslationModel routed(c, DType::kFloat64);
  dense.initialise(3);
  routed.initialise(3);
  const Tensor expected = dense.forward(pairs).logits.value();
  CHECK(largest_difference(routed.forward(pairs).logits.value(), expected) < 1e-12);
  routed.initialise(4);
  dense.initialise(4);
  const Tensor all = routed.forward(pairs, {.all_heads = true}).logits.value();
  CHECK(largest_difference(all, dense.forward(pairs).logits.value()) < 1e-12);
}

TEST_CASE("translation: every parameter gets a gradient") {
  const PackedPairs pairs = some_text().packed();
  for (const TranslationKind& kind : translation_kinds()) {
    TranslationConfig c = kind.config;
    c.output_bias = c.embedding_norm = true;
    c.positions = PositionKind::kLearned;
    c.shared_embeddings = SharedEmbeddings::kNone;
    TranslationModel model(c, DType::kFloat32);
    fill_translation(model, 5);
    loss_of(model, pairs).backward();
    for (const NamedParameter& p : model.parameters()) {
      INFO(kind.name << ": " << p.name);
      REQUIRE(p.variable.grad().defined());
      CHECK(p.variable.grad().all_finite());
      const bool key_bias = p.name.ends_with("k_proj.bias");  // adds the same to all of a query's scores
      if (!key_bias)
        CHECK(std::ranges::any_of(p.variable.grad().span<float>(), [](float g) { return g != 0; }));
    }
  }
}

TEST_CASE("translation: recomputing the layers changes no bit of loss and gradients, with every dropout") {
  const double activation_dropout = GENERATE(0.0, 0.1);
  const PackedPairs pairs = some_text().packed();
  for (const TranslationKind& kind : translation_kinds()) {
    INFO(kind.name);
    std::map<RecomputeLevel, std::vector<Tensor>> gradients;
    std::map<RecomputeLevel, double> losses;
    for (const RecomputeLevel recompute : kRecomputeLevels) {
      TranslationConfig c = kind.config;
      c.recompute = recompute;
      c.dropout = 0.2;
      c.attention_dropout = 0.3;
      c.activation_dropout = activation_dropout;
      TranslationModel model(c, DType::kFloat32);
      fill_translation(model, 6);
      Generator generator(1, 2);
      const Variable loss = loss_of(model, pairs, {.training = true, .generator = &generator});
      losses[recompute] = loss.value().item();
      loss.backward();
      gradients[recompute] = gradients_of(model);
    }
    for (const RecomputeLevel recompute : kRecomputeLevels) {
      CHECK(losses[recompute] == losses[RecomputeLevel::kNone]);
      CHECK(same_bits(gradients[recompute], gradients[RecomputeLevel::kNone]));
    }
  }
}

TEST_CASE("translation: each dropout has a place of its own, in training alone") {
  const PackedPairs pairs = some_text().packed();
  std::set<double> losses;
  for (double TranslationConfig::*const rate :
       {&TranslationConfig::dropout, &TranslationConfig::attention_dropout,
        &TranslationConfig::activation_dropout}) {
    TranslationConfig c = tiny_translation();
    c.*rate = 0.4;
    TranslationModel model(c, DType::kFloat64);
    fill_translation(model, 7);
    Generator generator(1, 2);
    losses.insert(loss_of(model, pairs).value().item());
    losses.insert(loss_of(model, pairs, {.training = true, .generator = &generator}).value().item());
  }
  CHECK(losses.size() == 4);  // the one of all evaluations, and three of training
}

TEST_CASE("translation: queries and outputs of the selected heads alone give what those of all heads give") {
  TranslationConfig c = tiny_translation();
  c.head_dim = 32;  // half of the heads of more than 128 tokens: head_projection_pays
  c.max_positions = 90;
  c.moh = {.router = routers::kLearned, .num_shared = 1, .top_k = 1};
  const PackedPairs pairs = some_translations({{80, 75}, {60, 85}}).packed();
  TranslationModel model(c, DType::kFloat64);
  fill_translation(model, 8);
  const Tensor sparse = model.forward(pairs).logits.value();
  const Tensor dense = model.forward(pairs, {.equal_rows = true}).logits.value();
  CHECK(largest_difference(sparse, dense) < 1e-10);
  loss_of(model, pairs).backward();
  const std::vector<Tensor> of_sparse = gradients_of(model);
  loss_of(model, pairs, {.equal_rows = true}).backward();
  const std::vector<Tensor> of_dense = gradients_of(model);
  for (std::size_t i = 0; i < of_dense.size(); ++i)
    CHECK(largest_difference(of_sparse[i], of_dense[i]) < 1e-10);
}

TEST_CASE("translation: an observer sees each attention layer once, by number, and changes no bit") {
  const TranslationText text = some_text();
  const std::int64_t source = text.packed().source.numel(), target = text.packed().target.numel();
  for (const TranslationKind& kind : translation_kinds()) {
    INFO(kind.name);
    TranslationModel model(kind.config, DType::kFloat32);
    fill_translation(model, 9);
    SeenLayers seen;
    const Tensor expected = model.forward(text.packed()).logits.value();
    CHECK(same_bits(model.forward(text.packed(), {.observer = &seen}).logits.value(), expected));
    CHECK(seen.layers == std::vector<std::int64_t>{0, 1, 2, 3, 4, 5});
    CHECK(seen.tokens == std::vector<std::int64_t>{source, source, target, target, target, target});
    CHECK(seen.keys == std::vector<std::int64_t>{source, source, target, source, target, source});
    CHECK(seen.sides ==
          std::vector<std::pair<std::size_t, std::size_t>>{{0, 0}, {0, 0}, {1, 1}, {1, 0}, {1, 1}, {1, 0}});
    CHECK(seen.causal == std::vector<bool>{false, false, true, false, true, false});
  }
}

TEST_CASE("translation: routing is reported by layer, of source and of target tokens") {
  TranslationModel model(translation_kinds().at(8).config, DType::kFloat32);
  model.initialise(1);
  const auto output = model.forward(some_text().packed());
  REQUIRE(output.routing.size() == 6);
  const std::int64_t active[] = {3, 1, 4, 3, 4, 4};
  for (std::size_t i = 0; i < 6; ++i) CHECK(output.routing[i].computed_heads == active[i]);
  CHECK(model.routers().size() == 6);
  CHECK(model.routing().size() == 6);
}

TEST_CASE("translation: configurations that contradict themselves are refused") {
  const auto message = [](auto change) {
    TranslationConfig c = tiny_translation();
    change(c);
    try {
      require_valid(c);
    } catch (const ValueError& e) {
      return std::string(e.what());
    }
    return std::string();
  };
  using C = TranslationConfig;
  CHECK(message([](C&) {}).empty());
  CHECK(message([](C& c) { c.encoder_layers = 0; }) ==
        "translation: encoder_layers: expected 1 or more, found 0");
  CHECK(message([](C& c) { c.kv_heads = 3; }) ==
        "translation: kv_heads: expected a divisor of heads (4), found 3");
  CHECK(message([](C& c) { c.head_dim = 257; }) == "translation: head_dim: expected at most 256, found 257");
  CHECK(message([](C& c) {
          c.heads = c.kv_heads = 3;
          c.head_dim = 0;
        }) == "translation: heads: expected a divisor of hidden (16), found 3; or set head_dim");
  CHECK(message([](C& c) { c.attention_dropout = 1; }) ==
        "translation: attention_dropout: expected 0 or more, below 1, found 1");
  CHECK(message([](C& c) { c.norm_eps = 0; }) == "translation: norm_eps: expected a number above 0, found 0");
  CHECK(message([](C& c) { c.source_vocab_size = 5; }) ==
        "translation: source_vocab_size: expected 0 or vocab_size (17) with shared_embeddings: all, found 5; "
        "or "
        "set shared_embeddings: decoder");
  CHECK(
      message([](C& c) { c.hidden = 15; }) ==
      "translation: hidden: expected an even number from 4 on, for sines and cosines of positions, found 15");
  CHECK(message([](C& c) {
          c.positions = PositionKind::kLearned;
          c.sinusoids = SinusoidKind::kMarian;
        }) == "translation: sinusoids: expected fairseq where positions are learned, found marian");
  CHECK(message([](C& c) {
          c.moh = {.router = routers::kLearned, .num_shared = PerLayer({1, 1}), .top_k = 1};
        }) ==
        "translation: moh.num_shared: expected one value, or one per layer (6 attention layers, one of each "
        "encoder layer and two of each decoder layer), found a list of 2");
  CHECK(message([](C& c) { c.moh = {.router = routers::kCondition, .top_k = 1}; })
            .starts_with("translation: moh.router: expected one of none, learned, query_norm, static, found "
                         "condition"));
  CHECK(message([](C& c) {
          c.moh = {.router = routers::kLearned, .routed = RoutedRows::kQueriesKeysValues, .top_k = 1};
        }).starts_with("translation: moh.routed: expected queries for a translation model"));
  CHECK(message([](C& c) {
          c.moh = {.router = routers::kLearned, .num_shared = 1, .top_k = 1, .learn_shared_until = 0.5};
        }) == "translation: moh.learn_shared_until: expected 0 for a translation model, found 0.5");
}

TEST_CASE("translation: sentences that are too long, and unknown tokens, are refused") {
  const TranslationModel model(tiny_translation(), DType::kFloat32);
  CHECK_THROWS_WITH(model.forward(some_translations({{13, 2}}).packed()),
                    "translation: source sentence: expected at most max_positions (12) tokens, found 13");
  CHECK_THROWS_WITH(model.forward(some_translations({{2, 13}}).packed()),
                    "translation: target sentence: expected at most max_positions (12) tokens, found 13");
  TranslationText text = some_translations({{2, 2}});
  text.targets[0][1] = kTranslationVocab;
  CHECK_THROWS_AS(model.forward(text.packed()), ValueError);
}
