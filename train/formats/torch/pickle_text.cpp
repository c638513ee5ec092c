#include "train/formats/torch/pickle_text.h"

#include <algorithm>
#include <span>
#include <utility>

namespace moh {

PickleText::PickleText(const InputFile& file, std::uint64_t begin, std::uint64_t end, std::string what)
    : file_(&file), begin_(begin), end_(end), what_(std::move(what)) {}

std::string_view PickleText::take(std::uint64_t size) {
  if (size > left()) {
    fail(std::to_string(size) + " more bytes", std::to_string(left()), "the pickle is truncated or damaged");
  }
  fill(size);
  const std::string_view taken = at(position_, size);
  position_ += size;
  return taken;
}

std::string_view PickleText::take_line(std::uint64_t most) {
  const std::uint64_t begin = position_;
  while (take(1) != "\n") {
    if (position_ - begin > most)
      fail("a name of at most " + std::to_string(most) + " bytes", "a longer one");
  }
  return at(begin, position_ - begin - 1);
}

/// Reads on, so that `size` bytes are there behind position_.
void PickleText::fill(std::uint64_t size) {
  const std::uint64_t needed = position_ + size, have = bytes_.size();
  if (needed <= have) return;
  if (needed > kMaxBytes) {
    fail("a pickle of at most " + std::to_string(kMaxBytes) + " bytes", "a longer one",
         "save the model's state_dict alone, without other data");
  }
  constexpr std::uint64_t kBlock = 1 << 16;
  const std::uint64_t size_now = std::min(std::max({needed, 2 * have, kBlock}), end_ - begin_);
  bytes_.resize(size_now);
  file_->read(begin_ + have, std::as_writable_bytes(std::span(bytes_).subspan(have)), what_);
}

void PickleText::fail(std::string_view expected, std::string_view found, std::string_view fix) const {
  file_->fail(what_ + ", byte " + std::to_string(position_), expected, found, fix);
}

}  // namespace moh
