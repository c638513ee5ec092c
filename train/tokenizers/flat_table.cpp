#include "train/tokenizers/flat_table.h"

#include <xxhash.h>

#include <bit>

namespace moh {

namespace {

std::size_t slots_for(std::size_t count) {
  return std::bit_ceil(2 * count + 2);
}

std::uint64_t key_of(std::int32_t left, std::int32_t right) {
  return std::uint64_t{static_cast<std::uint32_t>(left)} << 32 | static_cast<std::uint32_t>(right);
}

/// Fibonacci hashing: the upper bits of the product depend on all of the key's.
std::size_t first_slot(std::uint64_t key, std::size_t slots) {
  return key * 0x9E3779B97F4A7C15U >> (64 - std::countr_zero(slots));
}

}  // namespace

TextTable::TextTable(std::size_t count) : slots_(slots_for(count)) {}

bool TextTable::add(std::string_view text, std::int32_t value) {
  const auto hash = static_cast<std::uint32_t>(XXH3_64bits(text.data(), text.size()));
  const std::size_t mask = slots_.size() - 1;
  std::size_t at = hash & mask;
  for (; slots_[at].value >= 0; at = (at + 1) & mask) {
    const Slot& slot = slots_[at];
    if (slot.hash == hash && text == std::string_view(text_).substr(slot.begin, slot.size)) return false;
  }
  slots_[at] = {hash, value, text_.size(), static_cast<std::uint32_t>(text.size())};
  text_ += text;
  return true;
}

std::int32_t TextTable::find(std::string_view text) const {
  const auto hash = static_cast<std::uint32_t>(XXH3_64bits(text.data(), text.size()));
  const std::size_t mask = slots_.size() - 1;
  for (std::size_t at = hash & mask; slots_[at].value >= 0; at = (at + 1) & mask) {
    const Slot& slot = slots_[at];
    if (slot.hash == hash && text == std::string_view(text_).substr(slot.begin, slot.size)) return slot.value;
  }
  return -1;
}

PairTable::PairTable(std::size_t count) : slots_(slots_for(count)) {}

bool PairTable::add(std::int32_t left, std::int32_t right, Value value) {
  if (2 * (count_ + 1) >= slots_.size()) grow();
  const std::uint64_t key = key_of(left, right);
  const std::size_t mask = slots_.size() - 1;
  std::size_t at = first_slot(key, slots_.size());
  while (slots_[at].key != kEmpty) {
    if (slots_[at].key == key) return false;
    at = (at + 1) & mask;
  }
  slots_[at] = {key, value};
  ++count_;
  return true;
}

void PairTable::grow() {
  std::vector<Slot> old(2 * slots_.size());
  old.swap(slots_);
  const std::size_t mask = slots_.size() - 1;
  for (const Slot& slot : old) {
    if (slot.key == kEmpty) continue;
    std::size_t at = first_slot(slot.key, slots_.size());
    while (slots_[at].key != kEmpty) at = (at + 1) & mask;
    slots_[at] = slot;
  }
}

PairTable::Value PairTable::find(std::int32_t left, std::int32_t right) const {
  const std::uint64_t key = key_of(left, right);
  const std::size_t mask = slots_.size() - 1;
  for (std::size_t at = first_slot(key, slots_.size()); slots_[at].key != kEmpty; at = (at + 1) & mask) {
    if (slots_[at].key == key) return slots_[at].value;
  }
  return {};
}

}  // namespace moh
