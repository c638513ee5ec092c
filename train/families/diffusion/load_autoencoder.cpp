#include "train/families/diffusion/load_autoencoder.h"

#include <algorithm>
#include <array>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "core/dry_run.h"
#include "core/error.h"
#include "train/base/formats/safetensors.h"
#include "train/base/io/printable.h"
#include "train/base/io/stand_in.h"
#include "train/base/log/logging.h"
#include "train/weights/compare_weights.h"
#include "train/weights/hf/config_json.h"
#include "train/weights/load_weights.h"

namespace moh {

namespace {

constexpr const char* kConfig = "config.json";
constexpr double kMostChannels = 8192, kMostLayers = 64;

/// Keys that change nothing: `force_upcast` asks for float32 in place of float16, which moh never takes.
constexpr std::string_view kOfNoEffect[] = {"_class_name", "_diffusers_version", "_name_or_path",
                                            "force_upcast", "sample_size"};
constexpr std::string_view kRead[] = {"act_fn",          "block_out_channels", "down_block_types",
                                      "in_channels",     "latent_channels",    "latents_mean",
                                      "latents_std",     "layers_per_block",   "mid_block_add_attention",
                                      "norm_num_groups", "out_channels",       "scaling_factor",
                                      "shift_factor",    "up_block_types",     "use_post_quant_conv",
                                      "use_quant_conv"};

/// diffusers passes over keys that its class does not have; here they are named, as another version may have
/// them.
void name_unknown(const ConfigJson& json, const std::filesystem::path& path) {
  std::string names;
  for (const std::string& key : json.keys()) {
    if (std::ranges::count(kOfNoEffect, key) + std::ranges::count(kRead, key) == 0)
      names += (names.empty() ? "" : ", ") + printable(key);
  }
  if (!names.empty())
    log_warning(printable_path(path) + ": keys that moh does not know and passes over: " + names);
}

/// The list of a block for each of `stages`.
void require_all(const ConfigJson& json, std::string_view key, std::string_view expected,
                 std::size_t stages) {
  if (!json.has(key)) return;
  const std::vector<std::string> blocks = json.texts(key);
  if (blocks.size() != stages)
    json.damaged(key, std::to_string(stages) + " blocks, one for each of block_out_channels",
                 json.shown(key));
  for (const std::string& found : blocks) {
    if (found != expected) json.unsupported(key, expected, printable(found));
  }
}

void require_scale_alone(const ConfigJson& json) {
  constexpr std::string_view kExpected = "null: latents that are scaled alone";
  for (const char* key : {"latents_mean", "latents_std"}) {
    if (json.has(key)) json.unsupported(key, kExpected, json.shown(key));
  }
  if (json.number_or("shift_factor", 0) != 0)
    json.unsupported("shift_factor", kExpected, json.shown("shift_factor"));
}

AutoencoderConfig read_config(const std::filesystem::path& path) {
  const ConfigJson json(path);
  const std::string kind = json.text_or("_class_name", "none");
  if (kind != "AutoencoderKL") json.unsupported("_class_name", "AutoencoderKL", kind);
  name_unknown(json, path);
  const std::string activation = json.text_or("act_fn", "silu");
  if (activation != "silu" && activation != "swish") json.unsupported("act_fn", "silu", json.shown("act_fn"));
  if (!json.truth_or("mid_block_add_attention", true))
    json.unsupported("mid_block_add_attention", "true", "false");
  require_scale_alone(json);
  const auto integer = [&](std::string_view key, double most, std::int64_t otherwise) {
    return json.has(key) ? json.integer(key, 1, most) : otherwise;
  };
  AutoencoderConfig c;
  c.in_channels = integer("in_channels", kMostChannels, c.in_channels);
  c.out_channels = integer("out_channels", kMostChannels, c.out_channels);
  c.latent_channels = integer("latent_channels", kMostChannels, c.latent_channels);
  c.layers_per_block = integer("layers_per_block", kMostLayers, 1);
  c.norm_num_groups = integer("norm_num_groups", kMostChannels, c.norm_num_groups);
  c.block_out_channels = json.integers("block_out_channels", 1, kMostChannels);
  constexpr std::size_t kMostStages = 8;
  if (c.block_out_channels.empty() || c.block_out_channels.size() > kMostStages)
    json.unsupported("block_out_channels", "1 to 8 numbers", json.shown("block_out_channels"));
  require_all(json, "down_block_types", "DownEncoderBlock2D", c.block_out_channels.size());
  require_all(json, "up_block_types", "UpDecoderBlock2D", c.block_out_channels.size());
  for (const std::int64_t channels : c.block_out_channels) {
    if (channels % c.norm_num_groups != 0)
      json.damaged("block_out_channels", "multiples of norm_num_groups, " + std::to_string(c.norm_num_groups),
                   std::to_string(channels));
  }
  c.use_quant_conv = json.truth_or("use_quant_conv", true);
  c.use_post_quant_conv = json.truth_or("use_post_quant_conv", true);
  if (json.has("scaling_factor")) c.scaling_factor = json.positive("scaling_factor");
  return c;
}

/// The parameters under the names that the file has for attention.
std::vector<NamedParameter> named_as_in(const WeightFile& file, const Autoencoder& model) {
  std::vector<NamedParameter> parameters = model.parameters();
  if (file.find("encoder.mid_block.attentions.0.query.weight") == nullptr) return parameters;
  constexpr std::array<std::pair<std::string_view, std::string_view>, 4> kEarlier = {
      {{".to_q.", ".query."}, {".to_k.", ".key."}, {".to_v.", ".value."}, {".to_out.0.", ".proj_attn."}}};
  for (NamedParameter& parameter : parameters) {
    for (const auto& [now, earlier] : kEarlier) {
      const std::size_t at = parameter.name.find(now);
      if (at != std::string::npos) parameter.name.replace(at, now.size(), earlier);
    }
  }
  return parameters;
}

void require_same(const WeightFile& file, const AutoencoderConfig& config) {
  std::vector<WeightInfo> expected;
  {
    const DryRunScope dry;
    const Autoencoder model(config, DType::kFloat32);
    expected = infos_of(tensors_of(named_as_in(file, model)));
  }
  const WeightDifferences differences = compare_weights(expected, file);
  if (!differences.none())
    throw CheckpointError(error_message(printable_path(file.path()), "tensors",
                                        "those of the autoencoder in its config.json",
                                        describe(differences) + "\n" + list(differences)));
}

/// Refuses a folder that holds an autoencoder in another folder, or a name that has to be downloaded.
void require_folder(const std::filesystem::path& folder) {
  std::error_code ignored;
  if (std::filesystem::exists(folder / kConfig, ignored)) return;
  std::string fix = hub_cache_advice(folder);
  if (!std::filesystem::exists(folder, ignored)) fix = download_advice(folder);
  if (std::filesystem::exists(folder / "vae" / kConfig, ignored)) fix = "name " + (folder / "vae").string();
  throw CheckpointError(error_message(printable_path(folder), "",
                                      "a folder of diffusers' AutoencoderKL, with config.json", "none", fix));
}

}  // namespace

LoadedAutoencoder load_autoencoder(const std::filesystem::path& folder, Placement placement) {
  require_folder(folder);
  const AutoencoderConfig config = read_config(folder / kConfig);
  const SafetensorsFile file(folder / "diffusion_pytorch_model.safetensors", InputKind::kCheckpoint);
  require_same(file, config);
  auto model = std::make_unique<Autoencoder>(config, placement);
  load_weights(named_as_in(file, *model), file);
  for (const NamedParameter& parameter : model->parameters()) {
    if (!parameter.variable.value().all_finite())
      throw CheckpointError(
          error_message(printable_path(file.path()), parameter.name, "finite numbers", "others"));
  }
  return {std::move(model), content_hash(file, [](std::uint64_t) {})};
}

LoadedAutoencoder load_decoder(std::string_view option, const std::filesystem::path& folder,
                               std::int64_t channels, Device device) {
  constexpr std::int64_t kPixelChannels = 3;
  LoadedAutoencoder loaded = load_autoencoder(folder, {DType::kFloat32, device});
  const AutoencoderConfig& c = loaded.model->config();
  if (c.latent_channels != channels || c.out_channels != kPixelChannels)
    throw ConfigError(error_message(
        option, printable_path(folder), std::to_string(channels) + " channels of latents, 3 of pixels",
        std::to_string(c.latent_channels) + " and " + std::to_string(c.out_channels)));
  return loaded;
}

}  // namespace moh
