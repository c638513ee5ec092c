#pragma once

#include <cstdint>

namespace moh {

/// Which window of a token stream each training sample reads. A sample is `sequence_length` inputs and, one
/// further along, as many targets. Sample g (counted over the whole run) is a function of (seed, epoch,
/// index) with epoch = g / windows_per_epoch() and index = g % windows_per_epoch(): the state of the data
/// order is one number, and seeking costs nothing.
///
/// An epoch cuts the stream into windows that do not overlap, from a random offset on, so that the borders
/// fall elsewhere each time, and visits each of them once in random order. To leave room for the offset, an
/// epoch has one window fewer than fit (unless only one fits): of a stream of n targets it trains on all but
/// at most 2 * sequence_length - 1, other ones each time.
class SequenceSampler {
 public:
  /// Throws DataError when the stream is too short for one window, ValueError for sequence_length < 1.
  SequenceSampler(std::int64_t num_tokens, std::int64_t sequence_length, std::uint64_t seed);

  std::int64_t sequence_length() const { return sequence_length_; }
  std::int64_t windows_per_epoch() const { return windows_per_epoch_; }
  std::int64_t epoch_of(std::int64_t sample) const { return sample / windows_per_epoch_; }
  /// First token of the sample's window, which is sequence_length + 1 tokens long. sample >= 0.
  std::int64_t window_start(std::int64_t sample) const;

 private:
  std::int64_t num_targets_;
  std::int64_t sequence_length_;
  std::int64_t windows_per_epoch_;
  std::uint64_t seed_;
};

}  // namespace moh
