#include "train/weights/load_weights.h"

#include <string>

#include "core/error.h"
#include "train/formats/element_blocks.h"
#include "train/formats/match_names.h"
#include "train/formats/safetensors_dtype.h"
#include "train/weights/stream_tensor.h"

namespace moh {

namespace {

void check_loadable(const NamedParameter& p, const WeightFile& weights, const WeightInfo& tensor) {
  const std::string where = weights.path().string() + ": " + p.name;
  if (tensor.shape != p.variable.shape()) {
    throw CheckpointError(error_message(where, "", to_string(p.variable.shape()), to_string(tensor.shape)));
  }
  if (!can_convert(tensor.stored_dtype, safetensors_dtype_name(p.variable.dtype()))) {
    throw CheckpointError(
        error_message(where, "", "a type that converts to " + std::string(dtype_name(p.variable.dtype())),
                      tensor.stored_dtype));
  }
}

void load(const Tensor& to, const WeightFile& weights, const WeightInfo& tensor) {
  TensorFiller filler(to);
  stream_tensor(weights, tensor, safetensors_dtype_name(to.dtype()),
                [&](std::span<const std::byte> block) { filler.append(block); });
}

}  // namespace

void load_weights(std::span<const NamedParameter> parameters, const WeightFile& weights) {
  const auto match = match_names(parameters, weights.tensors());
  for (const auto& [parameter, tensor] : match.expected) {
    if (tensor != nullptr) check_loadable(*parameter, weights, *tensor);
  }
  for (const auto& [parameter, tensor] : match.expected) {
    if (tensor != nullptr) load(parameter->variable.value(), weights, *tensor);
  }
}

}  // namespace moh
