#pragma once

#include <bit>

#include "ops/device/kernel.h"

namespace moh::device {

template <class T>
struct ShuffleOperand {
  T value;
  int source;
  T result;
};

template <class T>
T shuffle(T value, int lane, const std::source_location& where = std::source_location::current()) {
  using Operand = ShuffleOperand<T>;
  Operand own{value, lane, value};
  sim::this_thread().block->meet_in_warp("shuffle", &own, where, [](sim::Block::Operands& operands) {
    for (void* operand : operands) {
      auto* const to = static_cast<Operand*>(operand);
      to->result = static_cast<Operand*>(operands[static_cast<std::size_t>(to->source % kWarp)])->value;
    }
  });
  return own.result;
}

template <class T>
T shuffle_xor(T value, int mask, const std::source_location& where = std::source_location::current()) {
  return device::shuffle(value, static_cast<int>(sim::this_thread().lane()) ^ mask, where);
}

inline std::uint32_t ballot(bool predicate,
                            const std::source_location& where = std::source_location::current()) {
  struct Operand {
    bool predicate;
    std::uint32_t result;
  } own{predicate, 0};
  sim::this_thread().block->meet_in_warp("ballot", &own, where, [](sim::Block::Operands& operands) {
    std::uint32_t bits = 0;
    for (std::size_t i = 0; i < operands.size(); ++i)
      bits |= static_cast<std::uint32_t>(static_cast<Operand*>(operands[i])->predicate) << i;
    for (void* operand : operands) static_cast<Operand*>(operand)->result = bits;
  });
  return own.result;
}

inline int count_bits(std::uint32_t bits) {
  return std::popcount(bits);
}

inline void sync_warp(const std::source_location& where = std::source_location::current()) {
  sim::this_thread().block->meet_in_warp("sync_warp", nullptr, where, [](sim::Block::Operands&) {});
}

}  // namespace moh::device
