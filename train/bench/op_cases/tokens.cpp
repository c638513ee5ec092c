#include <cmath>

#include "core/random.h"
#include "ops/activation/gelu.h"
#include "ops/activation/silu.h"
#include "ops/activation/swiglu.h"
#include "ops/dropout/dropout.h"
#include "ops/elementwise/add.h"
#include "ops/elementwise/scale.h"
#include "ops/embedding/embedding.h"
#include "ops/loss/cross_entropy.h"
#include "ops/norm/layer_norm.h"
#include "ops/norm/rms_norm.h"
#include "ops/rope/rope.h"
#include "ops/softmax/softmax.h"
#include "train/bench/op_cases/families.h"
#include "train/bench/op_cases/parts.h"

namespace moh::op_cases {

namespace {

constexpr double kEps = 1e-5;
constexpr std::int64_t kVocabulary = 32768, kBytes = 256;

/// A vector of parameters that fits beside any of the ops here, of its input's dtype and device.
Variable vector_of(double value, const Tensor& like) {
  return input(full({kWidth}, value, like.dtype(), like.device()));
}

StreamingCase make_add(Placement placement, std::int64_t bytes) {
  const Tensor a = random_tensor(rows_for(placement.dtype, bytes, kWidth), placement, 1);
  const Tensor b = random_tensor(a.shape(), placement, 2);
  // Backward hands the gradient on as it is.
  return {.shape = to_string(a.shape()), .forward_bytes = 3 * bytes_of(a), .forward = [=] {
            return std::vector{add(input(a), input(b))};
          }};
}

StreamingCase make_add_rms_norm(Placement placement, std::int64_t bytes) {
  const Tensor x = random_tensor(rows_for(placement.dtype, bytes, kWidth), placement, 1);
  const Tensor branch = random_tensor(x.shape(), placement, 2);
  const double one = bytes_of(x);
  // Backward reads the sum and the gradients of both results; x and branch have one gradient.
  return {.shape = to_string(x.shape()),
          .forward_bytes = 4 * one,
          .backward_bytes = 4 * one,
          .forward =
              [=] {
                const AddedAndNormed y = add_rms_norm(input(x), input(branch), vector_of(1.0, x), kEps);
                return std::vector{y.sum, y.normed};
              },
          .seeds = {random_tensor(x.shape(), placement, 3), random_tensor(x.shape(), placement, 4)}};
}

StreamingCase make_swiglu(Placement placement, std::int64_t bytes) {
  const Tensor gate = random_tensor(rows_for(placement.dtype, bytes, kWidth), placement, 1);
  const Tensor up = random_tensor(gate.shape(), placement, 2);
  const double one = bytes_of(gate);
  return {.shape = to_string(gate.shape()),
          .forward_bytes = 3 * one,
          .backward_bytes = 5 * one,
          .forward = [=] { return std::vector{swiglu(input(gate), input(up))}; },
          .seeds = {random_tensor(gate.shape(), placement, 3)}};
}

StreamingCase make_rope(Placement placement, std::int64_t bytes) {
  constexpr std::int64_t kTokens = 2048;
  const std::int64_t batch = count_for(placement.dtype, bytes, kTokens * kHeads * kHeadDim);
  const Tensor x = random_tensor({batch, kTokens, kHeads, kHeadDim}, placement, 1);
  const RopeTable table = rope_table(kTokens, kHeadDim, 10000.0, DType::kFloat32, placement.device);
  const double moved = 2 * bytes_of(x);
  return {.shape = to_string(x.shape()),
          .forward_bytes = moved,
          .backward_bytes = moved,
          .forward = [=] { return std::vector{rope(input(x), table)}; },
          .seeds = {random_tensor(x.shape(), placement, 2)}};
}

/// Ids below `bound`, evenly, or, with a power above 1, the lower ones more often: the first of 256 has
/// 256^(-1 / power) of the places.
Tensor random_ids(std::int64_t count, std::int64_t bound, Device device, double power = 1.0) {
  const Tensor ids = empty({count}, DType::kInt64);
  for (std::int64_t i = 0; i < count; ++i) {
    const double u = random_uniform({1, 3}, static_cast<std::uint64_t>(i));
    ids.data<std::int64_t>()[i] = static_cast<std::int64_t>(static_cast<double>(bound) * std::pow(u, power));
  }
  return ids.to(device);
}

StreamingCase make_cross_entropy(Placement placement, std::int64_t bytes) {
  const Tensor logits = random_tensor(rows_for(placement.dtype, bytes, kVocabulary), placement, 1);
  const Tensor targets = random_ids(logits.dim(0), kVocabulary, placement.device);
  const double one = bytes_of(logits);
  // The backward pass reads the logits and writes their gradient over them.
  return {.shape = to_string(logits.shape()),
          .forward_bytes = one,
          .backward_bytes = 2 * one,
          .forward = [=] { return std::vector{cross_entropy(input(logits), targets)}; },
          .seeds = {full({}, 1.0, DType::kFloat32, placement.device)}};
}

/// Rows are read and written; backward reads their gradients and writes one of the table's size.
StreamingCase embedding_of(std::int64_t vocabulary, double power, Placement placement, std::int64_t bytes) {
  const Tensor table = random_tensor({vocabulary, kWidth}, placement, 1);
  const std::int64_t tokens = count_for(placement.dtype, bytes, kWidth);
  const Tensor ids = random_ids(tokens, vocabulary, placement.device, power);
  const Tensor dy = random_tensor({tokens, kWidth}, placement, 2);
  return {.shape = to_string(dy.shape()),
          .forward_bytes = 2 * bytes_of(dy),
          .backward_bytes = bytes_of(dy) + bytes_of(table),
          .forward = [=] { return std::vector{embedding(input(table), ids)}; },
          .seeds = {dy}};
}

StreamingCase make_embedding(Placement placement, std::int64_t bytes) {
  return embedding_of(kVocabulary, 1.0, placement, bytes);
}

StreamingCase make_embedding_of_text(Placement placement, std::int64_t bytes) {
  return embedding_of(kBytes, 3.0, placement, bytes);  // the commonest byte has 16% of the places
}

}  // namespace

std::vector<StreamingFamily> of_tokens() {
  return {
      unary("rms_norm", kWidth, 3,
            [](const Variable& x) { return rms_norm(x, vector_of(1.0, x.value()), kEps); }),
      family("add_rms_norm", make_add_rms_norm),
      unary("layer_norm", kWidth, 3,
            [](const Variable& x) {
              return layer_norm(x, vector_of(1.0, x.value()), vector_of(0.0, x.value()), kEps);
            }),
      family("swiglu", make_swiglu),
      unary("silu", kWidth, 3, [](const Variable& x) { return silu(x); }),
      unary("gelu", kWidth, 3, [](const Variable& x) { return gelu(x, GeluForm::kTanh); }),
      family("rope", make_rope),
      family("add", make_add),
      unary("scale", kWidth, 2, [](const Variable& x) { return scale(x, 0.5); }),
      unary("dropout", kWidth, 2,
            [](const Variable& x) {
              return dropout(x, 0.1, {1, 2});
            }),
      unary("softmax", kWidth, 3, [](const Variable& x) { return softmax(x); }),
      family("cross_entropy", make_cross_entropy),
      family("embedding", make_embedding),
      family("embedding_of_text", make_embedding_of_text),
  };
}

}  // namespace moh::op_cases
