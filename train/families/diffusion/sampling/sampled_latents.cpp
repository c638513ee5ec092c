#include "train/families/diffusion/sampling/sampled_latents.h"

#include <algorithm>
#include <cstdio>
#include <span>
#include <utility>

#include "core/error.h"
#include "train/base/formats/npz_writer.h"
#include "train/base/formats/numpy_file.h"
#include "train/base/io/printable.h"

namespace moh {

namespace {

constexpr const char* kLatents = "arr_0";

std::vector<std::int64_t> extents_of(const Shape& shape) {
  return {shape.extents().begin(), shape.extents().end()};
}

}  // namespace

SampledLatents::SampledLatents(std::filesystem::path folder, std::int64_t count, Shape shape)
    : folder_(std::move(folder)), count_(count), shape_(shape) {
  if (folder_.empty()) in_memory_.resize(static_cast<std::size_t>(count));
}

std::filesystem::path SampledLatents::path_of(std::int64_t number) const {
  char name[32];
  std::snprintf(name, sizeof name, "%06lld.npz", static_cast<long long>(number));
  return folder_ / name;
}

bool SampledLatents::has(std::int64_t number) const {
  return !folder_.empty() && std::filesystem::exists(path_of(number));
}

void SampledLatents::add(std::int64_t number, const Tensor& latents) {
  if (folder_.empty()) {
    in_memory_[static_cast<std::size_t>(number)] = latents;
    return;
  }
  NpzWriter file(path_of(number), {{.name = kLatents, .shape = extents_of(shape_)}});
  file.write(0, std::span<const float>(latents.span<float>()));
  file.commit();
}

std::vector<float> SampledLatents::values_of(std::int64_t number) const {
  if (folder_.empty()) {
    const std::span<const float> values = in_memory_[static_cast<std::size_t>(number)].span<float>();
    return {values.begin(), values.end()};
  }
  const NumpyFile file(path_of(number));
  const NumpyArray* const array = file.find(kLatents);
  if (array == nullptr || array->stored_dtype != "F32" || array->shape != extents_of(shape_))
    throw DataError(error_message(printable_path(path_of(number)), "array", "latents of this command, arr_0",
                                  file.names(), "remove the file, or name another folder"));
  file.verify(kLatents);
  std::vector<double> read(array->elements());
  file.read(*array, 0, read);
  return {read.begin(), read.end()};
}

void SampledLatents::write(const std::filesystem::path& file, std::span<const std::int64_t> labels,
                           std::uint64_t seed) const {
  std::vector<std::int64_t> extents = extents_of(shape_);
  extents.insert(extents.begin(), count_);
  NpzWriter npz(file, {{.name = kLatents, .shape = extents},
                       {.name = "labels", .shape = {count_}, .type = NpzArray::Type::kInt64},
                       {.name = "seed", .shape = {}, .type = NpzArray::Type::kInt64}});
  for (std::int64_t number = 0; number < count_; ++number)
    npz.write(0, std::span<const float>(values_of(number)));
  npz.write(1, labels);
  const auto of_all = static_cast<std::int64_t>(seed);
  npz.write(2, {&of_all, 1});
  npz.commit();
}

}  // namespace moh
