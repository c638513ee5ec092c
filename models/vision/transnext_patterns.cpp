#include "models/vision/transnext_patterns.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <span>
#include <vector>

#include "core/parallel.h"

namespace moh {

namespace {

Tensor on_host(const Tensor& tensor) {
  return tensor.to(kCpu).to(DType::kFloat32);
}

/// The row of head h of token t of [T, heads, d].
std::span<const float> row_of(const Tensor& x, std::int64_t t, std::int64_t h) {
  const std::int64_t d = x.dim(2);
  return {x.data<float>() + (t * x.dim(1) + h) * d, static_cast<std::size_t>(d)};
}

float dot(std::span<const float> a, std::span<const float> b) {
  float sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
  return sum;
}

/// max(|x|, 1e-12), which divides a vector of length 1.
float length_of(std::span<const float> x) {
  return std::max(std::sqrt(dot(x, x)), 1e-12F);
}

/// Softmax in place over the largest `percent` of the logits that are finite, with all that equal the last.
void softmax_of_kept(std::span<float> logits, std::int64_t visible, std::int64_t percent) {
  if (percent < 100) {
    const auto kept = static_cast<std::ptrdiff_t>((visible * percent + 99) / 100);
    std::vector<float> sorted(logits.begin(), logits.end());
    std::ranges::nth_element(sorted, sorted.begin() + (kept - 1), std::greater<>());
    const float least = sorted[static_cast<std::size_t>(kept - 1)];
    for (float& logit : logits) {
      if (logit < least) logit = -std::numeric_limits<float>::infinity();
    }
  }
  const float top = *std::ranges::max_element(logits);
  float sum = 0;
  for (float& each : logits) sum += each = std::exp(each - top);
  for (float& each : logits) each /= sum;
}

/// The tensors of one image, in float32 on the CPU.
struct Image {
  Tensor q, local, pooled, embedding, temperature, position_bias, window_bias;
  TokenGrid grid;
  std::int64_t first_key, neighbours, kept_percent;

  /// The neighbour number j of token t; -1 outside of the image.
  std::int64_t neighbour(std::int64_t t, std::int64_t j) const {
    const std::int64_t half = grid.window / 2, y = t / grid.width + j / grid.window - half,
                       x = t % grid.width + j % grid.window - half;
    const bool inside = y >= 0 && y < grid.height && x >= 0 && x < grid.width;
    return inside ? y * grid.width + x : -1;
  }

  /// Writes the probabilities of head h of token t.
  void write(std::int64_t t, std::int64_t h, std::span<float> to) const {
    const std::span<const float> own = row_of(q, t, h), e = row_of(embedding, h, 0);
    const std::int64_t keys = pooled.dim(0);
    std::int64_t visible = keys;
    for (std::int64_t j = 0; j < neighbours; ++j) visible += neighbour(t, j) >= 0;
    const float factor =
        std::log1p(std::exp(temperature.data<float>()[h])) * std::log(static_cast<float>(visible));
    std::vector<float> query(own.size());
    for (std::size_t i = 0; i < own.size(); ++i) query[i] = factor * (own[i] / length_of(own) + e[i]);
    const auto score = [&](std::span<const float> key) { return dot(query, key) / length_of(key); };
    for (std::int64_t j = 0; j < neighbours; ++j) {
      const std::int64_t other = neighbour(t, j);
      to[static_cast<std::size_t>(j)] =
          other < 0 ? -std::numeric_limits<float>::infinity()
                    : score(row_of(local, other, h)) + window_bias.data<float>()[h * neighbours + j];
    }
    const float* bias = position_bias.data<float>() + (h * q.dim(0) + t) * keys;
    for (std::int64_t m = 0; m < keys; ++m)
      to[static_cast<std::size_t>(neighbours + m)] = score(row_of(pooled, m, first_key + h)) + bias[m];
    softmax_of_kept(to, visible, kept_percent);
  }
};

}  // namespace

Tensor AttentionPatterns::of_image(std::int64_t image) const {
  const bool has_window = local.defined();
  const Image of{on_host(q.select(image)),
                 has_window ? on_host(local.select(image)) : Tensor(),
                 on_host(pooled.select(image)),
                 on_host(query_embedding),
                 on_host(temperature),
                 on_host(position_bias),
                 has_window ? on_host(window_bias) : Tensor(),
                 grid,
                 first_key,
                 has_window ? grid.window * grid.window : 0,
                 kept_percent};
  const std::int64_t tokens = of.q.dim(0), heads = of.position_bias.dim(0),
                     keys = of.neighbours + of.pooled.dim(0);
  Tensor p = empty({tokens, heads, keys}, DType::kFloat32);
  parallel_for(tokens * heads, heads, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row)
      of.write(row / heads, row % heads, {p.data<float>() + row * keys, static_cast<std::size_t>(keys)});
  });
  return p;
}

}  // namespace moh
