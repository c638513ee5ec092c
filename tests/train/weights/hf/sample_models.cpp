#include "tests/train/weights/hf/sample_models.h"

namespace moh::test {

namespace {

ModelConfig dense() {
  ModelConfig model;
  model.vocab_size = 40;
  model.layers = 2;
  model.hidden = 32;
  model.intermediate = 48;
  model.heads = 8;
  model.kv_heads = 8;
  model.head_dim = 4;
  model.max_positions = 64;
  model.init_std = 0.25;
  return model;
}

ModelConfig grouped() {
  ModelConfig model = dense();
  model.kv_heads = 2;
  model.head_dim = 6;
  model.tied_embeddings = true;
  model.norm_eps = 1e-6;
  model.rope_theta = 500;
  model.rope_scaling = {RopeScalingKind::kLlama3, 8, 1, 4, 16};
  return model;
}

ModelConfig moh_model(RouterChoice router, PerLayer shared, PerLayer routed) {
  ModelConfig model = dense();
  model.kv_heads = 4;
  model.moh.router = router;
  model.moh.shared = std::move(shared);
  model.moh.routed = std::move(routed);
  return model;
}

template <class Change>
ModelConfig changed(ModelConfig model, Change&& change) {
  change(model);
  return model;
}

}  // namespace

std::vector<SampleModel> sample_models() {
  constexpr auto kLearned = RouterChoice::kLearned;
  constexpr auto kQueryNorm = RouterChoice::kQueryNorm;
  const auto learned = [&](std::int64_t shared, std::int64_t routed) {
    return moh_model(kLearned, {shared, {}}, {routed, {}});
  };
  return {
      {"dense", dense()},
      {"dense_grouped_tied_llama3", grouped()},
      {"dense_linear", changed(dense(),
                               [](ModelConfig& m) {
                                 m.rope_scaling = {RopeScalingKind::kLinear, 4};
                               })},
      {"query_norm", moh_model(kQueryNorm, {4, {}}, {2, {}})},
      {"query_norm_per_layer", changed(moh_model(kQueryNorm, {0, {8, 3}}, {0, {0, 2}}),
                                       [](ModelConfig& m) {
                                         m.rope_theta = 500;
                                         m.rope_scaling = grouped().rope_scaling;
                                         m.moh.straight_through = StraightThroughChoice::kAll;
                                         m.moh.balance_loss = BalanceLoss::kPaper;
                                       })},
      {"query_norm_listed", changed(moh_model(kQueryNorm, {3, {}}, {2, {}}),
                                    [](ModelConfig& m) {
                                      m.moh.shared_heads.each = {{1, 4, 6}, {0, 1, 2}};
                                    })},
      {"learned", learned(3, 2)},
      {"learned_paper", changed(learned(3, 2),
                                [](ModelConfig& m) {
                                  m.moh.gate_scaling = GateScalingChoice::kPaper;
                                  m.moh.balance_loss = BalanceLoss::kPaper;
                                })},
      {"learned_one_stage_tied", changed(learned(3, 2),
                                         [](ModelConfig& m) {
                                           m.moh.two_stage = false;
                                           m.moh.balance_weight = 0.5;
                                           m.tied_embeddings = true;
                                         })},
      {"learned_paper_one_stage", changed(learned(3, 2),
                                          [](ModelConfig& m) {
                                            m.moh.gate_scaling = GateScalingChoice::kPaper;
                                            m.moh.two_stage = false;
                                          })},
      {"learned_listed", changed(learned(3, 2),
                                 [](ModelConfig& m) {
                                   m.moh.shared_heads.every = {1, 4, 6};
                                 })},
      {"query_norm_listed_per_layer", changed(moh_model(kQueryNorm, {0, {2, 0}}, {2, {}}),
                                              [](ModelConfig& m) {
                                                m.moh.shared_heads.each = {{0, 5}, {}};
                                              })},
      {"learned_per_layer", moh_model(kLearned, {0, {1, 8}}, {0, {1, 0}})},
      {"learned_no_shared_linear", changed(learned(0, 3),
                                           [](ModelConfig& m) {
                                             m.rope_scaling = {RopeScalingKind::kLinear, 4};
                                           })},
  };
}

}  // namespace moh::test
