#pragma once

#include <catch2/catch.hpp>
#include <string>
#include <utility>
#include <vector>

#include "core/random.h"
#include "models/module.h"
#include "ops/elementwise/add.h"
#include "ops/loss/cross_entropy.h"

// Common parts of the tests of all vision models.

namespace moh::test {

/// Two images, [2, height, width, 3].
inline Variable some_images(std::int64_t height, std::int64_t width, DType dtype = DType::kFloat32) {
  const Tensor images = empty({2, height, width, 3}, dtype);
  fill_normal(images, {5, 6}, 0, 1);
  return Variable(images);
}

/// Loss, balance losses included, and gradients of a training step of a model with random weights; `draws`
/// numbers the random stream of drop_path and of masks, which are as far as `progress` says. Results are on
/// the CPU.
template <class Model, class Config>
std::vector<Tensor> image_step(const Config& config, std::int64_t height, std::int64_t width,
                               std::uint64_t draws = 0, Placement placement = DType::kFloat32,
                               double progress = 0) {
  Model model(config, placement);
  model.initialise(3);
  model.set_progress(progress);
  Generator generator(1, draws);
  const Device device = placement.device;
  const Variable images(some_images(height, width).value().to(placement.dtype).to(device));
  const auto output = model.forward(images, {.training = true, .generator = &generator});
  Variable loss = cross_entropy(output.logits, tensor_of<std::int64_t>({2}, {1, 4}).to(device));
  for (const auto& layer : output.routing) {
    if (layer.balance.defined()) loss = add(loss, layer.balance);
    if (layer.z_loss.defined()) loss = add(loss, layer.z_loss);
  }
  for (const Variable& balance : output.expert_balances) loss = add(loss, balance);
  loss.backward();
  std::vector<Tensor> results = {loss.value().to(kCpu)};
  for (const auto& p : model.parameters()) {
    const bool of_masks = p.name.find("shared_mask.") != std::string::npos;
    if (of_masks && !p.variable.grad().defined()) continue;  // they are fixed
    INFO(p.name);
    CHECK(p.variable.grad().defined());
    results.push_back(p.variable.grad().to(kCpu));
  }
  return results;
}

}  // namespace moh::test
