#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>

namespace moh::sim {

/// Memory that the ranks of a simulated communicator share. It begins as zeros.
struct NcclSegment {
  static constexpr int kMostRanks = 8;
  static constexpr std::size_t kSlot = std::size_t{1} << 18, kBox = std::size_t{1} << 16;

  /// A call of a rank. Trivially copyable.
  struct Call {
    std::uint64_t number, count;
    std::int32_t kind, type, op, root;
    bool operator==(const Call&) const = default;
  };
  struct Rank {
    std::atomic<std::uint64_t> step;  ///< meetings that it has come to
    std::atomic<std::uint32_t> joined, finalized;
    char gpu[64];
    Call call;
    std::byte slot[kSlot];
  };
  /// From one rank to another: a piece of a message at a time.
  struct Box {
    std::atomic<std::uint32_t> is_full;
    std::uint64_t total;  ///< bytes of the message
    std::byte bytes[kBox];
  };

  /// Tells the ranks that wait that there is something new to see.
  void note_change();
  /// Returns when there has been a change since `changes` was `seen`, and now and then without one: the
  /// caller may have been aborted.
  void wait_for_change(std::uint32_t seen);

  std::atomic<std::uint32_t> changes, waiting;
  Rank ranks[kMostRanks];
  Box boxes[kMostRanks][kMostRanks];  ///< by sender and receiver

  /// Maps the segment of this name, which the first rank makes.
  static NcclSegment& open(const std::string& name);
};

}  // namespace moh::sim
