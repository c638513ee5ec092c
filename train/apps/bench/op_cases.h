#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "autograd/variable.h"
#include "models/module.h"
#include "ops/conv/conv2d.h"

namespace moh {

/// A memory-bound op with its inputs. One run is `forward` and, right after it, a backward pass from its
/// results.
struct StreamingCase {
  /// `op` returns a Variable, a std::vector of them, or void.
  template <class Op>
  StreamingCase(std::string shape_of, double read_and_written, double in_backward, Op op)
      : shape(std::move(shape_of)),
        forward_bytes(read_and_written),
        backward_bytes(in_backward),
        forward([op = std::move(op)]() -> std::vector<Variable> {
          using Result = std::invoke_result_t<const Op&>;
          if constexpr (std::is_void_v<Result>) {
            op();
            return {};
          } else if constexpr (std::is_same_v<Result, Variable>) {
            return {op()};
          } else {
            return op();
          }
        }) {}

  std::string shape;
  double forward_bytes, backward_bytes;  ///< least bytes read and written; backward 0: no backward pass
  std::function<std::vector<Variable>()> forward;

  /// A random gradient for each result, from which the backward pass starts.
  static std::vector<Tensor> seeds_of(const std::vector<Variable>& results);
};

/// Makes a case of `op` with large tensors of about `bytes` each, which it allocates.
struct StreamingFamily {
  std::string_view op;
  std::function<StreamingCase(Placement placement, std::int64_t bytes)> make;
};
std::vector<StreamingFamily> streaming_families();

/// y[tokens, out] = x[tokens, in] w[out, in]^T, a linear layer of a published model.
struct LinearShape {
  std::string model;  ///< model and layer: "LLM-S mlp up"
  std::int64_t tokens, out, in;
};
/// The linear layers of LLM-S and LLM-B (2048 tokens), DeiT-S and DeiT-B (8 images of 197 tokens) and DiT-S,
/// -B and -XL (8 latents of 256 tokens).
std::vector<LinearShape> linear_shapes();

/// A convolution with bias of square images [batch, side, side, channels] in a published model.
struct Convolution {
  std::string model;  ///< model and layer: "TransNeXt-T depthwise 1"
  std::int64_t batch, side, channels, outputs, kernel;
  Conv2dOptions options = {};
  bool is_first = false;  ///< of the model: its input, images, has no gradient

  Shape images() const { return {batch, side, side, channels}; }
  Shape weight() const { return {outputs, channels / options.groups, kernel, kernel}; }
};
/// The convolutions of TransNeXt-Tiny (8 images of 224 x 224) that are no matrix multiplication of pixels,
/// and one of each kind and size of Stable Diffusion's autoencoder (one image of 256 x 256).
std::vector<Convolution> convolutions();

/// The cases by subject, each a file in op_cases/, and helpers to make them.
namespace op_cases {

/// Ops on hidden states: norms, activations, embedding, loss.
std::vector<StreamingFamily> of_tokens();
/// Further ops of vision and diffusion models: patches, modulation by a condition, stochastic depth.
std::vector<StreamingFamily> of_images();
/// Ops on heads: routing, head lists, KV cache.
std::vector<StreamingFamily> of_heads();
/// Ops on parameters: norm of the gradients, AdamW, moving averages.
std::vector<StreamingFamily> of_updates();

inline constexpr std::int64_t kWidth = 1024;  // of a hidden state
inline constexpr std::int64_t kHeads = 16, kHeadDim = 64;

/// The number of items of `elements` elements each that fill about `bytes`, at least one.
std::int64_t count_for(DType dtype, std::int64_t bytes, std::int64_t elements);

/// Uniform in [-1, 1); each stream has other numbers.
Tensor random_tensor(const Shape& shape, Placement placement, std::uint64_t stream);
/// Random [count, item...], which fills about `bytes`.
Tensor random_items(const Shape& item, Placement placement, std::int64_t bytes, std::uint64_t stream = 1);

/// An input that gets a gradient, as the output of another op would. The gradient is dropped: a leaf would
/// accumulate it, which may convert its dtype and is not part of the measured op.
Variable input(const Tensor& value);

double bytes_of(const Tensor& tensor);

/// An op whose large inputs (`inputs` of them, random_items()) and outputs have all the same size: its
/// forward and backward pass read and write `forward` and `backward` times that size. run(inputs) computes
/// it.
template <class Op>
StreamingFamily alike(std::string_view op, const Shape& item, std::uint64_t inputs, double forward,
                      double backward, Op run) {
  return {op, [=](Placement placement, std::int64_t bytes) {
            std::vector<Tensor> in;
            for (std::uint64_t i = 1; i <= inputs; ++i) in.push_back(random_items(item, placement, bytes, i));
            const double one = bytes_of(in.front());
            return StreamingCase(to_string(in.front().shape()), forward * one, backward * one, [=] {
              std::vector<Variable> variables;
              for (const Tensor& tensor : in) variables.push_back(input(tensor));
              return run(variables);
            });
          }};
}

}  // namespace op_cases

}  // namespace moh
