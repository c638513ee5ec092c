#include "models/llm/rotary_embedding.h"

#include <algorithm>
#include <mutex>

namespace moh {

struct RotaryEmbedding::Longest {
  std::mutex mutex;
  std::int64_t length = 0;
  RopeTable table;
};

RotaryEmbedding::RotaryEmbedding(const LlamaConfig& config, Placement placement)
    : config_(config), placement_(placement), longest_(std::make_shared<Longest>()) {
  const RopeScaling& scaling = config.rope_scaling;
  const bool is_dynamic = scaling.kind == RopeScalingKind::kDynamic;
  table_ = table_of(
      0, is_dynamic ? std::min(config.max_positions, scaling.original_positions) : config.max_positions);
}

RopeTable RotaryEmbedding::table_of(std::int64_t first, std::int64_t count) const {
  return rope_table(count, config_.head_dim, config_.rope_theta, accumulate_dtype(placement_.dtype),
                    placement_.device, config_.rope_scaling, first);
}

RopeTable RotaryEmbedding::rows(std::int64_t first, std::int64_t count) const {
  const std::int64_t length = first + count;
  if (length <= table_.cos.dim(0) || length > config_.max_positions) return table_.rows(first, count);
  if (first > 0) return table_of(first, count);
  const std::scoped_lock lock(longest_->mutex);
  if (longest_->length != length) {
    longest_->table = table_of(0, length);
    longest_->length = length;
  }
  return longest_->table;
}

}  // namespace moh
