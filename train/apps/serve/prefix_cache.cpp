#include "train/apps/serve/prefix_cache.h"

#include <algorithm>

namespace moh {

namespace {

std::span<const TokenId> part_of(std::span<const TokenId> tokens, std::int64_t begin, std::int64_t count) {
  return tokens.subspan(static_cast<std::size_t>(begin), static_cast<std::size_t>(count));
}

}  // namespace

std::int64_t common_beginning(std::span<const TokenId> a, std::span<const TokenId> b) {
  const std::size_t most = std::min(a.size(), b.size());
  std::size_t count = 0;
  while (count < most && a[count] == b[count]) ++count;
  return static_cast<std::int64_t>(count);
}

PrefixCache::Path PrefixCache::path_of(std::span<const TokenId> prompt) const {
  Path path;
  Node* node = root_.get();
  std::int64_t used = 0;
  while (path.tokens < std::ssize(prompt)) {
    const auto found = node->children.find({used, prompt[static_cast<std::size_t>(path.tokens)]});
    if (found == node->children.end()) break;
    node = found->second.get();
    used = common_beginning(node->page.tokens(), prompt.subspan(static_cast<std::size_t>(path.tokens)));
    path.steps.push_back({node, used});
    path.tokens += used;
  }
  return path;
}

/// From its end on, so that no page gets older than one that follows it.
void PrefixCache::touch(const Path& path) {
  ++turn_;
  for (std::size_t i = path.steps.size(); i-- > 0;) {
    Node* const node = path.steps[i].node;
    node->turn = turn_;
    ages_.splice(ages_.begin(), ages_, node->age);
  }
}

std::int64_t PrefixCache::held_of(const Path& path, std::optional<std::int64_t> top) {
  std::int64_t held = 0;
  for (const auto& [node, tokens] : path.steps) {
    const std::int64_t usable = top ? std::min(tokens, node->page.scored(*top)) : tokens;
    held += usable;
    if (usable < tokens) break;
  }
  return held;
}

std::int64_t PrefixCache::held(std::span<const TokenId> prompt, std::optional<std::int64_t> top) const {
  return held_of(path_of(prompt), top);
}

std::int64_t PrefixCache::begin_with(std::span<const TokenId> prompt, std::int64_t most,
                                     std::optional<std::int64_t> top, KvCache& cache,
                                     std::vector<TokenLogprobs>& scores) {
  const Path path = path_of(prompt);
  touch(path);
  const std::int64_t held = held_of(path, top);
  const std::int64_t taken = std::max<std::int64_t>(0, std::min(top ? held - 1 : held, most));
  if (cache.length() > taken) cache.rewind(taken);
  std::int64_t at = 0;
  for (const auto& [node, tokens] : path.steps) {
    const std::int64_t first = std::max<std::int64_t>(cache.length() - at, 0);
    if (const std::int64_t end = std::min(taken - at, tokens); first < end)
      node->page.append_to(cache, first, end);
    const std::int64_t scored = top && taken > 0 ? std::min(taken + 1 - at, tokens) : 0;
    for (std::int64_t i = 0; i < scored; ++i) scores.push_back(node->page.score_of(i, *top));
    at += tokens;
  }
  return taken;
}

void PrefixCache::add(std::span<const TokenId> prompt, std::int64_t begin, std::int64_t end,
                      const KvCache& computed, std::optional<std::int64_t> top,
                      std::span<const TokenLogprobs> scores) {
  const std::span<const TokenId> tokens = part_of(prompt, 0, end);
  Path path = path_of(tokens);
  if (path.tokens < begin) return;
  touch(path);
  while (path.tokens < end) {
    const std::int64_t at = path.tokens, count = std::min(kPageTokens, end - at);
    if (!make_room(PrefixPage::bytes_of(count, computed) + kBytesBesidePage)) break;
    auto node = std::make_unique<Node>();
    node->page = PrefixPage(part_of(tokens, at, count), computed, at - begin);
    path.steps.push_back({insert(path, std::move(node)), count});
    path.tokens += count;
  }
  if (top) keep_scores(path, *top, scores);
}

PrefixCache::Node* PrefixCache::insert(const Path& path, std::unique_ptr<Node> node) {
  Node* const parent = path.steps.empty() ? root_.get() : path.steps.back().node;
  const std::int64_t after = path.steps.empty() ? 0 : path.steps.back().tokens;
  Node* const added = node.get();
  added->parent = parent;
  added->after = after;
  added->turn = turn_;
  parent->children.emplace(std::pair(after, added->page.tokens().front()), std::move(node));
  added->age = ages_.insert(parent == root_.get() ? ages_.begin() : std::next(parent->age), added);
  account(*added);
  return added;
}

void PrefixCache::keep_scores(const Path& path, std::int64_t top, std::span<const TokenLogprobs> scores) {
  std::int64_t at = 0;
  for (const auto& [node, tokens] : path.steps) {
    node->page.keep_scores(scores.subspan(static_cast<std::size_t>(at), static_cast<std::size_t>(tokens)),
                           top);
    account(*node);
    at += tokens;
  }
  while (bytes_ > most_bytes_ && !ages_.empty()) evict(ages_.back());
}

/// Updates the bytes of a page, which may have grown.
void PrefixCache::account(Node& node) {
  const std::int64_t bytes = node.page.bytes() + kBytesBesidePage;
  bytes_ += bytes - node.bytes;
  node.bytes = bytes;
  metrics_.prefix_bytes = bytes_;
}

/// Whether there is room for a page that follows those that are used now. The page that was used least
/// recently has none after it, which would be older.
bool PrefixCache::make_room(std::int64_t bytes) {
  while (bytes_ + bytes > most_bytes_) {
    if (ages_.empty() || ages_.back()->turn == turn_) return false;
    evict(ages_.back());
  }
  return true;
}

void PrefixCache::evict(Node* node) {
  bytes_ -= node->bytes;
  metrics_.prefix_bytes = bytes_;
  ages_.erase(node->age);
  node->parent->children.erase({node->after, node->page.tokens().front()});
}

/// Page by page: to destroy a tree from its root would need the stack for its depth. A page that an insertion
/// left without an age, for lack of memory, goes last.
void PrefixCache::clear() {
  while (!ages_.empty()) evict(ages_.back());
  root_->children.clear();
}

}  // namespace moh
