#include "train/families/diffusion/sampling/sample_folder.h"

#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <optional>

#include "core/error.h"
#include "train/base/formats/npz_writer.h"
#include "train/base/formats/pictures/decode_picture.h"
#include "train/base/formats/pictures/encode_png.h"
#include "train/base/io/durable_file.h"
#include "train/base/io/file_ops.h"
#include "train/base/io/input_file.h"
#include "train/base/io/temporary_files.h"
#include "train/comm/shared_facts.h"
#include "train/families/diffusion/sampling/sampled_latents.h"
#include "train/families/images/data/picture_source.h"
#include "train/trainer/config/enum_names.h"

namespace moh {

namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

constexpr std::int64_t kMostInGrid = 64;
constexpr std::uint64_t kMostSettings = 1 << 20;

fs::path picture_path(const fs::path& folder, std::int64_t number) {
  char name[32];
  std::snprintf(name, sizeof name, "%06lld.png", static_cast<long long>(number));
  return folder / name;
}

Picture read_picture(const fs::path& path) {
  std::vector<std::byte> bytes;
  read_picture_file(path, bytes);
  return decode_picture(bytes, path.string());
}

/// All that the pictures depend on.
Json settings_of(const SampleOptions& o, const SampleFolderOptions& to, const DitConfig& model) {
  Json json;
  json["model"] = to.model;
  if (!to.autoencoder.empty()) json["autoencoder"] = to.autoencoder;
  json["seed"] = o.seed;
  if (o.objective != DiffusionObjective::kNoise) json["objective"] = name_of(o.objective);
  if (o.objective == DiffusionObjective::kFlow) json["path"] = name_of(o.path);
  json["sampler"] = name_of(o.reverse.kind);
  json["steps"] = o.steps;
  if (o.reverse.kind == SamplerKind::kDdim) json["eta"] = o.reverse.eta;
  if (o.reverse.kind == SamplerKind::kEulerMaruyama) json["diffusion"] = name_of(o.diffusion);
  json["clip_start"] = o.reverse.clip_start;
  json["guidance"] = o.guidance;
  json["guided_channels"] = o.guided_channels;
  if (o.guided_levels != SampleOptions().guided_levels) json["guided_levels"] = o.guided_levels;
  if (!o.labels) json["labels"] = false;
  json["classes"] = to.classes.empty() ? Json("random") : Json(to.classes);
  json["image_size"] = model.image_size;
  json["pixels"] = to.latents.empty() ? "127.5 x + 128, cut to 0 to 255, truncated"
                                      : "none: latents as the model makes them";
  return json;
}

/// Throws ConfigError in all processes unless all are to draw the same.
void require_same_settings(const Json& settings, const SampleFolderOptions& to, Communicator& processes) {
  SharedFacts facts = {{FactKind::kSettings, "-n", std::to_string(to.count)},
                       {FactKind::kSettings, "--batch-size", std::to_string(to.batch_size)}};
  for (const auto& [name, value] : settings.items())
    facts.push_back({FactKind::kSettings, "sample: " + name, value.dump()});
  require_same_facts(facts, processes);
}

/// Writes the settings, or compares those that are there.
void settle(const Json& settings, const SampleFolderOptions& to) {
  const fs::path path = to.folder / "sample.json";
  const std::string text = settings.dump(2) + "\n";
  if (!fs::exists(path)) return write_file_durably(path, text);
  if (read_text_file(path, InputKind::kData, kMostSettings) == text) return;
  throw ConfigError(error_message(path.string(), "settings", "those of this command", "others",
                                  "pictures of other settings lie there: name another folder"));
}

std::int64_t label_of(const SampleOptions& options, const SampleFolderOptions& to, std::int64_t classes,
                      std::int64_t number) {
  if (to.classes.empty()) return random_label(options.seed, number, classes);
  return to.classes[static_cast<std::size_t>(number % std::ssize(to.classes))];
}

void write_npz(const SampleFolderOptions& to, const PictureSize& size) {
  NpzWriter npz(to.folder / "samples.npz", {{.name = "arr_0",
                                             .shape = {to.count, size.height, size.width, Picture::kChannels},
                                             .type = NpzArray::Type::kUint8}});
  for (std::int64_t i = 0; i < to.count; ++i) {
    const Picture picture = read_picture(picture_path(to.folder, i));
    if (picture.size() != size)
      throw DataError(error_message(picture_path(to.folder, i).string(), "size", to_string(size),
                                    to_string(picture.size())));
    npz.write(0, picture.bytes());
  }
  npz.commit();
}

/// The grid, and what its pictures are of, row by row.
void write_grid(const SampleOptions& options, const SampleFolderOptions& to, std::int64_t classes) {
  std::vector<Picture> pictures;
  Json cells = Json::array();
  for (std::int64_t i = 0; i < std::min(to.count, kMostInGrid); ++i) {
    const fs::path path = picture_path(to.folder, i);
    pictures.push_back(read_picture(path));
    Json& cell = cells.emplace_back(Json{{"picture", path.filename().string()}});
    if (!options.labels) continue;
    const std::int64_t label = label_of(options, to, classes, i);
    cell["class"] = label;
    cell["name"] = to.class_names.at(static_cast<std::size_t>(label));
  }
  write_file_durably(to.folder / "grid.png", encode_png(picture_grid(pictures, to.columns)));
  const Json grid = {{"columns", std::min<std::int64_t>(to.columns, std::ssize(pictures))}, {"cells", cells}};
  write_file_durably(to.folder / "grid.json",
                     grid.dump(2, ' ', false, Json::error_handler_t::replace) + "\n");
}

/// The file of latents, and beside it what they are of.
void write_latents(const SampledLatents& latents, const SampleOptions& options, const SampleFolderOptions& to,
                   const DitConfig& model) {
  std::vector<std::int64_t> labels(static_cast<std::size_t>(to.count), model.no_class());
  for (std::int64_t i = 0; options.labels && i < to.count; ++i)
    labels[static_cast<std::size_t>(i)] = label_of(options, to, model.classes, i);
  latents.write(to.latents, labels, options.seed);
  Json json = settings_of(options, to, model);
  if (options.labels) json["labels"] = labels;
  fs::path beside = to.latents;
  write_file_durably(beside.replace_extension(".json"), json.dump(2) + "\n");
}

/// The numbers of pictures that are not there, in all processes as the first one finds them.
std::vector<std::int64_t> missing_pictures(const SampleFolderOptions& to, const SampledLatents& latents,
                                           Communicator& processes) {
  const Tensor is_missing = zeros({to.count}, DType::kInt64);
  const std::span<std::int64_t> flags = is_missing.span<std::int64_t>();
  for (std::int64_t i = 0; processes.is_rank0() && i < to.count; ++i) {
    const bool there = to.latents.empty() ? fs::exists(picture_path(to.folder, i)) : latents.has(i);
    flags[static_cast<std::size_t>(i)] = there ? 0 : 1;
  }
  processes.broadcast(is_missing);
  std::vector<std::int64_t> missing;
  for (std::int64_t i = 0; i < to.count; ++i) {
    if (flags[static_cast<std::size_t>(i)] != 0) missing.push_back(i);
  }
  return missing;
}

void keep(const SampleFolderOptions& to, SampledLatents& latents, std::span<const std::int64_t> numbers,
          const Tensor& values) {
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    const Tensor one = values.select(static_cast<std::int64_t>(i));
    if (to.latents.empty())
      write_file_durably(picture_path(to.folder, numbers[i]), encode_png(to_picture(one)));
    else
      latents.add(numbers[i], one);
  }
}

}  // namespace

