// dit_prediction MODEL INPUTS.json: prints what a diffusion transformer on disk predicts, as a JSON list of
// the numbers of [B, C, H, W] in their order. INPUTS.json has {"images": numbers of [B, C, H, W], "steps":
// [...], "labels": [...]}.

#include <cstdint>
#include <exception>
#include <fstream>
#include <iostream>
#include <nlohmann/json.hpp>
#include <span>
#include <vector>

#include "autograd/node.h"
#include "models/diffusion/dit.h"
#include "train/families/families.h"
#include "train/trainer/task/load_model.h"

using namespace moh;

namespace {

using Json = nlohmann::json;

template <class T>
Tensor tensor_in(const Json& inputs, const char* name, const Shape& shape) {
  const auto numbers = inputs.at(name).get<std::vector<T>>();
  return tensor_of<T>(shape, numbers);
}

std::vector<float> prediction_of(const Dit& model, const Json& inputs) {
  const NoGrad no_grad;
  const auto batch = static_cast<std::int64_t>(inputs.at("steps").size());
  const std::int64_t side = model.config().image_size;
  const Tensor images = tensor_in<float>(inputs, "images", {batch, model.config().channels, side, side});
  const Tensor predicted = model
                               .forward({Variable(images), tensor_in<std::int64_t>(inputs, "steps", {batch}),
                                         tensor_in<std::int64_t>(inputs, "labels", {batch})})
                               .prediction.value();
  const std::span<const float> numbers = predicted.span<float>();
  return {numbers.begin(), numbers.end()};
}

}  // namespace

int main(int argc, char** argv) try {
  if (argc != 3) {
    std::cerr << "usage: dit_prediction MODEL INPUTS.json\n";
    return 2;
  }
  const LoadedModel loaded = load_model(argv[1], families());
  const Json inputs = Json::parse(std::ifstream(argv[2]));
  std::cout << Json(prediction_of(dynamic_cast<const Dit&>(*loaded.model), inputs)) << "\n";
  return 0;
} catch (const std::exception& error) {
  std::cerr << error.what() << "\n";
  return 1;
}
