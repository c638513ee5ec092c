#include "train/heads/analyze/head_similarity.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "core/error.h"
#include "core/function_ref.h"
#include "core/parallel.h"
#include "ops/linalg/matmul.h"

namespace moh {

namespace {

constexpr std::int64_t kBlockElements = std::int64_t{1} << 23;  // 32 MB

/// Tokens [begin, end) of a sequence.
struct Block {
  std::int64_t begin = 0, end = 0;
  std::int64_t size() const { return end - begin; }
};

/// Visits a sequence in blocks of tokens, of about kBlockElements elements at `elements_per_token`.
void for_each_block(std::int64_t tokens, std::int64_t elements_per_token, FunctionRef<void(Block)> visit) {
  const std::int64_t step = std::clamp<std::int64_t>(kBlockElements / elements_per_token, 1, tokens);
  for (std::int64_t t = 0; t < tokens; t += step) visit({t, std::min(t + step, tokens)});
}

/// For all pairs of heads i >= j: adds value(t, i, j) over the tokens of a block that select both. Values
/// that are not finite are left out, and their tokens not counted.
template <class Value>
void add_pairs(HeadPairs& pairs, const SequenceTrace& trace, Block block, const Value& value) {
  const std::int64_t heads = pairs.heads();
  parallel_for(heads * heads, 1, [&](std::int64_t pair, std::int64_t) {
    const std::int64_t i = pair / heads, j = pair % heads;
    if (j > i) return;
    double sum = 0;
    std::int64_t count = 0;
    for (std::int64_t t = block.begin; t < block.end; ++t) {
      const std::uint8_t* used = trace.selected.data() + t * heads;
      if (used[i] == 0 || used[j] == 0) continue;
      const double found = value(t, i, j);
      if (!std::isfinite(found)) continue;
      sum += found;
      ++count;
    }
    pairs.add(i, j, sum, count);
  });
}

/// Sum of f(a[k], b[k]) with a fixed order of additions that the compiler can vectorise.
template <class F>
double lane_sum(const float* a, const float* b, std::int64_t count, const F& f) {
  constexpr std::int64_t kLanes = 8;
  std::array<float, kLanes> lanes{};
  std::int64_t k = 0;
  for (; k + kLanes <= count; k += kLanes) {
    for (std::int64_t l = 0; l < kLanes; ++l) lanes[static_cast<std::size_t>(l)] += f(a[k + l], b[k + l]);
  }
  double sum = 0;
  for (const float lane : lanes) sum += lane;
  for (; k < count; ++k) sum += f(a[k], b[k]);
  return sum;
}

/// In place, over `count` scores times `scale`.
void softmax(float* scores, std::int64_t count, float scale) {
  const float largest = *std::max_element(scores, scores + count);
  double sum = 0;
  for (std::int64_t s = 0; s < count; ++s) {
    scores[s] = std::exp(scale * (scores[s] - largest));
    sum += scores[s];
  }
  const auto factor = static_cast<float>(1 / sum);
  for (std::int64_t s = 0; s < count; ++s) scores[s] *= factor;
}

/// The keys that token t attends to.
Block keys_of_token(const SequenceTrace& trace, std::int64_t t) {
  if (!trace.causal) return {0, trace.k.dim(0)};
  Block keys{0, t + 1};
  if (trace.window > 0) keys.begin = std::max<std::int64_t>(0, t + 1 - trace.window);
  if (trace.document_starts.defined())
    keys.begin = std::max<std::int64_t>(keys.begin, trace.document_starts.data<std::int32_t>()[t]);
  return keys;
}

/// The end of the keys that the tokens of a block attend to.
std::int64_t keys_of_block(const SequenceTrace& trace, Block block) {
  return keys_of_token(trace, block.end - 1).end;
}

/// Attention probabilities of a block of tokens: [block, H, S] with S = keys_of_block. Elements outside of
/// keys_of_token are undefined.
Tensor attention_patterns(const SequenceTrace& trace, Block block) {
  const std::int64_t heads = trace.q.dim(1), kv_heads = trace.k.dim(1), width = trace.q.dim(2),
                     keys = keys_of_block(trace, block);
  const Tensor q = trace.q.slice(block.begin, block.end).reshape({block.size(), heads * width});
  const Tensor k = trace.k.slice(0, keys).reshape({keys, kv_heads * width});
  Tensor p = empty({block.size(), heads * keys}, DType::kFloat32);
  for (std::int64_t h = 0; h < heads; ++h) {
    const std::int64_t kv_head = h / (heads / kv_heads);
    matmul_into(columns_of(p, h * keys, keys), columns_of(q, h * width, width),
                columns_of(k, kv_head * width, width, /*is_transposed=*/true));
  }
  const auto scale = static_cast<float>(1 / std::sqrt(static_cast<double>(width)));
  parallel_for(block.size() * heads, heads, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row) {
      const Block seen = keys_of_token(trace, block.begin + row / heads);
      softmax(p.data<float>() + row * keys + seen.begin, seen.size(), scale);
    }
  });
  return p;
}

