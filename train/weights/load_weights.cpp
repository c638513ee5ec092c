#include "train/weights/load_weights.h"

#include <algorithm>
#include <cstring>
#include <functional>
#include <memory>

#include "autograd/between_ops.h"
#include "core/error.h"
#include "models/late_parameters.h"
#include "train/base/formats/element_blocks.h"
#include "train/base/formats/stored_dtype.h"
#include "train/base/io/checksum.h"
#include "train/base/io/printable.h"
#include "train/weights/compare_weights.h"

namespace moh {

namespace {

std::size_t element_bytes(std::string_view stored_dtype) {
  return static_cast<std::size_t>(find_safetensors_dtype(stored_dtype)->bits) / 8;
}

void check_loadable(const NamedParameter& p, const WeightFile& weights, const WeightInfo& tensor) {
  const std::string where = weights.path().string() + ": " + p.name;
  if (tensor.shape != p.variable.shape()) {
    throw CheckpointError(error_message(where, "", to_string(p.variable.shape()), to_string(tensor.shape)));
  }
  if (!can_convert(tensor.stored_dtype, safetensors_dtype_name(p.variable.dtype()))) {
    throw CheckpointError(
        error_message(where, "", "a type that converts to " + std::string(dtype_name(p.variable.dtype())),
                      tensor.stored_dtype, dtype_advice({&tensor, 1})));
  }
}

void load(const Tensor& to, const WeightFile& file, const WeightInfo& tensor) {
  TensorFiller filler(to);
  stream_tensor(file, tensor, safetensors_dtype_name(to.dtype()),
                [&](std::span<const std::byte> block) { filler.append(block); });
}

void load_all(std::span<const StoredTensors> from, std::span<const NamedTensor> to) {
  for (const NamedTensor& named : to) {
    for (const StoredTensors& file : from) {
      if (const WeightInfo* tensor = file.find(named.name)) load(named.tensor, file, *tensor);
    }
    BetweenOps::reached();
  }
}

}  // namespace

std::vector<NamedTensor> tensors_of(std::span<const NamedParameter> parameters) {
  std::vector<NamedTensor> tensors;
  for (const NamedParameter& p : parameters) tensors.push_back({p.name, p.variable.value()});
  return tensors;
}

void load_weights(std::span<const NamedParameter> parameters, const WeightFile& weights) {
  for (const NamedParameter& p : parameters) {
    if (const WeightInfo* tensor = weights.find(p.name)) check_loadable(p, weights, *tensor);
  }
  fill_each({parameters.begin(), parameters.end()}, [&](const NamedParameter& p) {
    if (const WeightInfo* tensor = weights.find(p.name)) load(p.variable.value(), weights, *tensor);
  });
}

void require_exactly(std::string_view where, std::span<const StoredTensors> from,
                     std::span<const WeightInfo> to) {
  std::vector<WeightInfo> found;
  for (const StoredTensors& file : from) {
    for (const WeightInfo& tensor : file.tensors()) {
      file.dtype_of(tensor);  // throws for types that moh lacks
      found.push_back(tensor);
    }
  }
  check_matches(where, to, found);
}

void load_exactly(std::string_view where, std::span<const StoredTensors> from,
                  std::span<const NamedTensor> to) {
  for (const StoredTensors& file : from) file.verify();
  require_exactly(where, from, infos_of(to));
  load_all(from, to);
}

void load_named(std::string_view where, std::span<const StoredTensors> from,
                std::span<const NamedTensor> to) {
  for (const StoredTensors& file : from) file.verify();
  std::vector<WeightInfo> found;
  for (const NamedTensor& named : to) {
    for (const StoredTensors& file : from) {
      if (const WeightInfo* tensor = file.find(named.name)) found.push_back(*tensor);
    }
  }
  check_matches(where, infos_of(to), found);
  load_all(from, to);
}

bool can_convert(std::string_view from, std::string_view to) {
  return from == to || find_conversion(from, to) != nullptr;
}

std::string dtype_advice(std::span<const WeightInfo> tensors) {
  const auto stuck =
      std::ranges::find_if(tensors, [](const WeightInfo& t) { return !can_convert(t.stored_dtype, "F32"); });
  if (stuck == tensors.end()) return "convert with --dtype float32 or --dtype bfloat16";
  return std::string(stuck->stored_dtype) +
         " does not convert, as quantised types mean nothing without the scales beside them: dequantise the "
         "model in Python and save it in bfloat16; --format safetensors --dtype keep copies it as it is";
}

void stream_tensor(const WeightFile& file, const WeightInfo& tensor, std::string_view to,
                   FunctionRef<void(std::span<const std::byte>)> sink) {
  if (tensor.stored_dtype == to) return file.stream(tensor, sink);
  const ConvertElements convert = find_conversion(tensor.stored_dtype, to);
  if (convert == nullptr) {
    throw CheckpointError(error_message(file.path().string(), printable(tensor.name),
                                        "a type that converts to " + std::string(to), tensor.stored_dtype,
                                        dtype_advice({&tensor, 1})));
  }
  const std::size_t from_size = element_bytes(tensor.stored_dtype), to_size = element_bytes(to);
  const std::size_t block = std::min<std::uint64_t>(kStreamBlockBytes, tensor.bytes);
  const auto converted = std::make_unique_for_overwrite<std::byte[]>(block / from_size * to_size);
  file.stream(tensor, [&](std::span<const std::byte> stored) {
    const std::size_t count = stored.size() / from_size;
    convert(stored.data(), converted.get(), count);
    sink({converted.get(), count * to_size});
  });
}

bool same_elements(const WeightFile& file, const WeightInfo& a, const WeightInfo& b) {
  if (a.stored_dtype != b.stored_dtype || a.shape != b.shape) return false;
  const auto other = std::make_unique_for_overwrite<std::byte[]>(kStreamBlockBytes);
  std::uint64_t offset = 0;
  bool same = true;
  file.stream(a, [&](std::span<const std::byte> bytes) {
    if (!same) return;
    file.read(b, offset, {other.get(), bytes.size()});
    same = std::memcmp(bytes.data(), other.get(), bytes.size()) == 0;
    offset += bytes.size();
  });
  return same;
}

std::string content_hash(const WeightFile& file, FunctionRef<void(std::uint64_t bytes)> done) {
  std::vector<const WeightInfo*> by_name;
  for (const WeightInfo& tensor : file.tensors()) by_name.push_back(&tensor);
  std::ranges::sort(by_name, std::less<>(), &WeightInfo::name);
  Checksum hash;
  for (const WeightInfo* tensor : by_name) {
    for (const std::string& text :
         {tensor->name, std::string(tensor->stored_dtype), to_string(tensor->shape)}) {
      hash.update(std::as_bytes(std::span(text.c_str(), text.size() + 1)));  // with the NUL that ends it
    }
    file.stream(*tensor, [&](std::span<const std::byte> bytes) {
      hash.update(bytes);
      done(bytes.size());
    });
  }
  return hash.hex();
}

}  // namespace moh
