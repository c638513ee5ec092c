#include "train/bench/op_cases.h"

#include <algorithm>

#include "autograd/node.h"
#include "core/error.h"
#include "core/random.h"
#include "models/llm/llama_presets.h"
#include "ops/activation/gelu.h"
#include "ops/activation/silu.h"
#include "ops/activation/swiglu.h"
#include "ops/conv/conv2d.h"
#include "ops/dropout/dropout.h"
#include "ops/elementwise/add.h"
#include "ops/elementwise/scale.h"
#include "ops/embedding/embedding.h"
#include "ops/loss/cross_entropy.h"
#include "ops/norm/layer_norm.h"
#include "ops/norm/rms_norm.h"
#include "ops/optim/adamw.h"
#include "ops/optim/clip_grad_norm.h"
#include "ops/rope/rope.h"
#include "ops/softmax/softmax.h"

namespace moh {

namespace {

constexpr std::int64_t kWidth = 1024;  // of a row: that of a model's hidden state
constexpr std::int64_t kVocabulary = 32768;
constexpr std::int64_t kHeads = 16, kHeadDim = 64;

/// Rows of `width` elements that fill about `bytes`.
Shape rows_for(DType dtype, std::int64_t bytes, std::int64_t width) {
  const auto row = width * static_cast<std::int64_t>(dtype_size(dtype));
  return {std::max<std::int64_t>(bytes / row, 1), width};
}

Tensor random_tensor(const Shape& shape, Placement placement, std::uint64_t stream) {
  Tensor tensor = empty(shape, placement.dtype, placement.device);
  fill_uniform(tensor, {1, stream}, -1.0, 1.0);
  return tensor;
}

/// An input that is differentiated as the output of an op would be. Its gradient is dropped: keeping it, as a
/// leaf does, may convert it, and that is no part of the op under test.
Variable input(const Tensor& value) {
  const Variable leaf(zeros({}, DType::kFloat32, value.device()), true);
  return record("bench_input", value, {leaf}, [](const Tensor&) { return Grads(1); });
}

double bytes_of(const Tensor& tensor) {
  return static_cast<double>(tensor.bytes());
}

/// An op of one large input and one large output: forward moves 2 tensors, backward `backward_tensors`.
StreamingFamily unary(std::string_view op, std::int64_t width, double backward_tensors,
                      std::function<Variable(const Variable&)> run) {
  return {
      op, [=](Placement placement, std::int64_t bytes) {
        const Tensor x = random_tensor(rows_for(placement.dtype, bytes, width), placement, 1);
        const double one = bytes_of(x);
        return StreamingCase{
            std::string(op),        to_string(x.shape()),          2 * one,
            backward_tensors * one, [=] { return run(input(x)); }, random_tensor(x.shape(), placement, 2)};
      }};
}

/// Sizes of a convolution of [side, side, channels].
struct ConvSizes {
  std::int64_t side, channels, outputs, kernel;
  Conv2dOptions options;
};

StreamingCase make_add(Placement placement, std::int64_t bytes) {
  const Tensor a = random_tensor(rows_for(placement.dtype, bytes, kWidth), placement, 1);
  const Tensor b = random_tensor(a.shape(), placement, 2);
  // Backward hands the gradient on as it is.
  return {"add", to_string(a.shape()), 3 * bytes_of(a), 0, [=] { return add(input(a), input(b)); }, {}};
}

StreamingCase make_swiglu(Placement placement, std::int64_t bytes) {
  const Tensor gate = random_tensor(rows_for(placement.dtype, bytes, kWidth), placement, 1);
  const Tensor up = random_tensor(gate.shape(), placement, 2);
  const double one = bytes_of(gate);
  return {"swiglu",
          to_string(gate.shape()),
          3 * one,
          5 * one,
          [=] { return swiglu(input(gate), input(up)); },
          random_tensor(gate.shape(), placement, 3)};
}

StreamingCase make_rope(Placement placement, std::int64_t bytes) {
  constexpr std::int64_t kTokens = 2048;
  const Shape rows = rows_for(placement.dtype, bytes, kTokens * kHeads * kHeadDim);
  const Tensor x = random_tensor({rows[0], kTokens, kHeads, kHeadDim}, placement, 1);
  const RopeTable table = rope_table(kTokens, kHeadDim, 10000.0, DType::kFloat32, placement.device);
  const double moved = 2 * bytes_of(x);
  return {"rope",
          to_string(x.shape()),
          moved,
          moved,
          [=] { return rope(input(x), table); },
          random_tensor(x.shape(), placement, 2)};
}

Tensor random_ids(std::int64_t count, std::int64_t bound, Device device) {
  const Tensor ids = empty({count}, DType::kInt64);
  for (std::int64_t i = 0; i < count; ++i) {
    ids.data<std::int64_t>()[i] = static_cast<std::int64_t>(
        random_below({1, 3}, static_cast<std::uint64_t>(i), static_cast<std::uint64_t>(bound)));
  }
  return ids.to(device);
}

StreamingCase make_cross_entropy(Placement placement, std::int64_t bytes) {
  const Tensor logits = random_tensor(rows_for(placement.dtype, bytes, kVocabulary), placement, 1);
  const Tensor targets = random_ids(logits.dim(0), kVocabulary, placement.device);
  const double one = bytes_of(logits);
  // The backward pass reads the logits and writes their gradient over them.
  return {"cross_entropy",
          to_string(logits.shape()),
          one,
          2 * one,
          [=] { return cross_entropy(input(logits), targets); },
          full({}, 1.0, DType::kFloat32, placement.device)};
}

StreamingCase make_embedding(Placement placement, std::int64_t bytes) {
  const Tensor table = random_tensor({kVocabulary, kWidth}, placement, 1);
  const Tensor ids = random_ids(rows_for(placement.dtype, bytes, kWidth)[0], kVocabulary, placement.device);
  const Tensor dy = random_tensor({ids.numel(), kWidth}, placement, 2);
  // Rows are read and written; backward reads them again and writes a gradient of the table's size.
  return {"embedding",
          to_string(dy.shape()),
          2 * bytes_of(dy),
          bytes_of(dy) + static_cast<double>(table.numel()) *
                             static_cast<double>(dtype_size(accumulate_dtype(placement.dtype))),
          [=] { return embedding(input(table), ids); },
          dy};
}

/// A convolution of square images that fill about `bytes`. Backward reads dy twice, for both gradients, and
/// x, and writes dx; weights are small.
StreamingFamily convolution(std::string_view op, const ConvSizes& sizes) {
  return {op, [=](Placement placement, std::int64_t bytes) {
            const Shape image = {sizes.side, sizes.side, sizes.channels};
            const std::int64_t count = rows_for(placement.dtype, bytes, image.numel())[0];
            const Tensor x = random_tensor({count, sizes.side, sizes.side, sizes.channels}, placement, 1);
            const Tensor w = random_tensor(
                {sizes.outputs, sizes.channels / sizes.options.groups, sizes.kernel, sizes.kernel}, placement,
                2);
            const auto run = [=, options = sizes.options] { return conv2d(input(x), input(w), {}, options); };
            const Tensor dy = random_tensor(run().shape(), placement, 3);
            return StreamingCase{std::string(op),
                                 to_string(x.shape()) + " * " + to_string(w.shape()),
                                 bytes_of(x) + bytes_of(dy),
                                 2 * bytes_of(x) + 2 * bytes_of(dy),
                                 run,
                                 dy};
          }};
}

StreamingCase make_adamw(Placement placement, std::int64_t bytes) {
  const DType wide = accumulate_dtype(placement.dtype);
  const Placement in_wide(wide, placement.device);
  AdamWParameter p{
      random_tensor(rows_for(placement.dtype, bytes, kWidth), placement, 1), {}, {}, {}, {}, 0.1};
  p.grad = random_tensor(p.value.shape(), in_wide, 2);
  p.exp_avg = zeros(p.value.shape(), wide, placement.device);
  p.exp_avg_sq = zeros(p.value.shape(), wide, placement.device);
  // The gradient is read, both moments and the value are read and written; with a master copy, that one is
  // read and written, and the value only written.
  double moved = 5 * bytes_of(p.grad) + 2 * bytes_of(p.value);
  if (wide != placement.dtype) {
    p.master = p.value.to(wide);
    moved = 7 * bytes_of(p.grad) + bytes_of(p.value);
  }
  return {"adamw",
          to_string(p.value.shape()),
          moved,
          0,
          [=] {
            adamw({&p, 1}, {.step = 1});
            return Variable();
          },
          {}};
}

StreamingCase make_grad_norm(Placement placement, std::int64_t bytes) {
  const Tensor grad = random_tensor(rows_for(placement.dtype, bytes, kWidth), placement, 1);
  return {"grad_norm",
          to_string(grad.shape()),
          bytes_of(grad),
          0,
          [=] {
            grad_norm({&grad, 1});
            return Variable();
          },
          {}};
}

/// A vector of parameters that fits beside any of the ops here, of its input's dtype and device.
std::function<Variable(const Variable&)> vector_of(double value) {
  return [=](const Variable& x) { return input(full({kWidth}, value, x.dtype(), x.device())); };
}

/// The products of a LLaMA block and of its output matrix.
void append_llama(std::vector<LinearShape>& shapes, const std::string& model, std::string_view preset,
                  std::int64_t tokens) {
  const LlamaPreset* found = find_llama_preset(preset);
  MOH_CHECK(found != nullptr, "a preset of that name");
  const LlamaConfig& c = found->config;
  shapes.push_back({model + " attention", tokens, c.hidden, c.hidden});
  shapes.push_back({model + " mlp up", tokens, c.intermediate, c.hidden});
  shapes.push_back({model + " mlp down", tokens, c.hidden, c.intermediate});
  shapes.push_back({model + " vocabulary", tokens, c.vocab_size, c.hidden});
}

/// The products of a ViT or DiT block, whose MLP is four times as wide as the model.
void append_vit(std::vector<LinearShape>& shapes, const std::string& model, std::int64_t tokens,
                std::int64_t width) {
  shapes.push_back({model + " qkv", tokens, 3 * width, width});
  shapes.push_back({model + " proj", tokens, width, width});
  shapes.push_back({model + " mlp up", tokens, 4 * width, width});
  shapes.push_back({model + " mlp down", tokens, width, 4 * width});
}

}  // namespace

std::vector<StreamingFamily> streaming_families() {
  constexpr double kEps = 1e-5;
  const auto ones = vector_of(1.0), zeros_of = vector_of(0.0);
  return {
      unary("rms_norm", kWidth, 3, [=](const Variable& x) { return rms_norm(x, ones(x), kEps); }),
      unary("layer_norm", kWidth, 3,
            [=](const Variable& x) { return layer_norm(x, ones(x), zeros_of(x), kEps); }),
      {"swiglu", make_swiglu},
      unary("silu", kWidth, 3, [](const Variable& x) { return silu(x); }),
      unary("gelu", kWidth, 3, [](const Variable& x) { return gelu(x, GeluForm::kTanh); }),
      {"rope", make_rope},
      {"add", make_add},
      unary("scale", kWidth, 2, [](const Variable& x) { return scale(x, 0.5); }),
      unary("dropout", kWidth, 2,
            [](const Variable& x) {
              return dropout(x, 0.1, {1, 2});
            }),
      unary("softmax", kWidth, 3, [](const Variable& x) { return softmax(x); }),
      {"cross_entropy", make_cross_entropy},
      {"embedding", make_embedding},
      // TransNeXt-Tiny's first patches, which are more arithmetic than memory, and the convolution in its
      // third MLP.
      convolution("conv2d", {224, 3, 72, 7, {.stride = 4, .padding = 3}}),
      convolution("depthwise_conv2d", {14, 768, 768, 3, {.padding = 1, .groups = 768}}),
      {"grad_norm", make_grad_norm},
      {"adamw", make_adamw},
  };
}

std::vector<LinearShape> linear_shapes() {
  constexpr std::int64_t kTextTokens = 2048, kVitTokens = 8 * 197, kDitTokens = 8 * 256;
  std::vector<LinearShape> shapes;
  append_llama(shapes, "LLM-S", "llm_s", kTextTokens);
  append_llama(shapes, "LLM-B", "llm_b", kTextTokens);
  append_vit(shapes, "DeiT-S", kVitTokens, 384);
  append_vit(shapes, "DeiT-B", kVitTokens, 768);
  append_vit(shapes, "DiT-S", kDitTokens, 384);
  append_vit(shapes, "DiT-B", kDitTokens, 768);
  append_vit(shapes, "DiT-XL", kDitTokens, 1152);
  return shapes;
}

}  // namespace moh
