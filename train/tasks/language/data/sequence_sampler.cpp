#include "train/tasks/language/data/sequence_sampler.h"

#include <string>

#include "core/error.h"
#include "core/random.h"
#include "train/tasks/data/index_permutation.h"

namespace moh {

namespace {

// Random streams of the data order, apart from those of initialisation and of the training steps (Generator).
constexpr std::uint64_t kOrderStream = std::uint64_t{1} << 54;
constexpr std::uint64_t kOffsetStream = std::uint64_t{1} << 55;

}  // namespace

SequenceSampler::SequenceSampler(std::int64_t num_tokens, std::int64_t sequence_length, std::uint64_t seed)
    : num_targets_(num_tokens - 1), sequence_length_(sequence_length), seed_(seed) {
  if (sequence_length < 1) {
    throw ValueError(error_message("data", "sequence length", "at least 1", std::to_string(sequence_length)));
  }
  const std::int64_t windows = num_targets_ / sequence_length;
  if (windows < 1) {
    throw DataError(
        error_message("data", "training text",
                      "at least " + std::to_string(sequence_length + 1) + " tokens (sequence length + 1)",
                      std::to_string(num_tokens), "bring more text or shorten the sequences"));
  }
  windows_per_epoch_ = windows > 1 ? windows - 1 : 1;
}

std::int64_t SequenceSampler::window_start(std::int64_t sample) const {
  MOH_CHECK(sample >= 0, "SequenceSampler: negative sample");
  const auto epoch = static_cast<std::uint64_t>(epoch_of(sample));
  const std::int64_t slack = num_targets_ - windows_per_epoch_ * sequence_length_;
  const auto offset = static_cast<std::int64_t>(
      random_below({seed_, kOffsetStream | epoch}, 0, static_cast<std::uint64_t>(slack) + 1));
  const IndexPermutation order(windows_per_epoch_, {seed_, kOrderStream | epoch});
  return offset + order(sample % windows_per_epoch_) * sequence_length_;
}

}  // namespace moh
