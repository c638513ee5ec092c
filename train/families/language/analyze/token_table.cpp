#include "train/families/language/analyze/token_table.h"

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <string>
#include <string_view>

#include "core/error.h"
#include "train/base/io/printable.h"

namespace moh {

namespace {

/// The tokens that options.tokens names by their text.
std::vector<TokenId> chosen_tokens(const Tokenizer& tokenizer, const std::vector<std::string>& texts) {
  std::vector<TokenId> chosen;
  for (const std::string& text : texts) {
    std::vector<TokenId> ids;
    try {
      tokenizer.encode(text, ids);
    } catch (const DataError& error) {
      throw DataError("analyze: token '" + printable(text) + "': " + error.what());
    }
    if (ids.size() != 1) {
      throw ValueError(error_message("analyze", "token '" + printable(text) + "'",
                                     "the text of one token of " + std::string(tokenizer.name()),
                                     std::to_string(ids.size()) + " tokens"));
    }
    if (std::ranges::find(chosen, ids[0]) == chosen.end()) chosen.push_back(ids[0]);
  }
  return chosen;
}

/// The most frequent ids that occur; ties: the lower id first.
std::vector<TokenId> most_frequent(std::span<const std::int64_t> counts, std::int64_t number) {
  std::vector<TokenId> ids(counts.size());
  std::iota(ids.begin(), ids.end(), 0);
  const auto count = [&](TokenId id) { return counts[static_cast<std::size_t>(id)]; };
  const auto kept = std::min(ids.size(), static_cast<std::size_t>(number));
  std::ranges::partial_sort(ids, ids.begin() + static_cast<std::ptrdiff_t>(kept), [&](TokenId a, TokenId b) {
    return count(a) != count(b) ? count(a) > count(b) : a < b;
  });
  ids.resize(kept);
  std::erase_if(ids, [&](TokenId id) { return count(id) == 0; });
  return ids;
}

}  // namespace

void count_ids(std::span<const std::int64_t> ids, std::span<std::int64_t> counts) {
  for (const std::int64_t id : ids) {
    if (id < 0 || id >= std::ssize(counts)) {
      throw DataError(error_message("analyze", "token id",
                                    "below the vocabulary's " + std::to_string(counts.size()),
                                    std::to_string(id)));
    }
    ++counts[static_cast<std::size_t>(id)];
  }
}

std::string shown_text(const Tokenizer& tokenizer, TokenId id) {
  const std::string_view bytes = tokenizer.token_bytes(id);
  return printable(bytes.empty() ? tokenizer.special_text(id) : bytes);
}

std::vector<ShownToken> token_table(const Tokenizer& tokenizer, const AnalyzeOptions& options,
                                    std::span<const std::int64_t> counts) {
  if (options.top_tokens < 0)
    throw ValueError(
        error_message("analyze", "tokens in the table", "0 or more", std::to_string(options.top_tokens)));
  std::vector<ShownToken> table;
  for (const TokenId id : options.tokens.empty() ? most_frequent(counts, options.top_tokens)
                                                 : chosen_tokens(tokenizer, options.tokens)) {
    // A model's vocabulary may be padded beyond the tokenizer's.
    const bool known = id < tokenizer.vocab_size();
    table.push_back({id, known ? shown_text(tokenizer, id) : "", counts[static_cast<std::size_t>(id)]});
  }
  return table;
}

}  // namespace moh
