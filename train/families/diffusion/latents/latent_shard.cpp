#include "train/families/diffusion/latents/latent_shard.h"

#include <algorithm>
#include <charconv>
#include <optional>
#include <set>
#include <utility>

#include "core/error.h"
#include "train/base/formats/element_blocks.h"
#include "train/base/formats/is_safetensors.h"
#include "train/base/formats/safetensors.h"
#include "train/base/formats/stored_dtype.h"
#include "train/base/io/checksum.h"
#include "train/base/io/input_file.h"
#include "train/base/io/printable.h"
#include "train/config/number_text.h"
#include "train/families/images/class_names.h"

namespace moh {

namespace {

constexpr std::string_view kFormat = "moh-latents", kVersion = "1";
constexpr std::string_view kMakeAgain =
    "the file is damaged: remove it, and 'moh data latents' makes it again";
constexpr std::int64_t kViews = 2;
constexpr std::int64_t kChecksumBytes = 16;
constexpr std::int64_t kMostSide = 1 << 14;

// ---- Metadata ----

std::string lines_of_names(const std::vector<std::string>& names) {
  return identity_of(names).second;
}

WeightFile::Metadata metadata_of(const LatentShardInfo& info) {
  return {{"format", std::string(kFormat)},
          {"version", std::string(kVersion)},
          {"autoencoder", info.autoencoder},
          {"scaling_factor", config::number_text(info.scaling_factor)},
          {"image_size", std::to_string(info.image_size)},
          {"classes", lines_of_names(info.class_names)},
          {"source", info.source},
          {"total", std::to_string(info.total)},
          {"shard_pictures", std::to_string(info.shard_pictures)},
          {"first", std::to_string(info.first)},
          {"skipped", std::to_string(info.skipped)}};
}

/// The checksum of everything that opening a shard reads.
std::string checksum_of(const LatentShardInfo& info, const Tensor& labels, const Tensor& checksums) {
  std::string text;
  for (const auto& [key, value] : metadata_of(info))
    text.append(key).append(1, '\0').append(value).append(1, '\0');
  Checksum sum;
  sum.update(std::as_bytes(std::span(text)));
  sum.update(bytes_of(labels));
  sum.update(bytes_of(checksums));
  return sum.hex();
}

[[noreturn]] void refuse(const SafetensorsFile& file, const std::string& what, std::string_view expected,
                         std::string_view found) {
  throw DataError(error_message(printable_path(file.path()), what, expected,
                                found.empty() ? "no such entry" : printable(found),
                                "docs/latents.md says what a shard of latents has"));
}

std::string entry_of(const SafetensorsFile& file, std::string_view key) {
  const auto found = file.metadata().find(key);
  return found == file.metadata().end() ? "" : found->second;
}

std::int64_t number_of(const SafetensorsFile& file, std::string_view key, std::int64_t least,
                       std::int64_t most) {
  const std::string text = entry_of(file, key);
  const std::optional<std::int64_t> value = config::parse_integer(text);
  if (!value || *value < least || *value > most)
    refuse(file, "metadata, " + std::string(key),
           "a number from " + std::to_string(least) + " to " + std::to_string(most), text);
  return *value;
}

double scaling_factor_of(const SafetensorsFile& file) {
  const std::string text = entry_of(file, "scaling_factor");
  const std::optional<double> value = config::parse_number(text);
  if (!value || *value <= 0) refuse(file, "metadata, scaling_factor", "a number above 0", text);
  return *value;
}

std::vector<std::string> class_names_of(const SafetensorsFile& file) {
  std::vector<std::string> names = lines_of(entry_of(file, "classes"));
  std::set<std::string_view> known;
  for (const std::string& name : names) {
    if (name.empty() || !known.insert(name).second)
      refuse(file, "metadata, classes", "names of classes, each on a line and once", name);
  }
  return names;
}

const WeightInfo& tensor_of_name(const SafetensorsFile& file, std::string_view name) {
  const WeightInfo* found = file.find(name);
  if (found == nullptr) refuse(file, "tensors", std::string(name), "none of this name");
  return *found;
}

void require_shape(const SafetensorsFile& file, const WeightInfo& tensor, std::string_view dtype,
                   const Shape& shape) {
  if (tensor.stored_dtype != dtype || tensor.shape != shape)
    refuse(file, printable(tensor.name), std::string(dtype) + " " + to_string(shape),
           std::string(tensor.stored_dtype) + " " + to_string(tensor.shape));
}

/// The description in header and metadata.
LatentShardInfo read_info(const SafetensorsFile& file) {
  for (const auto& [key, value] : {std::pair("format", kFormat), std::pair("version", kVersion)}) {
    if (entry_of(file, key) != value)
      refuse(file, "metadata, " + std::string(key), value, entry_of(file, key));
  }
  const WeightInfo& mean = tensor_of_name(file, "mean");
  const Shape& s = mean.shape;
  const bool sound = (mean.stored_dtype == "F32" || mean.stored_dtype == "BF16") && s.rank() == 5 &&
                     s[0] >= 1 && s[1] == kViews && s[2] >= 1 && s[3] >= 1 && s[3] <= kMostSide &&
                     s[4] == s[3];
  if (!sound)
    refuse(file, "mean", "F32 or BF16 [pictures, 2, channels, side, side]",
           std::string(mean.stored_dtype) + " " + to_string(s));
  LatentShardInfo info{.autoencoder = entry_of(file, "autoencoder"),
                       .scaling_factor = scaling_factor_of(file),
                       .image_size = number_of(file, "image_size", s[3], kMostSide),
                       .channels = s[2],
                       .side = s[3],
                       .stored_dtype = mean.stored_dtype,
                       .class_names = class_names_of(file),
                       .source = entry_of(file, "source"),
                       .total = number_of(file, "total", 1, kMostLatentPictures),
                       .shard_pictures = number_of(file, "shard_pictures", 1, kMostLatentPictures),
                       .first = number_of(file, "first", 0, kMostLatentPictures),
                       .count = s[0],
                       .skipped = number_of(file, "skipped", 0, kMostLatentPictures)};
  if (info.autoencoder.empty()) refuse(file, "metadata, autoencoder", "the hash of its weights", "");
  if (info.first > info.total || info.count + info.skipped > info.total - info.first)
    refuse(file, "pictures",
           "those of " + std::to_string(info.total) + " from " + std::to_string(info.first) + " on",
           std::to_string(info.count) + " and " + std::to_string(info.skipped) + " skipped ones");
  require_shape(file, tensor_of_name(file, "deviation"), mean.stored_dtype, s);
  require_shape(file, tensor_of_name(file, "labels"), "I64", {info.count});
  require_shape(file, tensor_of_name(file, "checksums"), "U8", {info.count, kViews, kChecksumBytes});
  return info;
}

// ---- Latents ----

std::uint64_t stored_size(const LatentShardInfo& info) {
  return *stored_bytes(info.stored_dtype, {info.elements()});
}

std::string latent_checksum(std::span<const std::byte> mean, std::span<const std::byte> deviation) {
  Checksum sum;
  sum.update(mean);
  sum.update(deviation);
  return sum.hex();
}

std::string hex_of(const Tensor& checksums, std::int64_t picture, std::int64_t view) {
  const auto* bytes = reinterpret_cast<const char*>(checksums.data<std::uint8_t>()) +
                      (picture * kViews + view) * kChecksumBytes;
  return hex_digits({bytes, kChecksumBytes});
}

void put_hex(const std::string& hex, std::uint8_t* to) {
  for (std::size_t i = 0; i < kChecksumBytes; ++i)
    std::from_chars(hex.data() + 2 * i, hex.data() + 2 * i + 2, to[i], 16);
}

/// [side, side, channels] to [channels, side, side], as training and PyTorch have it.
Tensor channels_first(const Tensor& values) {
  const std::int64_t channels = values.dim(2), pixels = values.dim(0) * values.dim(1);
  Tensor swapped = empty({channels, values.dim(0), values.dim(1)}, DType::kFloat32);
  for (std::int64_t i = 0; i < values.numel(); ++i)
    swapped.data<float>()[i % channels * pixels + i / channels] = values.data<float>()[i];
  return swapped;
}

}  // namespace

// ---- Writing ----

NewLatentShard::NewLatentShard(LatentShardInfo info) : info_(std::move(info)) {
  const StoredDType* stored = find_safetensors_dtype(info_.stored_dtype);
  if (stored == nullptr || !stored->loads_as ||
      (*stored->loads_as != DType::kFloat32 && *stored->loads_as != DType::kBFloat16))
    throw ValueError(error_message("latents", "type", "F32 or BF16", info_.stored_dtype));
  const std::int64_t pictures = std::min(info_.shard_pictures, info_.total - info_.first);
  const Shape shape{pictures, kViews, info_.channels, info_.side, info_.side};
  mean_ = empty(shape, *stored->loads_as);
  deviation_ = empty_like(mean_);
  labels_ = empty({pictures}, DType::kInt64);
  checksums_ = empty({pictures, kViews, kChecksumBytes}, DType::kUInt8);
}

void NewLatentShard::add(const Tensor& mean, const Tensor& deviation, std::int64_t label,
                         std::string_view name) {
  const std::int64_t picture = info_.count++;
  if (!mean.all_finite() || !deviation.all_finite())
    throw NumericError(error_message("latents", name, "finite numbers from the autoencoder", "others"));
  labels_.data<std::int64_t>()[picture] = label;
  for (std::int64_t view = 0; view < kViews; ++view) {
    const Tensor to_mean = mean_.select(picture).select(view),
                 to_deviation = deviation_.select(picture).select(view);
    to_mean.copy_from(channels_first(mean.select(view)).to(mean_.dtype()));
    to_deviation.copy_from(channels_first(deviation.select(view)).to(mean_.dtype()));
    put_hex(latent_checksum(bytes_of(to_mean), bytes_of(to_deviation)),
            checksums_.data<std::uint8_t>() + (picture * kViews + view) * kChecksumBytes);
  }
}

void NewLatentShard::save(const std::filesystem::path& path) const {
  if (info_.count == 0)
    throw DataError(error_message(
        "data",
        "pictures " + std::to_string(info_.first) + " to " + std::to_string(info_.first + info_.skipped - 1),
        "some that can be decoded", "none"));
  const NamedTensor tensors[] = {{"mean", mean_.slice(0, info_.count)},
                                 {"deviation", deviation_.slice(0, info_.count)},
                                 {"labels", labels_.slice(0, info_.count)},
                                 {"checksums", checksums_.slice(0, info_.count)}};
  WeightFile::Metadata metadata = metadata_of(info_);
  metadata["checksum"] = checksum_of(info_, tensors[2].tensor, tensors[3].tensor);
  save_safetensors(path, tensors, metadata);
}

// ---- Reading ----

LatentShard::LatentShard(std::filesystem::path path) : path_(std::move(path)) {
  const SafetensorsFile file(path_);
  info_ = read_info(file);
  labels_ = file.tensor("labels");
  checksums_ = file.tensor("checksums");
  checksum_ = entry_of(file, "checksum");
  if (const std::string found = checksum_of(info_, labels_, checksums_); found != checksum_)
    throw DataError(error_message(printable_path(path_), "labels and checksums",
                                  "checksum " + printable(checksum_), found, kMakeAgain));
  for (std::int64_t i = 0; i < info_.count; ++i) {
    if (label(i) < 0 || label(i) >= std::ssize(info_.class_names))
      refuse(file, "picture " + std::to_string(i),
             "a class from 0 to " + std::to_string(info_.class_names.size() - 1), std::to_string(label(i)));
  }
  const std::uint64_t data = file.raw_header().size();
  mean_begin_ = data + file.find("mean")->place;
  deviation_begin_ = data + file.find("deviation")->place;
}

std::string LatentShard::computed_checksum(const std::filesystem::path& path) {
  const SafetensorsFile file(path);
  return checksum_of(read_info(file), file.tensor("labels"), file.tensor("checksums"));
}

std::int64_t LatentShard::label(std::int64_t picture) const {
  return labels_.data<std::int64_t>()[picture];
}

void LatentShard::read(std::int64_t picture, LatentView view, std::span<float> mean,
                       std::span<float> deviation) const {
  const auto elements = static_cast<std::size_t>(info_.elements());
  MOH_CHECK(picture >= 0 && picture < info_.count && mean.size() == elements && deviation.size() == elements,
            "LatentShard: a picture of the shard, and room for its latents");
  thread_local std::vector<std::byte> buffer;
  const std::uint64_t bytes = stored_size(info_);
  buffer.resize(2 * bytes);
  const std::span both(buffer);
  const auto row = static_cast<std::uint64_t>(picture * kViews + static_cast<std::int64_t>(view));
  const InputFile file(path_, InputKind::kData);
  file.read(mean_begin_ + row * bytes, both.first(bytes), "mean");
  file.read(deviation_begin_ + row * bytes, both.last(bytes), "deviation");
  const std::string found = latent_checksum(both.first(bytes), both.last(bytes)),
                    expected = hex_of(checksums_, picture, static_cast<std::int64_t>(view));
  if (found != expected)
    file.fail("mean and deviation of picture " + std::to_string(picture) +
                  (view == LatentView::kMirrored ? ", mirrored" : ""),
              "checksum " + expected, found, kMakeAgain);
  const ConvertElements convert = find_conversion(info_.stored_dtype, "F32");
  convert(both.data(), reinterpret_cast<std::byte*>(mean.data()), elements);
  convert(both.data() + bytes, reinterpret_cast<std::byte*>(deviation.data()), elements);
}

void LatentShard::verify() const {
  std::vector<float> mean(static_cast<std::size_t>(info_.elements())), deviation(mean.size());
  for (std::int64_t i = 0; i < info_.count; ++i) {
    for (const LatentView view : {LatentView::kPlain, LatentView::kMirrored}) read(i, view, mean, deviation);
  }
}

bool is_latent_shard(const std::filesystem::path& path) {
  if (!is_safetensors(InputFile(path, InputKind::kData))) return false;
  return entry_of(SafetensorsFile(path), "format") == kFormat;
}

}  // namespace moh
