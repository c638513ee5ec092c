// A training step of encoder-decoder transformers against plain float64 numbers of Python
// (tests/golden/translation/make.py): logits, loss, and the gradient of every parameter.

#include <catch2/catch.hpp>
#include <cstdint>
#include <string>
#include <vector>

#include "models/translation/translation_model.h"
#include "ops/elementwise/add.h"
#include "ops/elementwise/scale.h"
#include "ops/loss/cross_entropy.h"
#include "tests/golden/json_layers.h"

using namespace moh;
using namespace moh::test;

namespace {

MohConfig routing_in(const Json& golden_case) {
  MohConfig moh;
  if (golden_case["router"] == "none") return moh;
  moh.router = golden_case["router"] == "learned" ? routers::kLearned : routers::kQueryNorm;
  if (golden_case["routing"] == "within_groups") moh.routing = routings::kWithinGroups;
  const auto shared = golden_case["shared"].get<std::vector<std::int64_t>>();
  moh.num_shared = static_cast<std::int64_t>(shared.size());
  if (!shared.empty()) moh.shared_heads.every = shared;
  moh.top_k = golden_case["top_k"].get<std::vector<std::int64_t>>();
  moh.two_stage = golden_case["two_stage"];
  if (golden_case["scaling"] == "paper") moh.gate_scaling = GateScaling::kPaper;
  if (golden_case["balance"] == "paper") moh.balance_loss = BalanceLoss::kPaper;
  if (golden_case["balance"] == "shares") moh.balance_loss = BalanceLoss::kShares;
  if (golden_case["layers"] == "sum") moh.balance_layers = BalanceLayers::kSum;
  moh.z_loss_weight = golden_case["z_weight"];
  return moh;
}

TranslationConfig translation_config(const Json& file, const Json& golden_case) {
  TranslationConfig c;
  c.vocab_size = file["vocab"];
  c.encoder_layers = c.decoder_layers = 1;
  c.hidden = file["width"];
  c.intermediate = file["inner"];
  c.heads = file["heads"];
  c.kv_heads = golden_case["kv_heads"];
  c.head_dim = file["head_dim"];
  c.max_positions = file["positions"];
  c.dropout = 0;
  if (golden_case["norm"] == "before") c.norm = NormPlace::kBefore;
  if (golden_case["positions"] == "learned") c.positions = PositionKind::kLearned;
  if (golden_case["sinusoids"] == "marian") c.sinusoids = SinusoidKind::kMarian;
  c.position_offset = golden_case["position_offset"];
  if (golden_case["activation"] != "relu")
    c.activation = golden_case["activation"] == "gelu" ? Activation::kGelu : Activation::kSilu;
  if (golden_case["embeddings"] != "all") {
    c.source_vocab_size = file["source_vocab"];
    c.shared_embeddings =
        golden_case["embeddings"] == "none" ? SharedEmbeddings::kNone : SharedEmbeddings::kDecoder;
  }
  c.embedding_norm = golden_case["embedding_norm"];
  c.attention_bias = golden_case["attention_bias"];
  c.output_bias = golden_case["output_bias"];
  c.moh = routing_in(golden_case);
  return c;
}

struct Batch {
  PackedPairs pairs;
  Tensor targets;  ///< [1, T] int64
};

Batch batch_in(const Json& file) {
  std::vector<std::vector<std::int32_t>> sides;
  std::vector<std::int64_t> targets;
  for (const Json& pair : file["pairs"]) {
    sides.push_back(pair[0]);
    sides.push_back(pair[1]);
    for (const std::int64_t token : pair[2]) targets.push_back(token);
  }
  std::vector<SentencePair> pairs;
  for (std::size_t i = 0; i < sides.size(); i += 2) pairs.push_back({sides[i], sides[i + 1]});
  const Shape shape{1, static_cast<std::int64_t>(targets.size())};
  return {pack_pairs(pairs), tensor_of<std::int64_t>(shape, targets)};
}

/// The loss of a step: cross-entropy, and the losses of the routers as the case weighs them.
Variable loss_of(const TranslationModel::Output& output, const Tensor& targets, const MohConfig& moh,
                 double balance_weight) {
  Variable loss = cross_entropy(output.logits, targets, {.normalizer = static_cast<double>(targets.numel())});
  const double layers =
      moh.balance_layers == BalanceLayers::kMean ? static_cast<double>(output.routing.size()) : 1.0;
  for (const LayerRouting& layer : output.routing) {
    loss = add(loss, scale(layer.balance, balance_weight / layers));
    if (moh.z_loss_weight > 0) loss = add(loss, scale(layer.z_loss, moh.z_loss_weight / layers));
  }
  return loss;
}

}  // namespace

TEST_CASE("golden: a training step of translation models, dense, MoH and MoA: loss and every gradient") {
  const Json file = golden_layers("translation");
  const Batch batch = batch_in(file);
  CHECK(file["cases"].size() == 7);
  for (const Json& each : file["cases"]) {
    for (const RecomputeLevel recompute : kRecomputeLevels) {
      INFO(each["name"] << ", recompute " << static_cast<int>(recompute));
      TranslationConfig config = translation_config(file, each);
      config.recompute = recompute;
      const TranslationModel model(config, Placement(DType::kFloat64));
      REQUIRE(model.parameters().size() == each["tensors"].size());
      for (const NamedParameter& p : model.parameters())
        p.variable.value().copy_from(tensor_of_rows(each["tensors"][p.name], p.variable.shape()));
      const TranslationModel::Output output = model.forward(batch.pairs, {.training = true});
      check_close(output.logits.value(), tensor_of_rows(each["logits"]));
      const Variable loss = loss_of(output, batch.targets, config.moh, file["balance_weight"]);
      CHECK(loss.value().item() == Approx(each["loss"].get<double>()).epsilon(1e-12));
      loss.backward();
      for (const NamedParameter& p : model.parameters()) {
        INFO(p.name);
        check_close(p.variable.grad(), tensor_of_rows(each["gradients"][p.name]));
      }
    }
  }
}
