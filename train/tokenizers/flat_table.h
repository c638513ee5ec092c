#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace moh {

/// Numbers by text, for look-ups that are most of the time of encoding: open addressing in one array.
class TextTable {
 public:
  explicit TextTable(std::size_t count);

  /// Adds a number above or equal to 0; false, and no change, if the text is there.
  bool add(std::string_view text, std::int32_t value);
  /// The number; -1: none.
  std::int32_t find(std::string_view text) const;

 private:
  struct Slot {
    std::uint32_t hash = 0;
    std::int32_t value = -1;  // -1: empty
    std::uint64_t begin = 0;  // in text_
    std::uint32_t size = 0;
  };

  std::vector<Slot> slots_;  // a power of two of them, at most half in use
  std::string text_;
};

/// Two numbers by a pair of numbers, in the same way. It grows when it holds more than `count` pairs.
class PairTable {
 public:
  struct Value {
    std::int32_t first = -1, second = -1;
  };

  explicit PairTable(std::size_t count);

  /// Pairs and `value.first` are 0 or more; false, and no change, if the pair is there.
  bool add(std::int32_t left, std::int32_t right, Value value);
  /// The value; {-1, -1}: none.
  Value find(std::int32_t left, std::int32_t right) const;

 private:
  struct Slot {
    std::uint64_t key = kEmpty;
    Value value;
  };
  static constexpr std::uint64_t kEmpty = ~std::uint64_t{0};

  void grow();

  std::vector<Slot> slots_;
  std::size_t count_ = 0;
};

}  // namespace moh
