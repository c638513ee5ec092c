#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace moh {

/// 128-bit XXH3 of a stream of bytes. It detects accidental damage (flipped bits, swapped or stale files) at
/// memory bandwidth, but not deliberate forgery.
class Checksum {
 public:
  Checksum();
  ~Checksum();
  Checksum(const Checksum&) = delete;
  Checksum& operator=(const Checksum&) = delete;

  void update(std::span<const std::byte> bytes);
  /// 32 hexadecimal digits, as the program xxh128sum prints them.
  std::string hex() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

std::string checksum_hex(std::span<const std::byte> bytes);
std::string checksum_hex(std::string_view text);

}  // namespace moh
