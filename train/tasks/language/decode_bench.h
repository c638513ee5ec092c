#pragma once

#include <cstdint>
#include <functional>
#include <iosfwd>
#include <string>
#include <vector>

#include "core/device.h"
#include "core/dtype.h"
#include "models/llm/llama_config.h"

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

/// One line of results: medians over the repeats. A ratio compares with the dense model of the same run: each
/// repeat times both shortly after each other, and the median of those ratios counts.
struct DecodeBenchRecord {
  std::string device, dtype, isa;
  int threads = 0;
  std::int64_t batch = 0, context = 0;
  std::int64_t layers = 0, hidden = 0, heads = 0, kv_heads = 0, head_dim = 0;
  std::string router;   ///< "none", "learned", "query_norm"
  double active = 1.0;  ///< share of the heads, a whole number of them
  std::int64_t shared = 0, routed = 0;
  double tokens_per_s = 0;  ///< of all sequences together
  double token_ms = 0;      ///< of one token of each sequence
  double spread = 0;        ///< (90th - 10th percentile) / median of token_ms
  double ratio = 1.0;       ///< token_ms, against the dense model's
  /// The part of a token that is attention to the cache, with the building of the lists that say which heads
  /// are selected; from passes of their own, in which the ops are timed.
  double attention_ms = 0, attention_spread = 0, attention_ratio = 1.0;
};

/// Makes a dense model and one for each share below 1 and router (an eighth of the heads shared, as far as
/// their number goes, the others routed), with random weights, which share one cache of random keys and
/// values. Hands each record over when its context is done. Throws ValueError naming the option that is out
/// of range.
void run_decode_bench(const DecodeBenchOptions& options,
                      const std::function<void(const DecodeBenchRecord&)>& on_record);

/// One JSON object with all fields, and a newline.
void write_json_line(std::ostream& out, const DecodeBenchRecord& record);
/// The head of a table for people, and one line of it.
void write_decode_table_head(std::ostream& out);
void write_table_line(std::ostream& out, const DecodeBenchRecord& record);

}  // namespace moh
