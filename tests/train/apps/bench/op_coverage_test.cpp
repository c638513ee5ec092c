// `moh bench ops` has a case for every op, or here stands why not.

#include <catch2/catch.hpp>
#include <filesystem>
#include <map>
#include <set>
#include <string>

#include "tests/ops/recorded_ops.h"
#include "train/apps/bench/op_cases.h"

using namespace moh;

namespace {

/// Files of kernels whose public function has another name.
const std::map<std::string, std::string>& names_of_stems() {
  static const std::map<std::string, std::string> names = {
      {"cache_append", "append_to_cache"},
      {"clip_grad_norm", "grad_norm"},
      {"decode", "attention_decode"},
      {"depthwise", "depthwise_conv2d"},
      {"few_outputs", "conv2d"},
      {"patch_gemm", "conv2d"},
      {"winograd", "conv2d"},
      {"head_router", "route_heads"},
      {"masked_router", "route_masked_heads"},
      {"query_norm", "query_norm_logits"},
      {"head_sequences", "gather_pairs"},
  };
  return names;
}

const std::map<std::string, std::string>& reasons() {
  const std::string attention = "not bound by memory: `moh bench attention`, `moh bench module`";
  static const std::map<std::string, std::string> why = {
      {"attention", attention},
      {"attention_packed", attention},
      {"aggregated_attention", attention},
      {"cosine_attention_packed", attention},
      {"head_sparse_attention", attention},
      {"head_sparse_attention_packed", attention},
      {"head_projection", "products of the chosen heads, part of a layer: `moh bench module`"},
      {"linear", "its products are measured as matmul, the sizes those of published models"},
      {"linears", "as linear"},
      {"add_low_rank", "as linear, of products of a small rank"},
      {"packed_linear", "as linear"},
      {"rope_packed", "as rope, of some of the heads"},
      {"split", "a router's logits, a few numbers per token"},
      {"join", "as split, in the evaluation of pictures alone"},
      {"window_pool", "in the evaluation of pictures alone, beside convolutions of many more operations"},
      {"adafactor", "three passes over a matrix and its gradient; measured by `moh bench step`"},
      {"muon", "products of matrices between three passes; measured by `moh bench step`"},
      {"gelu_mlp", "two products as in linear, between them gelu, which has a case"},
      {"matmul", "measured beside the rate of products, not that of memory"},
      {"fma_loop", "is a ceiling itself"},
      {"recompute", "runs other ops again"},
      {"reshape", "moves nothing"},
      {"position_bias", "a table of each layer, once for all images"},
      {"mix_rows", "a product of a table, for images of other sizes than those of the training"},
      {"take_token", "one token of each image; its gradient is a fill with zeros"},
      {"indices", "reads ids, beside which their rows weigh much more; part of embedding and cross_entropy"},
      {"soft_cross_entropy", "a row of classes for each image"},
      {"kl_divergence", "as cross_entropy, over the logits of two models"},
      {"top1", "a row of classes for each image"},
      {"balance_bias", "a few numbers per layer, once a step"},
      {"head_masks", "a few numbers per layer"},
      {"route_masked_heads", "as route_heads, of an ablation"},
      {"router_z_loss", "a number per token, of a baseline"},
      {"repeat_heads", "of a baseline"},
      {"mean_of", "a number per layer, once a step"},
      {"adamw_plan", "a few numbers per step: `moh bench step --profile`"},
  };
  return why;
}

/// The stems of the files that declare kernels.
std::set<std::string> kernel_stems() {
  constexpr std::string_view kEnd = "_kernels.h";
  std::set<std::string> stems;
  const std::filesystem::path ops = std::filesystem::path(MOH_SOURCE_DIR) / "ops";
  for (const auto& entry : std::filesystem::recursive_directory_iterator(ops)) {
    const std::string name = entry.path().filename().string();
    if (name.ends_with(kEnd)) stems.insert(name.substr(0, name.size() - kEnd.size()));
  }
  REQUIRE(stems.contains("rms_norm"));
  return stems;
}

std::set<std::string> all_ops() {
  std::set<std::string> ops = test::recorded_ops(MOH_SOURCE_DIR);
  for (const std::string& stem : kernel_stems()) {
    const auto named = names_of_stems().find(stem);
    ops.insert(named == names_of_stems().end() ? stem : named->second);
  }
  return ops;
}

}  // namespace

TEST_CASE("bench: every op is measured, or there is a reason why not") {
  std::set<std::string> measured;
  for (const StreamingFamily& family : streaming_families()) measured.emplace(family.op);
  const std::set<std::string> ops = all_ops();
  for (const std::string& op : ops) {
    INFO("op " << op << ": give it a case in train/apps/bench/op_cases/, or a reason here, not both");
    CHECK(measured.contains(op) != reasons().contains(op));
  }
  for (const auto& [op, reason] : reasons()) {
    INFO(op << " is no op any more");
    CHECK(ops.contains(op));
  }
  for (const auto& [stem, op] : names_of_stems()) {
    INFO(stem << " has no kernels any more");
    CHECK(kernel_stems().contains(stem));
  }
}