void add_patterns(HeadPairs& pairs, const SequenceTrace& trace, Block block) {
  const bool are_given = trace.patterns.defined();
  const Tensor patterns =
      are_given ? trace.patterns.slice(block.begin, block.end) : attention_patterns(trace, block);
  const std::int64_t heads = pairs.heads(), keys = patterns.numel() / (block.size() * heads);
  add_pairs(pairs, trace, block, [&](std::int64_t t, std::int64_t i, std::int64_t j) {
    const Block seen = are_given ? Block{0, keys} : keys_of_token(trace, t);
    if (seen.size() == 1) return std::numeric_limits<double>::quiet_NaN();  // left out
    const float* rows = patterns.data<float>() + (t - block.begin) * heads * keys + seen.begin;
    const auto distance = [](float a, float b) { return std::abs(a - b); };
    return 1 - lane_sum(rows + i * keys, rows + j * keys, seen.size(), distance) / 2;
  });
}

/// Adds the cosine similarities of the heads' rows of features [block, H, w].
void add_cosines(HeadPairs& pairs, const SequenceTrace& trace, const Tensor& features, Block block) {
  const std::int64_t heads = pairs.heads(), width = features.dim(2);
  const auto row = [&](std::int64_t t, std::int64_t h) {
    return features.data<float>() + ((t - block.begin) * heads + h) * width;
  };
  const auto product = [&](const float* a, const float* b) {
    return lane_sum(a, b, width, [](float x, float y) { return x * y; });
  };
  std::vector<double> lengths(static_cast<std::size_t>(block.size() * heads));
  parallel_for(block.size() * heads, heads, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      const float* x = features.data<float>() + i * width;
      lengths[static_cast<std::size_t>(i)] = std::sqrt(product(x, x));
    }
  });
  add_pairs(pairs, trace, block, [&](std::int64_t t, std::int64_t i, std::int64_t j) {
    const double* length = lengths.data() + (t - block.begin) * heads;
    return product(row(t, i), row(t, j)) / (length[i] * length[j]);  // NaN if a head's row is all zeros
  });
}

/// The contribution of each head to the layer's output, for a block of tokens: [block, H, D].
Tensor contributions_of(const SequenceTrace& trace, Block block) {
  const std::int64_t heads = trace.heads.dim(1), width = trace.heads.dim(2), out = trace.output.dim(0);
  const Tensor z = trace.heads.slice(block.begin, block.end).reshape({block.size(), heads * width});
  const Tensor y = empty({block.size(), heads * out}, DType::kFloat32);
  for (std::int64_t h = 0; h < heads; ++h) {
    matmul_into(columns_of(y, h * out, out), columns_of(z, h * width, width),
                columns_of(trace.output, h * width, width, /*is_transposed=*/true));
  }
  return y.reshape({block.size(), heads, out});
}

}  // namespace

HeadPairs::HeadPairs(std::int64_t heads)
    : heads_(heads),
      sums_(static_cast<std::size_t>(heads * heads)),
      counts_(static_cast<std::size_t>(heads * heads)) {}

void HeadPairs::add(std::int64_t i, std::int64_t j, double sum, std::int64_t count) {
  sums_[index(i, j)] += sum;
  counts_[index(i, j)] += count;
}

void HeadPairs::add_of_all(Communicator& processes) {
  processes.sum(std::span(sums_));
  processes.sum(std::span(counts_));
}

double HeadPairs::mean(std::int64_t i, std::int64_t j) const {
  const std::int64_t count = counts_[index(i, j)];
  if (count == 0) return std::numeric_limits<double>::quiet_NaN();
  return sums_[index(i, j)] / static_cast<double>(count);
}

double HeadPairs::mean(const HeadGroup& a, const HeadGroup& b) const {
  double sum = 0;
  std::int64_t pairs = 0;
  for (const std::int64_t i : a.heads) {
    for (const std::int64_t j : b.heads) {
      const double value = mean(i, j);
      if (i == j || std::isnan(value)) continue;
      sum += value;
      ++pairs;
    }
  }
  return pairs > 0 ? sum / static_cast<double>(pairs) : std::numeric_limits<double>::quiet_NaN();
}

void HeadSimilarity::add_of_all(Communicator& processes) {
  for (HeadPairs* pairs : {&attention_, &outputs_, &contributions_}) pairs->add_of_all(processes);
}

void HeadSimilarity::add(const SequenceTrace& trace) {
  const std::int64_t tokens = trace.heads.dim(0), heads = trace.heads.dim(1);
  MOH_CHECK(static_cast<std::int64_t>(trace.selected.size()) == tokens * heads,
            "`selected` has an element for every token and head");
  const std::int64_t keys = trace.k.defined() ? trace.k.dim(0) : tokens;
  for_each_block(tokens, heads * keys, [&](Block block) { add_patterns(attention_, trace, block); });
  add_cosines(outputs_, trace, trace.heads, {0, tokens});
  if (!trace.output.defined()) return;
  for_each_block(tokens, heads * trace.output.dim(0), [&](Block block) {
    add_cosines(contributions_, trace, contributions_of(trace, block), block);
  });
}

}  // namespace moh
