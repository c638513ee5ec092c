#include "train/families/language/data/token_source.h"

#include <algorithm>
#include <iterator>
#include <string>
#include <utility>

#include "core/error.h"
#include "core/random.h"

namespace moh {

namespace {

void check_range(const TokenSource& source, std::int64_t begin, std::size_t count) {
  MOH_CHECK(
      begin >= 0 && begin <= source.size() && count <= static_cast<std::uint64_t>(source.size() - begin),
      "token range " + std::to_string(begin) + " + " + std::to_string(count) + " outside [0, " +
          std::to_string(source.size()) + ")");
}

template <class Stored>
class MemoryTokens final : public TokenSource {
 public:
  explicit MemoryTokens(std::vector<Stored> ids) : ids_(std::move(ids)) {}
  std::int64_t size() const override { return static_cast<std::int64_t>(ids_.size()); }
  void copy_marked(std::int64_t begin, std::span<TokenId> ids) const override {
    check_range(*this, begin, ids.size());
    std::copy_n(ids_.begin() + begin, ids.size(), ids.begin());
  }

 private:
  std::vector<Stored> ids_;
};

class SlicedTokens final : public TokenSource {
 public:
  SlicedTokens(TokenSourcePtr source, std::int64_t begin, std::int64_t end)
      : source_(std::move(source)), begin_(begin), size_(end - begin) {}
  std::int64_t size() const override { return size_; }
  void copy_marked(std::int64_t begin, std::span<TokenId> ids) const override {
    check_range(*this, begin, ids.size());
    source_->copy_marked(begin_ + begin, ids);
  }

 private:
  TokenSourcePtr source_;
  std::int64_t begin_;
  std::int64_t size_;
};

class ConcatenatedTokens final : public TokenSource {
 public:
  ConcatenatedTokens(std::vector<TokenSourcePtr> sources, std::optional<TokenId> separator)
      : sources_(std::move(sources)), separator_(separator) {
    begins_.reserve(sources_.size());
    for (const TokenSourcePtr& source : sources_) {
      if (separator_ && !begins_.empty()) ++size_;
      begins_.push_back(size_);
      size_ += source->size();
    }
  }
  std::int64_t size() const override { return size_; }

  void copy_marked(std::int64_t begin, std::span<TokenId> ids) const override {
    check_range(*this, begin, ids.size());
    if (ids.empty()) return;
    // The last source that starts at or before `begin`; the separator after a source counts as part of it.
    auto i =
        static_cast<std::size_t>(std::upper_bound(begins_.begin(), begins_.end(), begin) - begins_.begin()) -
        1;
    for (std::int64_t from = begin - begins_[i]; !ids.empty(); ++i, from = 0) {
      const std::int64_t left = std::max<std::int64_t>(sources_[i]->size() - from, 0);
      const std::size_t count = std::min(static_cast<std::size_t>(left), ids.size());
      if (count > 0) sources_[i]->copy_marked(from, ids.first(count));
      ids = ids.subspan(count);
      if (separator_ && !ids.empty()) {
        ids.front() = *separator_;
        ids = ids.subspan(1);
      }
    }
  }

 private:
  std::vector<TokenSourcePtr> sources_;
  std::vector<std::int64_t> begins_;
  std::optional<TokenId> separator_;
  std::int64_t size_ = 0;
};

constexpr std::uint64_t kRandomStream = 0x72616e64;  // far from the streams of a step and of the data order

/// Computes ids on demand, so as not to add memory or start-up time to measurements.
class RandomTokens final : public TokenSource {
 public:
  RandomTokens(std::int64_t size, std::int64_t vocab_size, std::uint64_t seed)
      : size_(size), vocab_size_(static_cast<std::uint64_t>(vocab_size)), key_{seed, kRandomStream} {}

  std::int64_t size() const override { return size_; }
  void copy_marked(std::int64_t begin, std::span<TokenId> ids) const override {
    auto place = static_cast<std::uint64_t>(begin);
    for (TokenId& id : ids) id = static_cast<TokenId>(random_below(key_, place++, vocab_size_));
  }

 private:
  std::int64_t size_;
  std::uint64_t vocab_size_;
  RandomKey key_;
};

}  // namespace

TokenMemory::TokenMemory(std::int64_t vocab_size) : vocab_size_(vocab_size) {
  if (vocab_size > 1 << 16)
    ids_.emplace<std::vector<TokenId>>();
  else if (vocab_size > 1 << 8)
    ids_.emplace<std::vector<std::uint16_t>>();
}

void TokenMemory::reserve(std::uint64_t ids) {
  std::visit([=](auto& stored) { stored.reserve(ids); }, ids_);
}

std::size_t TokenMemory::size() const {
  return std::visit([](const auto& stored) { return stored.size(); }, ids_);
}

void TokenMemory::append(std::span<const TokenId> ids) {
  // All text passes through here: loops that become vectors, unlike those of all_of and insert.
  TokenId largest = 0, least = 0;
  for (const TokenId id : ids) {
    largest = std::max(largest, unmarked(id));
    least = std::min(least, id);
  }
  MOH_CHECK(largest < vocab_size_, "token id outside the vocabulary of " + std::to_string(vocab_size_));
  if (is_marked(least)) widen();
  std::visit(
      [&]<class Stored>(std::vector<Stored>& stored) {
        stored.resize(stored.size() + ids.size());
        std::ranges::transform(ids, stored.end() - std::ssize(ids),
                               [](TokenId id) { return static_cast<Stored>(id); });
      },
      ids_);
}

void TokenMemory::widen() {
  const auto widened = [&]<class To>(std::vector<To>) -> Stored {
    return std::visit([](const auto& stored) { return std::vector<To>(stored.begin(), stored.end()); }, ids_);
  };
  const bool is_unsigned = ids_.index() < 2;
  if (is_unsigned)
    ids_ = vocab_size_ <= 1 << 15 ? widened(std::vector<std::int16_t>()) : widened(std::vector<TokenId>());
}

TokenSourcePtr TokenMemory::finish() {
  return std::visit(
      []<class Stored>(std::vector<Stored>& stored) -> TokenSourcePtr {
        return std::make_shared<MemoryTokens<Stored>>(std::move(stored));
      },
      ids_);
}

TokenSourcePtr tokens_in_memory(std::span<const TokenId> ids, std::int64_t vocab_size) {
  TokenMemory memory(vocab_size);
  memory.append(ids);
  return memory.finish();
}

TokenSourcePtr slice_tokens(TokenSourcePtr source, std::int64_t begin, std::int64_t end) {
  MOH_CHECK(begin >= 0 && begin <= end && end <= source->size(), "slice_tokens: range outside the source");
  return std::make_shared<SlicedTokens>(std::move(source), begin, end);
}

TokenSourcePtr concatenate_tokens(std::vector<TokenSourcePtr> sources, std::optional<TokenId> separator) {
  return std::make_shared<ConcatenatedTokens>(std::move(sources), separator);
}

TokenSourcePtr random_tokens(std::int64_t size, std::int64_t vocab_size, std::uint64_t seed) {
  return std::make_shared<RandomTokens>(size, vocab_size, seed);
}

}  // namespace moh
