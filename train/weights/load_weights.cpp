#include <cstring>
#include <memory>
#include <unordered_map>

#include "core/error.h"
#include "train/io/element_blocks.h"
#include "train/io/printable.h"
#include "train/io/safetensors_dtype.h"
#include "train/weights/model_source.h"
#include "train/weights/stream_tensor.h"

namespace moh {

namespace {

using TensorsByName = std::unordered_map<std::string_view, const WeightInfo*>;

TensorsByName tensors_by_name(const WeightFile& weights) {
  TensorsByName found;
  for (const WeightInfo& tensor : weights.tensors()) found.emplace(tensor.name, &tensor);
  return found;
}

bool same_elements(const WeightFile& weights, const WeightInfo& a, const WeightInfo& b) {
  if (a.stored_dtype != b.stored_dtype || a.shape != b.shape) return false;
  const auto other = std::make_unique_for_overwrite<std::byte[]>(kStreamBlockBytes);
  std::uint64_t offset = 0;
  bool same = true;
  stream_tensor(weights, a, a.stored_dtype, [&](std::span<const std::byte> bytes) {
    if (!same) return;
    weights.read(b, offset, {other.get(), bytes.size()});
    same = std::memcmp(bytes.data(), other.get(), bytes.size()) == 0;
    offset += bytes.size();
  });
  return same;
}

/// Whether a tensor that no parameter wants says nothing new.
bool is_redundant(const WeightFile& weights, const TensorsByName& by_name, const WeightInfo& tensor) {
  if (tensor.name.ends_with(".rotary_emb.inv_freq")) return true;
  const auto embedding = by_name.find("model.embed_tokens.weight");
  return tensor.name == "lm_head.weight" && embedding != by_name.end() &&
         same_elements(weights, tensor, *embedding->second);
}

void check_loadable(std::span<const NamedParameter> parameters, const TensorsByName& by_name,
                    const WeightFile& weights) {
  for (const NamedParameter& p : parameters) {
    const auto found = by_name.find(p.name);
    if (found == by_name.end()) continue;
    const WeightInfo& tensor = *found->second;
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
}

void load(const Tensor& to, const WeightFile& weights, const WeightInfo& tensor) {
  TensorFiller filler(to);
  stream_tensor(weights, tensor, safetensors_dtype_name(to.dtype()),
                [&](std::span<const std::byte> block) { filler.append(block); });
}

}  // namespace

WeightDifferences compare_weights(std::span<const TensorSpec> parameters, const WeightFile& weights) {
  WeightDifferences differences;
  const TensorsByName by_name = tensors_by_name(weights);
  std::unordered_map<std::string_view, const TensorSpec*> wanted;
  for (const TensorSpec& parameter : parameters) {
    wanted.emplace(parameter.name, &parameter);
    const auto found = by_name.find(parameter.name);
    if (found == by_name.end()) {
      differences.missing.push_back(parameter.name);
    } else if (found->second->shape != parameter.shape) {
      differences.mismatched.push_back(
          error_message(parameter.name, "", to_string(parameter.shape), to_string(found->second->shape)));
    }
  }
  for (const WeightInfo& tensor : weights.tensors()) {
    if (wanted.contains(tensor.name)) continue;
    const bool redundant = is_redundant(weights, by_name, tensor);
    (redundant ? differences.redundant : differences.unexpected).push_back(tensor.name);
  }
  return differences;
}

std::vector<TensorSpec> tensors_of(std::span<const NamedParameter> parameters) {
  std::vector<TensorSpec> tensors;
  for (const NamedParameter& p : parameters)
    tensors.push_back({p.name, p.variable.shape(), p.variable.dtype()});
  return tensors;
}

WeightDifferences compare_weights(std::span<const NamedParameter> parameters, const WeightFile& weights) {
  return compare_weights(tensors_of(parameters), weights);
}

void load_weights(std::span<const NamedParameter> parameters, const WeightFile& weights) {
  const TensorsByName by_name = tensors_by_name(weights);
  check_loadable(parameters, by_name, weights);
  for (const NamedParameter& p : parameters) {
    const auto found = by_name.find(p.name);
    if (found != by_name.end()) load(p.variable.value(), weights, *found->second);
  }
}

}  // namespace moh
