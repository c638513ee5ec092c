#pragma once

#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "train/apps/serve/prefix_page.h"
#include "train/apps/serve/server_metrics.h"

namespace moh {

/// Number of tokens that both texts begin with.
std::int64_t common_beginning(std::span<const TokenId> a, std::span<const TokenId> b);

/// Keys and values of prompts by their beginnings, so that prompts which begin alike are computed from where
/// they differ (as RadixAttention does: Zheng et al., NeurIPS 2024). Pages of up to kPageTokens tokens make a
/// tree; a page follows its parent after any number of the parent's tokens, so that prompts share what they
/// have in common to the token. Tokens are compared, never hashes of them. What was used least recently goes
/// first. For one thread.
class PrefixCache {
 public:
  static constexpr std::int64_t kPageTokens = 64;

  /// Holds at most `most_bytes`; 0: holds nothing. `metrics` must outlive the cache.
  PrefixCache(std::int64_t most_bytes, ServerMetrics& metrics) : most_bytes_(most_bytes), metrics_(metrics) {}
  ~PrefixCache() { clear(); }
  PrefixCache(const PrefixCache&) = delete;
  PrefixCache& operator=(const PrefixCache&) = delete;

  bool on() const { return most_bytes_ > 0; }

  /// The number of tokens that are held of a prompt's beginning; with `top`, of those with scores with so
  /// many alternatives.
  std::int64_t held(std::span<const TokenId> prompt, std::optional<std::int64_t> top) const;
  /// Gives a cache of one text, which may have some of them, the keys and values of the first tokens of a
  /// prompt, `most` or fewer, as many as are held; others are taken from it. With `top`, as many as have
  /// scores with so many alternatives, and `scores` gets those and that of the token after them. Returns the
  /// number of tokens.
  std::int64_t begin_with(std::span<const TokenId> prompt, std::int64_t most, std::optional<std::int64_t> top,
                          KvCache& cache, std::vector<TokenLogprobs>& scores);
  /// Holds tokens [begin, end) of a prompt, those that `computed` took last (KvCache::keep_last), unless the
  /// tokens before them are no longer held or too little memory is; and with `top` the scores of tokens
  /// [0, end), with so many alternatives.
  void add(std::span<const TokenId> prompt, std::int64_t begin, std::int64_t end, const KvCache& computed,
           std::optional<std::int64_t> top, std::span<const TokenLogprobs> scores);
  /// Holds nothing any more.
  void clear();

 private:
  /// A page, the number of its parent's tokens before it, and the pages that follow it, by the number of its
  /// tokens before them and their first token.
  struct Node {
    Node* parent = nullptr;
    std::int64_t after = 0;
    PrefixPage page = {};
    std::int64_t bytes = 0;
    std::int64_t turn = 0;  // when it was used last
    std::map<std::pair<std::int64_t, TokenId>, std::unique_ptr<Node>> children = {};
    std::list<Node*>::iterator age = {};
  };
  /// A node without its page, and its entries among its parent's children and the ages.
  static constexpr std::int64_t kBytesBesidePage = sizeof(Node) - sizeof(PrefixPage) + 96;

  struct Step {
    Node* node;
    std::int64_t tokens;  // of its page
  };
  /// The pages that a prompt begins with.
  struct Path {
    std::vector<Step> steps;
    std::int64_t tokens = 0;
  };

  Path path_of(std::span<const TokenId> prompt) const;
  static std::int64_t held_of(const Path& path, std::optional<std::int64_t> top);
  void touch(const Path& path);
  Node* insert(const Path& path, std::unique_ptr<Node> node);
  bool make_room(std::int64_t bytes);
  void evict(Node* node);
  void keep_scores(const Path& path, std::int64_t top, std::span<const TokenLogprobs> scores);
  void account(Node& node);

  const std::int64_t most_bytes_;
  ServerMetrics& metrics_;
  const std::unique_ptr<Node> root_ = std::make_unique<Node>();
  std::list<Node*> ages_;  // what was used last comes first, and a page before those that follow it
  std::int64_t bytes_ = 0, turn_ = 0;
};

}  // namespace moh
