#include "train/base/io/checksum.h"

#include <xxhash.h>

#include "train/base/io/printable.h"

namespace moh {

namespace {

std::string to_hex(XXH128_hash_t hash) {
  XXH128_canonical_t canonical;
  XXH128_canonicalFromHash(&canonical, hash);
  return hex_digits({reinterpret_cast<const char*>(canonical.digest), sizeof(canonical.digest)});
}

}  // namespace

struct Checksum::State {
  XXH3_state_t* xxh3 = XXH3_createState();
  ~State() { XXH3_freeState(xxh3); }
};

Checksum::Checksum() : state_(std::make_unique<State>()) {
  XXH3_128bits_reset(state_->xxh3);
}

Checksum::~Checksum() = default;

void Checksum::update(std::span<const std::byte> bytes) {
  XXH3_128bits_update(state_->xxh3, bytes.data(), bytes.size());
}

std::string Checksum::hex() const {
  return to_hex(XXH3_128bits_digest(state_->xxh3));
}

std::string checksum_hex(std::span<const std::byte> bytes) {
  return to_hex(XXH3_128bits(bytes.data(), bytes.size()));
}

std::string checksum_hex(std::string_view text) {
  return checksum_hex(std::as_bytes(std::span(text)));
}

}  // namespace moh
