#include "train/tasks/language/data/separated_tokens.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "core/error.h"

namespace moh {

namespace {

class SeparatedTokens final : public TokenSource {
 public:
  SeparatedTokens(TokenSourcePtr source, std::vector<std::int64_t> at, TokenId separator)
      : source_(std::move(source)), at_(std::move(at)), separator_(separator) {}

  std::int64_t size() const override { return source_->size() + std::ssize(at_); }

  void copy_marked(std::int64_t begin, std::span<TokenId> ids) const override {
    MOH_CHECK(begin >= 0 && begin <= size() && std::ssize(ids) <= size() - begin,
              "SeparatedTokens: range outside the source");
    std::int64_t i = first_from(begin);
    while (!ids.empty()) {
      const std::int64_t until = i < std::ssize(at_) ? place_of(i) : size();
      const auto count = static_cast<std::size_t>(std::min(until - begin, std::ssize(ids)));
      source_->copy_marked(begin - i, ids.first(count));
      begin += static_cast<std::int64_t>(count);
      ids = ids.subspan(count);
      if (ids.empty()) break;
      ids.front() = separator_;
      ids = ids.subspan(1);
      ++begin;
      ++i;
    }
  }

 private:
  /// The first separator at or after a place.
  std::int64_t first_from(std::int64_t place) const {
    std::int64_t low = 0, high = std::ssize(at_);
    while (low < high) {
      const std::int64_t middle = low + (high - low) / 2;
      place_of(middle) < place ? low = middle + 1 : high = middle;
    }
    return low;
  }
  /// Its index among the ids with separators.
  std::int64_t place_of(std::int64_t n) const { return at_[static_cast<std::size_t>(n)] + n; }

  TokenSourcePtr source_;
  std::vector<std::int64_t> at_;
  TokenId separator_;
};

}  // namespace

TokenSourcePtr separate_tokens(TokenSourcePtr source, std::vector<std::int64_t> at, TokenId separator) {
  MOH_CHECK(std::ranges::is_sorted(at) && (at.empty() || (at.front() >= 0 && at.back() <= source->size())),
            "separate_tokens: places that ascend within the source");
  return std::make_shared<SeparatedTokens>(std::move(source), std::move(at), separator);
}

}  // namespace moh
