#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "train/metrics/console.h"

namespace moh::cli {

/// Shows how far a long pass over a file is: on a terminal a line that is drawn over, elsewhere a line every
/// ten seconds.
class ByteProgress {
 public:
  /// `doing` is the verb in front, "converting".
  ByteProgress(std::string doing, std::uint64_t total_bytes);

  void add(std::uint64_t bytes);
  /// Takes the line away.
  void finish();

 private:
  Console console_;
  std::string doing_;
  std::uint64_t total_;
  std::uint64_t done_ = 0;
  double shown_seconds_;
};

}  // namespace moh::cli
