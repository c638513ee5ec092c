#include "train/tokenizers/bpe.h"

#include <algorithm>
#include <limits>
#include <queue>
#include <utility>

#include "core/error.h"
#include "train/base/io/printable.h"

namespace moh {

namespace {

/// Up to so many symbols, looking at all pairs for each merge takes less time than a queue of them.
constexpr std::size_t kShort = 48;

constexpr std::int32_t kNoMerge = std::numeric_limits<std::int32_t>::max();

TextTable table_of(const std::vector<BpeTables::Token>& tokens) {
  TextTable table(tokens.size());
  for (const BpeTables::Token& token : tokens) table.add(token.text, token.id);
  return table;
}

PairTable table_of(const std::vector<BpeTables::Merge>& merges, const std::vector<std::int32_t>& ranks) {
  PairTable table(merges.size());
  for (std::size_t i = 0; i < merges.size(); ++i) {
    const std::int32_t rank = ranks.empty() ? static_cast<std::int32_t>(i) : ranks[i];
    table.add(merges[i].left, merges[i].right, {rank, merges[i].merged});
  }
  return table;
}

/// A symbol of a word that is being merged, in a doubly linked list.
struct Symbol {
  TokenId id;
  std::int32_t previous, next;  // -1: none
};

/// A pair that could be merged, when it was put into the queue.
struct Candidate {
  std::int32_t rank, left;
  TokenId merged;

