#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace moh {

/// XXH3 with 128 bits over a stream of bytes. It finds accidents (flipped bits, swapped or stale files) at
/// memory speed; it is no defence against somebody who forges a file on purpose.
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
