#include "train/apps/serve/prefix_page.h"

#include <algorithm>

#include "core/error.h"

namespace moh {

PrefixPage::PrefixPage(std::span<const TokenId> tokens, const KvCache& computed, std::int64_t begin)
    : tokens_(tokens.begin(), tokens.end()) {
  const std::int64_t end = begin + std::ssize(tokens);
  for (const LayerCache& layer : computed.layers) {
    const KvRows& rows = layer.last();
    layers_.push_back(
        {rows.k.select(0).slice(begin, end).clone(), rows.v.select(0).slice(begin, end).clone()});
  }
}

void PrefixPage::append_to(KvCache& cache, std::int64_t begin, std::int64_t end) const {
  MOH_CHECK(cache.layers.size() == layers_.size() && end <= std::ssize(tokens_), "a page of this model");
  const auto some = [&](const Tensor& rows) {
    return rows.slice(begin, end).reshape({1, end - begin, rows.dim(1), rows.dim(2)});
  };
  for (std::size_t i = 0; i < layers_.size(); ++i)
    cache.layers[i].append(some(layers_[i].k), some(layers_[i].v));
}

std::int64_t PrefixPage::scored(std::int64_t top) const {
  return std::ranges::find_if(tops_, [top](std::int64_t made_with) { return made_with < top; }) -
         tops_.begin();
}

void PrefixPage::keep_scores(std::span<const TokenLogprobs> scores, std::int64_t top) {
  MOH_CHECK(scores.size() <= tokens_.size(), "scores of the page's tokens");
  for (std::size_t i = 0; i < scores.size(); ++i) {
    if (i == scores_.size()) {
      scores_.push_back(scores[i]);
      tops_.push_back(top);
    } else if (tops_[i] < top) {
      scores_[i] = scores[i];
      tops_[i] = top;
    }
  }
}

TokenLogprobs PrefixPage::score_of(std::int64_t token, std::int64_t top) const {
  TokenLogprobs score = scores_[static_cast<std::size_t>(token)];
  if (std::ssize(score.top) > top) score.top.resize(static_cast<std::size_t>(top));
  return score;
}

std::int64_t PrefixPage::bytes() const {
  std::size_t bytes = sizeof *this + tokens_.size() * sizeof(TokenId) + layers_.size() * sizeof(KvRows) +
                      scores_.size() * sizeof scores_[0] + tops_.size() * sizeof tops_[0];
  for (const TokenLogprobs& score : scores_) bytes += score.top.size() * sizeof score.top[0];
  for (const KvRows& rows : layers_) bytes += rows.k.bytes() + rows.v.bytes();
  return static_cast<std::int64_t>(bytes);
}

std::int64_t PrefixPage::bytes_of(std::int64_t tokens, const KvCache& like) {
  std::size_t bytes_of_token = sizeof(TokenId);
  for (const LayerCache& layer : like.layers) {
    const Tensor& k = layer.k();
    bytes_of_token += 2 * static_cast<std::size_t>(k.dim(1) * k.dim(3)) * dtype_size(k.dtype());
  }
  return static_cast<std::int64_t>(sizeof(PrefixPage) + like.layers.size() * sizeof(KvRows) +
                                   static_cast<std::size_t>(tokens) * bytes_of_token);
}

}  // namespace moh
