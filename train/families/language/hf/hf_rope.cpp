#include "train/families/language/hf/hf_rope.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "train/base/io/printable.h"
#include "train/config/fields.h"

namespace moh {

namespace {

using config::kMaxLength;

std::string rope_type(const ConfigJson& json) {
  return json.text_or("rope_type", json.text_or("type", "default"));
}

constexpr std::string_view kOriginal = "original_max_position_embeddings";

/// The context that scaling stretches: `otherwise`, unless the object says it.
std::int64_t original_positions(const ConfigJson& json, std::int64_t otherwise) {
  return json.has(kOriginal) ? json.integer(kOriginal, 1, kMaxLength) : otherwise;
}

void read_llama3(const ConfigJson& json, std::int64_t max_positions, RopeScaling& scaling) {
  scaling.low_freq_factor = json.positive("low_freq_factor");
  scaling.high_freq_factor = json.positive("high_freq_factor");
  scaling.original_positions = original_positions(json, max_positions);
}

/// YaRN's factor of queries and keys; the default where nothing else is said.
double attention_factor_of(const ConfigJson& json, double factor) {
  if (json.has("attention_factor")) return json.positive("attention_factor");
  const double scale = json.number_or("mscale", 0), all = json.number_or("mscale_all_dim", 0);
  if (scale == 0 || all == 0) return RopeScaling().attention_factor;
  const auto of = [&](double m) { return 0.1 * m * std::log(factor) + 1; };
  if (!(of(scale) > 0 && of(all) > 0)) json.damaged("mscale", "a number above 0", json.shown("mscale"));
  return of(scale) / of(all);
}

void read_yarn(const ConfigJson& json, std::int64_t max_positions, RopeScaling& scaling) {
  if (json.has("beta_fast")) scaling.beta_fast = json.positive("beta_fast");
  if (json.has("beta_slow")) scaling.beta_slow = json.positive("beta_slow");
  scaling.attention_factor = attention_factor_of(json, scaling.factor);
  scaling.truncate = json.truth_or("truncate", scaling.truncate);
  scaling.original_positions = original_positions(json, max_positions);
}

/// transformers stretches from max_position_embeddings on, whatever the other key inside says.
void read_dynamic(const ConfigJson& json, std::int64_t max_positions, RopeScaling& scaling) {
  scaling.original_positions = original_positions(json, max_positions);
  if (scaling.original_positions != max_positions) {
    json.unsupported("original_max_position_embeddings",
                     "max_position_embeddings (" + std::to_string(max_positions) + ") with rope type dynamic",
                     std::to_string(scaling.original_positions));
  }
}

struct ScalingReader {
  std::string_view type;
  RopeScalingKind kind;
  void (*read)(const ConfigJson&, std::int64_t max_positions, RopeScaling&);
  std::vector<std::string_view> keys;  ///< besides those of every kind
};

const ScalingReader* scaling_reader(std::string_view type) {
  using enum RopeScalingKind;
  static const ScalingReader readers[] = {
      {"linear", kLinear, nullptr, {}},
      {"llama3", kLlama3, read_llama3, {"low_freq_factor", "high_freq_factor"}},
      {"yarn",
       kYarn,
       read_yarn,
       {"beta_fast", "beta_slow", "attention_factor", "mscale", "mscale_all_dim", "truncate"}},
      {"dynamic", kDynamic, read_dynamic, {}}};
  const auto* const found = std::ranges::find(readers, type, &ScalingReader::type);
  return found == std::ranges::end(readers) ? nullptr : found;
}

RopeScaling read_scaling(const ConfigJson& json, std::int64_t max_positions) {
  const std::string type = rope_type(json);
  RopeScaling scaling;
  if (type == "default") return scaling;
  const ScalingReader* const reader = scaling_reader(type);
  if (reader == nullptr) {
    json.unsupported(json.has("rope_type") ? "rope_type" : "type", "default, linear, llama3, yarn or dynamic",
                     printable(type));
  }
  scaling.factor = json.number("factor");
  if (!(scaling.factor >= 1)) json.damaged("factor", "1 or more", json.shown("factor"));
  scaling.kind = reader->kind;
  if (reader->read != nullptr) reader->read(json, max_positions, scaling);
  return scaling.factor == 1 ? RopeScaling{} : scaling;
}

/// Refuses unknown keys, among them those of other kinds of RoPE scaling, and of a rotary embedding for each
/// kind of layer.
void check_rope_keys(const ConfigJson& json) {
  constexpr std::string_view kPlain[] = {"rope_type", "type", "rope_theta", "partial_rotary_factor"};
  constexpr std::string_view kScaling[] = {"factor", "original_max_position_embeddings"};
  const std::string type = rope_type(json);
  const ScalingReader* const reader = scaling_reader(type);
  for (const std::string& key : json.keys()) {
    const bool known =
        std::ranges::count(kPlain, key) ||
        (reader != nullptr && (std::ranges::count(kScaling, key) || std::ranges::count(reader->keys, key)));
    if (!known) json.unsupported(key, "no such key with rope type " + printable(type), json.shown(key));
  }
  if (json.number_or("partial_rotary_factor", 1) != 1)
    json.unsupported("partial_rotary_factor", "1", json.shown("partial_rotary_factor"));
}

/// The context that scaling begins from where its object does not say it: transformers 5 puts the key beside
/// the object in its place, for these kinds. Two that disagree are refused: which of them counts depends on
/// the version of transformers.
std::int64_t context_before(const ConfigJson& root, const ConfigJson& json, std::int64_t max_positions) {
  constexpr std::string_view kTaking[] = {"llama3", "yarn", "longrope"};
  if (!root.has(kOriginal) || std::ranges::count(kTaking, rope_type(json)) == 0) return max_positions;
  const std::int64_t beside = root.integer(kOriginal, 1, kMaxLength);
  if (original_positions(json, beside) != beside)
    json.unsupported(kOriginal, root.shown(kOriginal) + " as the key of that name beside it",
                     json.shown(kOriginal));
  return beside;
}

HfRope read_rope_object(const ConfigJson& root, std::string_view key, double theta,
                        std::int64_t max_positions) {
  const ConfigJson json = root.object(key);
  const RopeScaling scaling = read_scaling(json, context_before(root, json, max_positions));
  check_rope_keys(json);
  return {json.has("rope_theta") ? json.positive("rope_theta") : theta, scaling};
}

}  // namespace

HfRope read_hf_rope(const ConfigJson& json, std::int64_t max_positions) {
  const double theta = json.has("rope_theta") ? json.positive("rope_theta") : HfRope().theta;
  HfRope four{theta, {}};
  if (json.has("rope_scaling")) four = read_rope_object(json, "rope_scaling", theta, max_positions);
  if (!json.has("rope_parameters")) return four;
  const HfRope five = read_rope_object(json, "rope_parameters", theta, max_positions);
  if ((json.has("rope_theta") || json.has("rope_scaling")) && four != five)
    json.unsupported("rope_parameters", "the same as rope_theta and rope_scaling say",
                     json.shown("rope_parameters"));
  return five;
}

}  // namespace moh
