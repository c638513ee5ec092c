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

namespace moh {

/// An op that streams memory, ready to be timed. Running `forward` and, right after it, a backward pass from
/// what it returned is one run.
struct StreamingCase {
  /// `op` returns a Variable, several, or nothing.
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
  double forward_bytes, backward_bytes;  ///< read and written at least; backward 0: there is no such pass
  std::function<std::vector<Variable>()> forward;

  /// What the backward pass begins with: a random gradient of each result.
  static std::vector<Tensor> seeds_of(const std::vector<Variable>& results);
};

/// Makes a case for large tensors of about `bytes` each. Making it allocates them.
struct StreamingFamily {
  std::string_view op;
  std::function<StreamingCase(Placement placement, std::int64_t bytes)> make;
};
std::vector<StreamingFamily> streaming_families();

/// y[tokens, out] = x[tokens, in] w[out, in]^T, a linear layer of a published model.
struct LinearShape {
  std::string model;  ///< and which of its layers: "LLM-S mlp up"
  std::int64_t tokens, out, in;
};
/// Those of LLM-S and LLM-B (2048 tokens), DeiT-S and DeiT-B (8 images of 197 tokens) and DiT-S, -B and -XL
/// (8 latents of 256 tokens).
std::vector<LinearShape> linear_shapes();

/// The families by what they are about, each a file in op_cases/, and what their cases are made of.
namespace op_cases {

/// Rows of a hidden state: norms, activations, embedding, loss.
std::vector<StreamingFamily> of_tokens();
/// What vision and diffusion models have besides: patches, modulation by a condition, stochastic depth.
std::vector<StreamingFamily> of_images();
/// Heads: routing, their lists, the cache of keys and values.
std::vector<StreamingFamily> of_heads();
/// Parameters: the gradient's norm, AdamW, moving averages.
std::vector<StreamingFamily> of_updates();

inline constexpr std::int64_t kWidth = 1024;  // of a row: that of a model's hidden state
inline constexpr std::int64_t kHeads = 16, kHeadDim = 64;

/// How many items of so many elements fill about `bytes`, at least one.
std::int64_t count_for(DType dtype, std::int64_t bytes, std::int64_t elements);

/// Uniform in [-1, 1); another stream gives other numbers.
Tensor random_tensor(const Shape& shape, Placement placement, std::uint64_t stream);
/// [count, item...]: items of one shape that fill about `bytes`.
Tensor random_items(const Shape& item, Placement placement, std::int64_t bytes, std::uint64_t stream = 1);

/// An input that is differentiated as the output of an op would be. Its gradient is dropped: keeping it, as a
/// leaf does, may convert it, and that is no part of the op under test.
Variable input(const Tensor& value);

double bytes_of(const Tensor& tensor);

/// An op whose large inputs and outputs, random_items(), are all of one size: forward and backward pass move
/// that many such tensors. run(inputs) computes it.
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