bool sample_folder(const PictureSampler& sampler, const Dit& model, const SampleOptions& options,
                   const SampleFolderOptions& to, FunctionRef<bool(const SampleProgress&)> stop,
                   Communicator& processes) {
  const DitConfig& c = model.config();
  const Json settings = settings_of(options, to, c);
  require_same_settings(settings, to, processes);
  if (processes.is_rank0() && !to.folder.empty()) {
    make_directories(to.folder);
    remove_abandoned_temporaries_in(to.folder);
    settle(settings, to);
  }
  SampledLatents latents(to.folder, to.count, {c.channels, c.image_size, c.image_size});
  const std::vector<std::int64_t> missing = missing_pictures(to, latents, processes);
  const auto together = static_cast<std::size_t>(to.batch_size * processes.size());
  SampleProgress progress{.pictures = to.count - std::ssize(missing)};
  for (std::size_t first = 0; first < missing.size(); first += together) {
    const std::size_t count = std::min(missing.size() - first, together);
    const std::span numbers = std::span<const std::int64_t>(missing).subspan(first, count);
    std::vector<std::int64_t> labels;
    for (const std::int64_t number : numbers) labels.push_back(label_of(options, to, c.classes, number));
    progress.step = 0;
    const auto ask = [&] {
      const bool stopped = stop(progress);
      ++progress.step;
      return stopped;
    };
    const Tensor values = sample_together(sampler, numbers, labels, ask, processes);
    if (!values.defined()) return false;
    if (processes.is_rank0()) keep(to, latents, numbers, values);
    progress.pictures += static_cast<std::int64_t>(count);
  }
  if (!processes.is_rank0()) return true;
  if (!to.latents.empty()) {
    write_latents(latents, options, to, c);
    return true;
  }
  const int side = static_cast<int>(sampler.side());
  write_grid(options, to, c.classes);
  if (to.npz) write_npz(to, {side, side});
  return true;
}

}  // namespace moh
