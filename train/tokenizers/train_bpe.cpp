#include "train/tokenizers/train_bpe.h"

#include <algorithm>
#include <queue>
#include <string_view>
#include <tuple>
#include <unordered_map>

#include "core/error.h"
#include "train/tokenizers/byte_level.h"

namespace moh {

namespace {

/// Bytes in the order of the characters that stand for them, which is that of their ids.
std::vector<unsigned char> bytes_by_character() {
  std::vector<unsigned char> bytes(256);
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<unsigned char>(i);
  // UTF-8 sorts as code points do.
  std::ranges::sort(bytes, {}, [](unsigned char byte) {
    return to_byte_level({reinterpret_cast<const char*>(&byte), 1});
  });
  return bytes;
}

/// Where a pair of neighbours occurs, and how often.
struct PairUse {
  std::int64_t count = 0;
  std::vector<std::uint32_t> words;  // with repetitions, and words that have lost it
};

/// A pair when it was put into the queue.
struct Candidate {
  std::int64_t count = 0;
  TokenId left = 0, right = 0;

  /// For a queue whose first is the largest.
  bool operator<(const Candidate& other) const {
    return std::tuple(count, other.left, other.right) < std::tuple(other.count, left, right);
  }
};

class Trainer {
 public:
  Trainer(std::span<const WordCount> words, const BpeTrainerOptions& options) : options_(options) {
    for (const std::string& special : options.special) add_token(special);
    std::vector<TokenId> id_of_byte(256);
    for (const unsigned char byte : bytes_by_character())
      id_of_byte[byte] = add_token(std::string(1, static_cast<char>(byte)));
    if (options.vocab_size < std::ssize(learned_.tokens)) {
      throw ValueError(error_message(
          "tokenizer", "vocabulary",
          "at least " + std::to_string(learned_.tokens.size()) + ", the 256 bytes and the special tokens",
          std::to_string(options.vocab_size)));
    }
    for (const WordCount& word : words) {
      if (word.bytes.size() < 2) continue;
      begins_.push_back(symbols_.size());
      sizes_.push_back(static_cast<std::uint32_t>(word.bytes.size()));
      counts_.push_back(word.count);
      for (const char byte : word.bytes) symbols_.push_back(id_of_byte[static_cast<unsigned char>(byte)]);
    }
  }

  LearnedBpe operator()(FunctionRef<void(std::int64_t)> progress) {
    count_pairs();
    while (std::ssize(learned_.tokens) < options_.vocab_size && !queue_.empty()) {
      const Candidate best = queue_.top();
      queue_.pop();
      PairUse& use = pairs_[key_of(best.left, best.right)];
      if (use.count != best.count) {  // it has lost some since
        if (use.count > 0) queue_.push({use.count, best.left, best.right});
        continue;
      }
      if (best.count < std::max<std::int64_t>(1, options_.min_frequency)) break;
      merge(best.left, best.right);
      progress(std::ssize(learned_.tokens));
    }
    return std::move(learned_);
  }

 private:
  static std::uint64_t key_of(TokenId left, TokenId right) {
    return std::uint64_t{static_cast<std::uint32_t>(left)} << 32 | static_cast<std::uint32_t>(right);
  }
  static std::pair<TokenId, TokenId> pair_of(std::uint64_t key) {
    return {static_cast<TokenId>(key >> 32), static_cast<TokenId>(key & 0xffffffffU)};
  }

  /// The id of a token; a new one unless its bytes have one.
  TokenId add_token(const std::string& bytes) {
    const auto [at, is_new] = ids_.try_emplace(bytes, static_cast<TokenId>(learned_.tokens.size()));
    if (is_new) learned_.tokens.push_back(bytes);
    return at->second;
  }

  void count_pairs() {
    for (std::uint32_t word = 0; word < begins_.size(); ++word) {
      const TokenId* symbols = symbols_.data() + begins_[word];
      for (std::uint32_t i = 0; i + 1 < sizes_[word]; ++i) {
        PairUse& use = pairs_[key_of(symbols[i], symbols[i + 1])];
        use.count += counts_[word];
        if (use.words.empty() || use.words.back() != word) use.words.push_back(word);
      }
    }
    for (const auto& [key, use] : pairs_) {
      const auto [left, right] = pair_of(key);
      queue_.push({use.count, left, right});
    }
  }

  void merge(TokenId left, TokenId right) {
    const std::string bytes =
        learned_.tokens[static_cast<std::size_t>(left)] + learned_.tokens[static_cast<std::size_t>(right)];
    const TokenId merged = add_token(bytes);
    learned_.merges.emplace_back(left, right);
    std::vector<std::uint32_t> words = std::move(pairs_[key_of(left, right)].words);
    std::ranges::sort(words);
    words.erase(std::unique(words.begin(), words.end()), words.end());
    grown_.clear();
    for (const std::uint32_t word : words) merge_in(word, left, right, merged);
    pairs_.erase(key_of(left, right));
    std::ranges::sort(grown_);
    grown_.erase(std::unique(grown_.begin(), grown_.end()), grown_.end());
    for (const std::uint64_t key : grown_) {
      const auto found = pairs_.find(key);
      if (found == pairs_.end() || found->second.count <= 0) continue;
      const auto [first, second] = pair_of(key);
      queue_.push({found->second.count, first, second});
    }
  }

  /// Replaces the pair in a word, from left to right.
  void merge_in(std::uint32_t word, TokenId left, TokenId right, TokenId merged) {
    TokenId* symbols = symbols_.data() + begins_[word];
    const std::uint32_t size = sizes_[word];
    std::uint32_t to = 0;
    for (std::uint32_t i = 0; i < size;) {
      if (i + 1 == size || symbols[i] != left || symbols[i + 1] != right) {
        symbols[to++] = symbols[i++];
        continue;
      }
      if (to > 0) {
        change(symbols[to - 1], left, -1, word);
        change(symbols[to - 1], merged, 1, word);
      }
      i += 2;
      if (i < size) {
        change(right, symbols[i], -1, word);
        change(merged, symbols[i], 1, word);
      }
      symbols[to++] = merged;
    }
    sizes_[word] = to;
  }

  void change(TokenId left, TokenId right, int sign, std::uint32_t word) {
    const std::uint64_t key = key_of(left, right);
    PairUse& use = pairs_[key];
    use.count += sign * counts_[word];
    if (sign < 0) return;
    if (use.words.empty() || use.words.back() != word) use.words.push_back(word);
    grown_.push_back(key);
  }

  const BpeTrainerOptions& options_;
  LearnedBpe learned_;
  std::unordered_map<std::string, TokenId> ids_;
  // Words, one after the other.
  std::vector<TokenId> symbols_;
  std::vector<std::size_t> begins_;
  std::vector<std::uint32_t> sizes_;
  std::vector<std::int64_t> counts_;
  std::unordered_map<std::uint64_t, PairUse> pairs_;
  std::priority_queue<Candidate> queue_;
  std::vector<std::uint64_t> grown_;
};

}  // namespace

LearnedBpe train_bpe(std::span<const WordCount> words, const BpeTrainerOptions& options,
                     FunctionRef<void(std::int64_t tokens)> progress) {
  return Trainer(words, options)(progress);
}

}  // namespace moh
