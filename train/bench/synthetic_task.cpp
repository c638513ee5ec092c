#include "train/bench/synthetic_task.h"

#include <algorithm>

#include "train/bench/random_tokens.h"

namespace moh {

std::unique_ptr<Task> make_synthetic_task(const RunConfig& config) {
  const std::int64_t length = config.data.sequence_length;
  constexpr std::int64_t kMost = std::int64_t{1} << 62;
  RandomSizes sizes;
  sizes.train = std::max(sizes.train, std::min(length, kMost) + 1);
  sizes.validation = std::min(config.train.batch_size, kMost / length) * length + 1;
  return std::make_unique<LanguageModelTask>(
      config, random_language_data(config.model.vocab_size, static_cast<std::uint64_t>(config.seed), sizes));
}

}  // namespace moh
