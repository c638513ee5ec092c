#include "tests/train/families/language/hf/sample_models.h"

namespace moh::test {

namespace {

using Counts = std::vector<std::int64_t>;

LlamaConfig dense() {
  LlamaConfig model;
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

LlamaConfig grouped() {
  LlamaConfig model = dense();
  model.kv_heads = 2;
  model.head_dim = 6;
  model.tied_embeddings = true;
  model.norm_eps = 1e-6;
  model.rope_theta = 500;
  model.rope_scaling = {RopeScalingKind::kLlama3, 8, 1, 4, 16};
  return model;
}

RopeScaling yarn() {
  return {.kind = RopeScalingKind::kYarn, .factor = 4, .original_positions = 16, .beta_fast = 4};
}

LlamaConfig moh_model(RouterKey router, PerLayer num_shared, PerLayer top_k) {
  LlamaConfig model = dense();
  model.kv_heads = 4;
  model.moh.router = router;
  model.moh.num_shared = std::move(num_shared);
  model.moh.top_k = std::move(top_k);
  return model;
}

template <class Change>
LlamaConfig changed(LlamaConfig model, Change&& change) {
  change(model);
  return model;
}

}  // namespace

std::vector<SampleModel> sample_models() {
  constexpr auto kLearned = routers::kLearned;
  constexpr auto kQueryNorm = routers::kQueryNorm;
  const auto learned = [&](std::int64_t num_shared, std::int64_t top_k) {
    return moh_model(kLearned, num_shared, top_k);
  };
  return {
      {"dense", dense()},
      {"dense_grouped_tied_llama3", grouped()},
      {"dense_linear", changed(dense(),
                               [](LlamaConfig& m) {
                                 m.rope_scaling = {RopeScalingKind::kLinear, 4};
                               })},
      {"dense_qwen2", changed(grouped(),
                              [](LlamaConfig& m) {
                                m.qkv_bias = true;
                                m.head_dim = 4;
                                m.rope_scaling = {};
                              })},
      {"dense_qwen3", changed(dense(),
                              [](LlamaConfig& m) {
                                m.qk_norm = true;
                                m.kv_heads = 2;
                                m.head_dim = 6;
                              })},
      {"dense_qwen3_biases",
       changed(dense(), [](LlamaConfig& m) { m.qk_norm = m.qkv_bias = m.o_bias = true; })},
      {"dense_biases", changed(dense(), [](LlamaConfig& m) { m.qkv_bias = m.o_bias = m.mlp_bias = true; })},
      {"dense_yarn", changed(dense(),
                             [](LlamaConfig& m) {
                               m.head_dim = 8;
                               m.rope_scaling = yarn();
                             })},
      // Sequences of the test are longer than the original context.
      {"dense_dynamic",
       changed(dense(),
               [](LlamaConfig& m) {
                 m.max_positions = 64;
                 m.rope_scaling = {.kind = RopeScalingKind::kDynamic, .factor = 8, .original_positions = 8};
               })},
      // No class of transformers has these.
      {"odd_biases", changed(dense(), [](LlamaConfig& m) { m.o_bias = m.qk_norm = true; })},
      {"gates_of_heads", changed(grouped(), [](LlamaConfig& m) { m.attention_gate = AttentionGate::kHead; })},
      {"gates_of_elements",
       changed(dense(), [](LlamaConfig& m) { m.attention_gate = AttentionGate::kElement; })},
      {"gates_learned",
       changed(learned(3, 3), [](LlamaConfig& m) { m.attention_gate = AttentionGate::kHead; })},
      {"qwen2_learned", changed(learned(3, 3), [](LlamaConfig& m) { m.qkv_bias = true; })},
      {"qwen3_learned", changed(learned(3, 3),
                                [](LlamaConfig& m) {
                                  m.qk_norm = true;
                                  m.rope_scaling = yarn();
                                })},
      {"qwen3_query_norm",
       changed(moh_model(kQueryNorm, 3, 3), [](LlamaConfig& m) { m.qk_norm = m.qkv_bias = true; })},
      {"biases_learned_dynamic",
       changed(learned(3, 3),
               [](LlamaConfig& m) {
                 m.qkv_bias = m.o_bias = m.mlp_bias = true;
                 m.max_positions = 64;
                 m.rope_scaling = {.kind = RopeScalingKind::kDynamic, .factor = 8, .original_positions = 8};
               })},
      // 32 is no multiple of 5, which transformers' LLaMA wants.
      {"odd_heads", changed(dense(),
                            [](LlamaConfig& m) {
                              m.heads = m.kv_heads = 5;
                              m.head_dim = 12;
                            })},
      {"query_norm", moh_model(kQueryNorm, 4, 2)},
      {"query_norm_per_layer", changed(moh_model(kQueryNorm, Counts{8, 3}, Counts{0, 2}),
                                       [](LlamaConfig& m) {
                                         m.rope_theta = 500;
                                         m.rope_scaling = grouped().rope_scaling;
                                         m.moh.straight_through = StraightThrough::kAll;
                                         m.moh.balance_loss = BalanceLoss::kPaper;
                                       })},
      {"query_norm_listed", changed(moh_model(kQueryNorm, 3, 2),
                                    [](LlamaConfig& m) {
                                      m.moh.shared_heads.each = {{1, 4, 6}, {0, 1, 2}};
                                    })},
      {"learned", learned(3, 2)},
      {"learned_paper", changed(learned(3, 2),
                                [](LlamaConfig& m) {
                                  m.moh.gate_scaling = GateScaling::kPaper;
                                  m.moh.balance_loss = BalanceLoss::kPaper;
                                })},
      {"learned_one_stage_tied", changed(learned(3, 2),
                                         [](LlamaConfig& m) {
                                           m.moh.two_stage = false;
                                           m.moh.balance_weight = 0.5;
                                           m.tied_embeddings = true;
                                         })},
      {"learned_paper_one_stage", changed(learned(3, 2),
                                          [](LlamaConfig& m) {
                                            m.moh.gate_scaling = GateScaling::kPaper;
                                            m.moh.two_stage = false;
                                          })},
      {"learned_balanced", changed(learned(3, 2),
                                   [](LlamaConfig& m) {
                                     m.moh.balance_loss = BalanceLoss::kCv;
                                     m.moh.balance_bias = 0.01;
                                   })},
      {"learned_listed", changed(learned(3, 2),
                                 [](LlamaConfig& m) {
                                   m.moh.shared_heads.every = {1, 4, 6};
                                 })},
      {"query_norm_listed_per_layer", changed(moh_model(kQueryNorm, Counts{2, 0}, 2),
                                              [](LlamaConfig& m) {
                                                m.moh.shared_heads.each = {{0, 5}, {}};
                                              })},
      {"learned_groups", changed(learned(2, 1), [](LlamaConfig& m) { m.moh.routing = routings::kGroups; })},
      {"learned_within_groups", changed(learned(2, 2),
                                        [](LlamaConfig& m) {
                                          m.kv_heads = 2;
                                          m.moh.routing = routings::kWithinGroups;
                                          m.moh.balance_loss = BalanceLoss::kCv;
                                          m.moh.balance_bias = 0.01;
                                        })},
      {"query_norm_within_groups_listed", changed(moh_model(kQueryNorm, 2, 4),
                                                  [](LlamaConfig& m) {
                                                    m.kv_heads = 2;
                                                    m.moh.routing = routings::kWithinGroups;
                                                    m.moh.balance_loss = BalanceLoss::kShares;
                                                    m.moh.straight_through = StraightThrough::kAll;
                                                    m.moh.shared_heads.each = {{1, 6}, {3, 4}};
                                                  })},
      {"query_norm_groups_listed", changed(moh_model(kQueryNorm, 1, 2),
                                           [](LlamaConfig& m) {
                                             m.moh.routing = routings::kGroups;
                                             m.moh.shared_heads.each = {{2}, {0}};
                                           })},
      {"learned_per_layer", moh_model(kLearned, Counts{1, 8}, Counts{1, 0})},
      {"learned_no_shared_linear", changed(learned(0, 3),
                                           [](LlamaConfig& m) {
                                             m.rope_scaling = {RopeScalingKind::kLinear, 4};
                                           })},
  };
}

}  // namespace moh::test
