#include "train/apps/bench/op_cases.h"

#include <algorithm>

#include "autograd/node.h"
#include "core/error.h"
#include "core/random.h"
#include "models/find_preset.h"
#include "models/llm/llama_presets.h"

namespace moh {

namespace {

/// The linear layers of a decoder block (SwiGLU) and the output layer of the model.
void append_llama(std::vector<LinearShape>& shapes, const std::string& model, std::string_view preset,
                  std::int64_t tokens) {
  const LlamaPreset* found = find_preset(llama_presets(), preset);
  MOH_CHECK(found != nullptr, "a preset of that name");
  const LlamaConfig& c = found->config;
  shapes.push_back({model + " attention", tokens, c.hidden, c.hidden});
  shapes.push_back({model + " mlp up", tokens, c.intermediate, c.hidden});
  shapes.push_back({model + " mlp down", tokens, c.hidden, c.intermediate});
  shapes.push_back({model + " vocabulary", tokens, c.vocab_size, c.hidden});
}

/// The linear layers of a ViT or DiT block, whose MLP has four times the width of the model.
void append_vit(std::vector<LinearShape>& shapes, const std::string& model, std::int64_t tokens,
                std::int64_t width) {
  shapes.push_back({model + " qkv", tokens, 3 * width, width});
  shapes.push_back({model + " proj", tokens, width, width});
  shapes.push_back({model + " mlp up", tokens, 4 * width, width});
  shapes.push_back({model + " mlp down", tokens, width, 4 * width});
}

}  // namespace

std::vector<Tensor> StreamingCase::seeds_of(const std::vector<Variable>& results) {
  std::vector<Tensor> seeds;
  for (const Variable& result : results) {
    const Placement placement(result.dtype(), result.device());
    seeds.push_back(op_cases::random_tensor(result.shape(), placement, 7));
  }
  return seeds;
}

std::vector<StreamingFamily> streaming_families() {
  std::vector<StreamingFamily> all;
  for (const auto& some :
       {op_cases::of_tokens(), op_cases::of_images(), op_cases::of_heads(), op_cases::of_updates()})
    all.insert(all.end(), some.begin(), some.end());
  return all;
}

std::vector<LinearShape> linear_shapes() {
  constexpr std::int64_t kImages = 8;
  constexpr std::int64_t kTextTokens = 2048, kVitTokens = kImages * 197, kDitTokens = kImages * 256;
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

std::vector<Convolution> convolutions() {
  constexpr std::int64_t kImages = 8;
  const auto transnext = [](const char* layer, std::int64_t side, std::int64_t channels, std::int64_t outputs,
                            std::int64_t kernel, const Conv2dOptions& options) {
    return Convolution{
        std::string("TransNeXt-T ") + layer, kImages, side, channels, outputs, kernel, options};
  };
  const auto depthwise = [&](const char* layer, std::int64_t side, std::int64_t channels) {
    return transnext(layer, side, channels, channels, 3, {.padding = 1, .groups = channels});
  };
  const auto autoencoder = [](const char* layer, std::int64_t side, std::int64_t channels,
                              std::int64_t outputs, std::int64_t stride = 1) {
    return Convolution{std::string("VAE ") + layer,     1, side, channels, outputs, 3,
                       {.stride = stride, .padding = 1}};
  };
  std::vector<Convolution> all = {transnext("patches 1", 224, 3, 72, 7, {.stride = 4, .padding = 3}),
                                  transnext("patches 2", 56, 72, 144, 3, {.stride = 2, .padding = 1}),
                                  transnext("patches 3", 28, 144, 288, 3, {.stride = 2, .padding = 1}),
                                  transnext("patches 4", 14, 288, 576, 3, {.stride = 2, .padding = 1}),
                                  depthwise("depthwise 1", 56, 384),
                                  depthwise("depthwise 2", 28, 768),
                                  depthwise("depthwise 3", 14, 768),
                                  depthwise("depthwise 4", 7, 1536),
                                  autoencoder("in", 256, 3, 128),
                                  autoencoder("block 1", 256, 128, 128),
                                  autoencoder("block 2", 128, 256, 256),
                                  autoencoder("block 3", 64, 512, 512),
                                  autoencoder("block 4", 32, 512, 512),
                                  autoencoder("downsample 1", 256, 128, 128, 2),
                                  autoencoder("downsample 2", 128, 256, 256, 2),
                                  autoencoder("downsample 3", 64, 512, 512, 2),
                                  autoencoder("out", 256, 128, 3)};
  for (Convolution& convolution : all) convolution.is_first = convolution.channels == 3;
  return all;
}

namespace op_cases {

std::int64_t count_for(DType dtype, std::int64_t bytes, std::int64_t elements) {
  return std::max<std::int64_t>(bytes / (elements * static_cast<std::int64_t>(dtype_size(dtype))), 1);
}

Tensor random_tensor(const Shape& shape, Placement placement, std::uint64_t stream) {
  Tensor tensor = empty(shape, placement.dtype, placement.device);
  fill_uniform(tensor, {1, stream}, -1.0, 1.0);
  return tensor;
}

Tensor random_items(const Shape& item, Placement placement, std::int64_t bytes, std::uint64_t stream) {
  std::vector<std::int64_t> extents = {count_for(placement.dtype, bytes, item.numel())};
  extents.insert(extents.end(), item.extents().begin(), item.extents().end());
  return random_tensor(Shape(extents), placement, stream);
}

Variable input(const Tensor& value) {
  const Variable leaf(zeros({}, DType::kFloat32, value.device()), true);
  return record("bench_input", value, {leaf}, [](const Tensor&) { return Grads(1); });
}

double bytes_of(const Tensor& tensor) {
  return static_cast<double>(tensor.bytes());
}

}  // namespace op_cases

}  // namespace moh
