#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "autograd/variable.h"
#include "models/module.h"

namespace moh {

/// An op that streams memory, ready to be timed. Running `forward` and, right after it, a backward pass from
/// what it returned is one run.
struct StreamingCase {
  std::string op, shape;
  double forward_bytes = 0, backward_bytes = 0;  ///< read and written at least; backward 0: there is nothing
  std::function<std::vector<Variable>()> forward;  ///< empty result: there is no backward pass
  std::vector<Tensor> seeds;                       ///< of the backward pass, one per result
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

}  // namespace moh