  /// For a queue whose first is the largest.
  bool operator<(const Candidate& other) const {
    return rank != other.rank ? rank > other.rank : left > other.left;
  }
};

}  // namespace

Bpe::Bpe(BpeTables tables)
    : tokens_(table_of(tables.tokens)),
      merges_(table_of(tables.merges, tables.ranks)),
      neighbours_(tables.merges.size()),
      bytes_(256, -1) {
  TokenId last = -1;
  for (const BpeTables::Token& token : tables.tokens) {
    last = std::max(last, token.id);
    if (token.text.size() == 1) bytes_[static_cast<unsigned char>(token.text[0])] = token.id;
  }
  const std::vector<BpeTables::Token> tokens = std::move(tables.tokens);
  const std::vector<BpeTables::Merge> merges = std::move(tables.merges);
  rules_ = std::move(tables);
  whole_.assign(static_cast<std::size_t>(last) + 1, rules_.ignore_merges ? 1 : 0);
  find_neighbours(merges, tokens);
  if (rules_.ignore_merges) return;
  // Most words of a text are tokens, and most tokens are what their text is encoded as: a look-up then takes
  // the place of the merges.
  std::vector<TokenId> ids;
  for (const BpeTables::Token& token : tokens) {
    ids.clear();
    if (token.text.empty()) continue;
    begin(token.text, ids);
    merge(ids);
    whole_[static_cast<std::size_t>(token.id)] = ids.size() == 1 && ids[0] == token.id ? 1 : 0;
  }
}

/// A token's neighbouring symbols are those within the two that it was merged from, and the pair in between.
/// Symbols that stand for bytes or for the unknown are tokens themselves.
void Bpe::find_neighbours(const std::vector<BpeTables::Merge>& merges,
                          const std::vector<BpeTables::Token>& tokens) {
  std::vector<const std::string*> texts(whole_.size());
  for (const BpeTables::Token& token : tokens) texts[static_cast<std::size_t>(token.id)] = &token.text;
  const auto symbol = [&](TokenId id, bool first) {
    const std::string* text = texts[static_cast<std::size_t>(id)];
    if (text == nullptr || text->empty()) return id;
    if (rules_.byte_level) return bytes_[static_cast<unsigned char>(first ? text->front() : text->back())];
    return tokens_.find(first ? first_character(*text) : last_character(*text));
  };
  for (const BpeTables::Merge& merge : merges) {
    for (const TokenId left : {symbol(merge.left, false), merge.left}) {
      for (const TokenId right : {symbol(merge.right, true), merge.right})
        neighbours_.add(left, right, {0, 0});
    }
  }
}

Bpe::Merged Bpe::merge_of(TokenId left, TokenId right) const {
  const PairTable::Value found = merges_.find(left, right);
  return {found.first, found.second};
}

bool Bpe::begin_as_bytes(std::string_view character, std::vector<TokenId>& symbols) const {
  if (rules_.byte_tokens.empty()) return false;
  const auto token_of = [&](char byte) { return rules_.byte_tokens[static_cast<unsigned char>(byte)]; };
  if (std::ranges::any_of(character, [&](char byte) { return token_of(byte) < 0; })) return false;
  for (const char byte : character) symbols.push_back(token_of(byte));
  return true;
}

void Bpe::begin_unknown(std::string_view character, bool& unknown_waits,
                        std::vector<TokenId>& symbols) const {
  if (!rules_.unknown) {
    throw DataError(error_message("tokenizer", "text",
                                  "characters of its vocabulary, as it has no token for others",
                                  "'" + printable(character) + "'"));
  }
  if (unknown_waits && !rules_.fuse_unknown) symbols.push_back(*rules_.unknown);
  unknown_waits = true;
}

/// The token of an unknown character is put down when the next known one comes, or the end: in `tokenizers`
/// the bytes of characters in between stand before it.
void Bpe::begin(std::string_view word, std::vector<TokenId>& symbols) const {
  bool unknown_waits = false;
  while (!word.empty()) {
    const std::size_t size = rules_.byte_level ? 1 : first_character(word).size();
    const std::string_view character = word.substr(0, size);
    const TokenId token = size == 1 ? bytes_[static_cast<unsigned char>(word[0])] : tokens_.find(character);
    if (token >= 0) {
      if (std::exchange(unknown_waits, false)) symbols.push_back(*rules_.unknown);
      symbols.push_back(token);
    } else if (!begin_as_bytes(character, symbols)) {
      begin_unknown(character, unknown_waits, symbols);
    }
    word.remove_prefix(size);
  }
  if (unknown_waits) symbols.push_back(*rules_.unknown);
}

void Bpe::merge(std::vector<TokenId>& symbols) const {
  symbols.size() <= kShort ? merge_short(symbols) : merge_long(symbols);
}

/// Symbols that no token has side by side stay apart, so what lies between is merged by itself: a text that
/// was not cut into words falls into short runs.
void Bpe::merge_runs(const std::vector<TokenId>& symbols, std::vector<TokenId>& ids) const {
  thread_local std::vector<TokenId> run;
  for (std::size_t begin = 0, end = 0; begin < symbols.size(); begin = end) {
    for (end = begin + 1; end < symbols.size(); ++end) {
      if (neighbours_.find(symbols[end - 1], symbols[end]).first < 0) break;
    }
    run.assign(symbols.begin() + static_cast<std::ptrdiff_t>(begin),
               symbols.begin() + static_cast<std::ptrdiff_t>(end));
    merge(run);
    ids.insert(ids.end(), run.begin(), run.end());
  }
}

void Bpe::merge_short(std::vector<TokenId>& symbols) const {
  std::int32_t ranks[kShort];
  TokenId merged[kShort];
  const auto look_up = [&](std::size_t i) {
    const Merged found = merge_of(symbols[i], symbols[i + 1]);
    ranks[i] = found.rank < 0 ? kNoMerge : found.rank;
    merged[i] = found.id;
  };
  std::size_t count = symbols.size();
  for (std::size_t i = 0; i + 1 < count; ++i) look_up(i);
  while (count > 1) {
    const auto best = static_cast<std::size_t>(std::min_element(ranks, ranks + count - 1) - ranks);
    if (ranks[best] == kNoMerge) break;
    symbols[best] = merged[best];
    std::copy(symbols.begin() + static_cast<std::ptrdiff_t>(best) + 2,
              symbols.begin() + static_cast<std::ptrdiff_t>(count),
              symbols.begin() + static_cast<std::ptrdiff_t>(best) + 1);
    if (best + 2 < count) {
      std::copy(ranks + best + 2, ranks + count - 1, ranks + best + 1);
      std::copy(merged + best + 2, merged + count - 1, merged + best + 1);
    }
    --count;
    if (best > 0) look_up(best - 1);
    if (best + 1 < count) look_up(best);
  }
  symbols.resize(count);
}

void Bpe::merge_long(std::vector<TokenId>& symbols) const {
  std::vector<Symbol> list(symbols.size());
  const auto count = static_cast<std::int32_t>(symbols.size());
  for (std::int32_t i = 0; i < count; ++i)
    list[static_cast<std::size_t>(i)] = {symbols[static_cast<std::size_t>(i)], i - 1,
                                         i + 1 < count ? i + 1 : -1};
  std::priority_queue<Candidate> queue;
  const auto at = [&](std::int32_t i) -> Symbol& { return list[static_cast<std::size_t>(i)]; };
  const auto consider = [&](std::int32_t left) {
    if (left < 0 || at(left).next < 0) return;
    const Merged found = merge_of(at(left).id, at(at(left).next).id);
    if (found.rank >= 0) queue.push({found.rank, left, found.id});
  };
  for (std::int32_t i = 0; i < count; ++i) consider(i);
  while (!queue.empty()) {
    const Candidate best = queue.top();
    queue.pop();
    // A pair that has changed since is in the queue again, if it can be merged.
    if (at(best.left).id < 0 || at(best.left).next < 0) continue;
    const std::int32_t right = at(best.left).next;
    const Merged found = merge_of(at(best.left).id, at(right).id);
    if (found.rank != best.rank) continue;
    at(best.left).id = best.merged;
    at(best.left).next = at(right).next;
    if (at(right).next >= 0) at(at(right).next).previous = best.left;
    at(right).id = -1;
    consider(at(best.left).previous);
    consider(best.left);
  }
  symbols.clear();
  for (std::int32_t i = 0; i >= 0; i = at(i).next) symbols.push_back(at(i).id);
}

void Bpe::encode(std::string_view word, std::vector<TokenId>& ids) const {
  if (word.empty()) return;
  const TokenId token = tokens_.find(word);
  if (token >= 0 && whole_[static_cast<std::size_t>(token)] != 0) {
    ids.push_back(token);
    return;
  }
  thread_local std::vector<TokenId> symbols;
  symbols.clear();
  begin(word, symbols);
  merge_runs(symbols, ids);
}

}  // namespace moh
