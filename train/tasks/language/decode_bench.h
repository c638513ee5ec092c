#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "core/device.h"
#include "core/dtype.h"
#include "models/llm/llama_config.h"
#include "train/bench/row.h"

namespace moh {

/// What `moh bench decode` measures: generating tokens one by one behind contexts of given lengths.
struct DecodeBenchOptions {
  DecodeBenchOptions() {
    model.vocab_size = 8192;
    model.layers = 6;
    model.hidden = 768;
    model.intermediate = 2048;
    model.heads = model.kv_heads = 12;
    model.head_dim = 64;
  }

  LlamaConfig model;  ///< sizes; its routing and its positions are replaced
  Device device = kCpu;
  DType dtype = DType::kFloat32;
  std::int64_t batch = 1;
  std::vector<std::int64_t> contexts = {512, 4096};  ///< tokens in the cache before each pass
  std::vector<double> active = {1.0, 0.75, 0.5};     ///< shares of the heads that each token keeps
  std::vector<RouterKind> routers = {RouterKind::kLearned, RouterKind::kQueryNorm};
  std::int64_t tokens = 4;  ///< that a pass generates
  int warmups = 2;          ///< passes of each case that are not counted
  int repeats = 15;         ///< counted passes of each case, interleaved with the others
  std::uint64_t seed = 1;
};

/// Makes a dense model and one for each share below 1 and router (an eighth of the heads shared, as far as
/// their number goes, the others routed), with random weights, which share one cache of random keys and
/// values. Hands each row over when its context is done. Throws ValueError naming the option that is out of
/// range.
///
/// Of a row: times are medians over the repeats, of one token of each sequence; a spread is (90th - 10th
/// percentile) / median; a ratio compares with the dense model: each repeat times both shortly after each
/// other, and the median of those ratios counts. `tokens_per_s` is of all sequences together, `active` a
/// whole number of heads. `attention_ms` is the part of a token that is attention to the cache, with the
/// building of the lists that say which heads are selected; from passes of their own, in which the ops are
/// timed.
void run_decode_bench(const DecodeBenchOptions& options, const std::function<void(const Row&)>& on_row);

}  // namespace moh
