#include "train/tasks/language/random_tokens.h"

#include <vector>

#include "core/error.h"
#include "core/random.h"

namespace moh {

namespace {

constexpr std::uint64_t kStream = 0x72616e64;  // far from the streams of a step and of the data order

/// Computes ids as they are read, so that no memory or start-up time is added to what is measured.
class RandomTokens final : public TokenSource {
 public:
  RandomTokens(std::int64_t size, std::int64_t vocab_size, std::uint64_t seed)
      : size_(size), vocab_size_(static_cast<std::uint64_t>(vocab_size)), key_{seed, kStream} {}

  std::int64_t size() const override { return size_; }
  void copy(std::int64_t begin, std::span<TokenId> ids) const override {
    auto place = static_cast<std::uint64_t>(begin);
    for (TokenId& id : ids) id = static_cast<TokenId>(random_below(key_, place++, vocab_size_));
  }

 private:
  std::int64_t size_;
  std::uint64_t vocab_size_;
  RandomKey key_;
};

/// A vocabulary of any size whose tokens stand for no text.
class NumberedTokens final : public Tokenizer {
 public:
  explicit NumberedTokens(std::int64_t vocab_size) : vocab_size_(vocab_size) {}

  std::string_view name() const override { return "random"; }
  std::int64_t vocab_size() const override { return vocab_size_; }
  std::uint64_t content_hash() const override { return static_cast<std::uint64_t>(vocab_size_); }
  std::optional<TokenId> end_of_document() const override { return std::nullopt; }
  void encode(std::string_view, std::vector<TokenId>&) const override {
    throw DataError(error_message("random tokens", "text", "none", "some", "random tokens have no text"));
  }
  std::string_view token_bytes(TokenId) const override { return {}; }

 private:
  std::int64_t vocab_size_;
};

}  // namespace

std::shared_ptr<const LanguageData> random_language_data(std::int64_t vocab_size, std::uint64_t seed,
                                                         const RandomSizes& sizes) {
  auto data = std::make_shared<LanguageData>();
  data->tokenizer = std::make_unique<NumberedTokens>(vocab_size);
  data->train = std::make_shared<RandomTokens>(sizes.train, vocab_size, seed);
  data->validation = std::make_shared<RandomTokens>(sizes.validation, vocab_size, seed);
  return data;
}

}  // namespace moh
