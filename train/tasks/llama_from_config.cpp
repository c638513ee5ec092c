#include "train/tasks/llama_from_config.h"

#include "core/error.h"
#include "models/llm/llama_presets.h"

namespace moh {

namespace {

RouterKind router_of(RouterChoice choice) {
  switch (choice) {
    case RouterChoice::kNone:
      return RouterKind::kNone;
    case RouterChoice::kLearned:
      return RouterKind::kLearned;
    case RouterChoice::kQueryNorm:
      return RouterKind::kQueryNorm;
  }
  fail_check(__FILE__, __LINE__, "choice", "unknown RouterChoice");
}

StraightThrough straight_through_of(StraightThroughChoice choice) {
  switch (choice) {
    case StraightThroughChoice::kNone:
      return StraightThrough::kNone;
    case StraightThroughChoice::kSelected:
      return StraightThrough::kSelected;
    case StraightThroughChoice::kAll:
      return StraightThrough::kAll;
  }
  fail_check(__FILE__, __LINE__, "choice", "unknown StraightThroughChoice");
}

std::vector<std::int64_t> values_of(const PerLayer& counts) {
  return counts.each.empty() ? std::vector{counts.every} : counts.each;
}

PerLayer per_layer_of(const std::vector<std::int64_t>& values) {
  return values.size() == 1 ? PerLayer{values[0], {}} : PerLayer{0, values};
}

MohConfig moh_config_of(const HeadMixtureConfig& config) {
  MohConfig moh;
  moh.router = router_of(config.router);
  moh.shared = values_of(config.shared);
  const HeadSet& shared = config.shared_heads;
  if (shared.listed()) moh.shared_heads = shared.each;
  if (!shared.every.empty()) moh.shared_heads.push_back(shared.every);
  moh.top_k = values_of(config.routed);
  moh.scaling = config.gate_scaling == GateScalingChoice::kPaper ? GateScaling::kPaper : GateScaling::kCode;
  if (moh.router == RouterKind::kQueryNorm) moh.scaling = GateScaling::kBinary;
  moh.two_stage = config.two_stage;
  moh.straight_through = straight_through_of(config.straight_through);
  moh.balance_loss = config.balance_loss;
  moh.router_precision = config.router_precision;
  return moh;
}

}  // namespace

LlamaConfig llama_config_of(const ModelConfig& config) {
  LlamaConfig llama;
  llama.vocab_size = config.vocab_size;
  llama.layers = config.layers;
  llama.hidden = config.hidden;
  llama.intermediate = config.intermediate;
  llama.heads = config.heads;
  llama.kv_heads = config.num_kv_heads();
  llama.head_dim = config.head_width();
  llama.max_positions = config.max_positions;
  llama.norm_eps = config.norm_eps;
  llama.rope_theta = config.rope_theta;
  llama.rope_scaling = config.rope_scaling;
  llama.tied_embeddings = config.tied_embeddings;
  llama.dropout = config.dropout;
  llama.init_std = config.init_std;
  llama.recompute = config.recompute == RecomputeLevel::kLayer;
  llama.moh = moh_config_of(config.moh);
  return llama;
}

ModelConfig model_config_of_preset(std::string_view name) {
  const LlamaConfig& llama = find_llama_preset(name)->config;
  ModelConfig config;
  config.preset = name;
  config.vocab_size = llama.vocab_size;
  config.layers = llama.layers;
  config.hidden = llama.hidden;
  config.intermediate = llama.intermediate;
  config.heads = llama.heads;
  config.kv_heads = llama.kv_heads;
  config.head_dim = llama.head_dim;
  config.max_positions = llama.max_positions;
  config.norm_eps = llama.norm_eps;
  config.rope_theta = llama.rope_theta;
  config.rope_scaling = llama.rope_scaling;
  config.tied_embeddings = llama.tied_embeddings;
  config.dropout = llama.dropout;
  config.init_std = llama.init_std;
  switch (llama.moh.router) {
    case RouterKind::kNone:
      return config;
    case RouterKind::kLearned:
      config.moh.router = RouterChoice::kLearned;
      break;
    case RouterKind::kQueryNorm:
      config.moh.router = RouterChoice::kQueryNorm;
      break;
  }
  config.moh.shared = per_layer_of(llama.moh.shared);
  config.moh.routed = per_layer_of(llama.moh.top_k);
  return config;
}

DType dtype_of_precision(Precision precision) {
  return precision == Precision::kBFloat16 ? DType::kBFloat16 : DType::kFloat32;
}

}  // namespace moh
