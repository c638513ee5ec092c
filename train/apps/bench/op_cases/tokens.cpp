#include <cmath>

#include "core/random.h"
#include "ops/activation/gelu.h"
#include "ops/activation/relu.h"
#include "ops/activation/silu.h"
#include "ops/activation/swiglu.h"
#include "ops/dropout/dropout.h"
#include "ops/elementwise/add.h"
#include "ops/elementwise/scale.h"
#include "ops/embedding/embedding.h"
#include "ops/loss/cross_entropy.h"
#include "ops/loss/smoothed_cross_entropy.h"
#include "ops/norm/layer_norm.h"
#include "ops/norm/rms_norm.h"
#include "ops/rope/norm_rope.h"
#include "ops/rope/rope.h"
#include "ops/softmax/softmax.h"
#include "train/apps/bench/op_cases.h"

namespace moh::op_cases {

namespace {

constexpr double kEps = 1e-5;
constexpr std::int64_t kVocabulary = 32768, kBytes = 256;

/// A parameter vector as wide as the rows of `like`, with its dtype and device.
Variable vector_of(double value, const Variable& like) {
  return input(full({like.dim(-1)}, value, like.dtype(), like.device()));
}

/// An op on hidden states [N, kWidth].
template <class Op>
StreamingFamily rows(std::string_view op, std::uint64_t inputs, double forward, double backward, Op run) {
  return alike(op, {kWidth}, inputs, forward, backward, run);
}

/// Heads that are rotated, by `rotate`; the backward pass reads `passes` tensors of their size and writes
/// one.
template <class Rotate>
StreamingCase rotated_heads(Placement placement, std::int64_t bytes, std::int64_t passes,
                            const Rotate& rotate) {
  constexpr std::int64_t kTokens = 2048;
  const Tensor x = random_items({kTokens, kHeads, kHeadDim}, placement, bytes);
  const RopeTable table = rope_table(kTokens, kHeadDim, 10000.0, DType::kFloat32, placement.device);
  return {to_string(x.shape()), 2 * bytes_of(x), (passes + 1) * bytes_of(x),
          [=] { return rotate(input(x), table); }};
}

StreamingCase make_rope(Placement placement, std::int64_t bytes) {
  return rotated_heads(placement, bytes, 1, [](const Variable& x, const RopeTable& t) { return rope(x, t); });
}

StreamingCase make_norm_rope(Placement placement, std::int64_t bytes) {
  return rotated_heads(placement, bytes, 2, [](const Variable& x, const RopeTable& t) {
    return norm_rope(x, vector_of(1.0, x), kEps, t);
  });
}

/// Random ids floor(bound u^power) with u uniform in [0, 1): the larger the power, the more frequent are low
/// ids. Id 0 has the share bound^(-1 / power).
Tensor random_ids(std::int64_t count, std::int64_t bound, Device device, double power = 1.0) {
  const Tensor ids = empty({count}, DType::kInt64);
  for (std::int64_t i = 0; i < count; ++i) {
    const double u = random_uniform({1, 3}, static_cast<std::uint64_t>(i));
    ids.data<std::int64_t>()[i] = static_cast<std::int64_t>(static_cast<double>(bound) * std::pow(u, power));
  }
  return ids.to(device);
}

/// The backward pass reads the logits and overwrites them with their gradient.
StreamingFamily loss_of(std::string_view op, Variable (*loss)(const Variable& logits, const Tensor& ids)) {
  return {op, [=](Placement placement, std::int64_t bytes) {
            const Tensor logits = random_items({kVocabulary}, placement, bytes);
            const Tensor targets = random_ids(logits.dim(0), kVocabulary, placement.device);
            return StreamingCase(to_string(logits.shape()), bytes_of(logits), 2 * bytes_of(logits),
                                 [=] { return loss(input(logits), targets); });
          }};
}

/// Forward reads and writes the rows; backward reads their gradients and writes the table's. `power`: see
/// random_ids().
StreamingFamily embedding_of(std::string_view op, std::int64_t vocabulary, double power) {
  return {op, [=](Placement placement, std::int64_t bytes) {
            const Tensor table = random_tensor({vocabulary, kWidth}, placement, 1);
            const std::int64_t tokens = count_for(placement.dtype, bytes, kWidth);
            const Tensor ids = random_ids(tokens, vocabulary, placement.device, power);
            const double rows =
                bytes_of(table) * static_cast<double>(tokens) / static_cast<double>(vocabulary);
            return StreamingCase(to_string(Shape{tokens, kWidth}), 2 * rows, rows + bytes_of(table),
                                 [=] { return embedding(input(table), ids); });
          }};
}

using Inputs = std::vector<Variable>;

}  // namespace

std::vector<StreamingFamily> of_tokens() {
  return {
      rows("rms_norm", 1, 2, 3,
           [](const Inputs& in) { return rms_norm(in[0], vector_of(1.0, in[0]), kEps); }),
      // Backward reads the sum and the gradients of both results; both inputs get the same gradient.
      rows("add_rms_norm", 2, 4, 4,
           [](const Inputs& in) {
             const AddedAndNormed y = add_rms_norm(in[0], in[1], vector_of(1.0, in[0]), kEps);
             return std::vector{y.sum, y.normed};
           }),
      rows("layer_norm", 1, 2, 3,
           [](const Inputs& in) {
             return layer_norm(in[0], vector_of(1.0, in[0]), vector_of(0.0, in[0]), kEps);
           }),
      rows("add_layer_norm", 2, 4, 4,
           [](const Inputs& in) {
             const Variable weight = vector_of(1.0, in[0]), bias = vector_of(0.0, in[0]);
             const AddedAndNormed y = add_layer_norm(in[0], {in[1]}, weight, bias, kEps);
             return std::vector{y.sum, y.normed};
           }),
      // The result, and its gradient, are half as wide.
      rows("swiglu", 1, 1.5, 2.5, [](const Inputs& in) { return swiglu(in[0]); }),
      rows("relu", 1, 2, 3, [](const Inputs& in) { return relu(in[0]); }),
      rows("silu", 1, 2, 3, [](const Inputs& in) { return silu(in[0]); }),
      rows("gelu", 1, 2, 3, [](const Inputs& in) { return gelu(in[0], GeluForm::kTanh); }),
      {"rope", make_rope},
      {"norm_rope", make_norm_rope},
      // The inputs' gradients are that of the output, without a copy.
      rows("add", 2, 3, 0, [](const Inputs& in) { return add(in[0], in[1]); }),
      rows("scale", 1, 2, 2, [](const Inputs& in) { return scale(in[0], 0.5); }),
      rows("dropout", 1, 2, 2,
           [](const Inputs& in) {
             return dropout(in[0], 0.1, {1, 2});
           }),
      rows("softmax", 1, 2, 3, [](const Inputs& in) { return softmax(in[0]); }),
      loss_of("cross_entropy", [](const Variable& x, const Tensor& ids) { return cross_entropy(x, ids); }),
      loss_of("smoothed_cross_entropy",
              [](const Variable& x, const Tensor& ids) {
                return smoothed_cross_entropy(x, ids, {.smoothing = 0.1}).loss;
              }),
      embedding_of("embedding", kVocabulary, 1.0),
      embedding_of("embedding_of_text", kBytes, 3.0),  // byte 0 is 16% of the text
  };
}

}  // namespace moh::op_cases
