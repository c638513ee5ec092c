#include "models/llm/lora.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <span>

namespace moh {

namespace {

constexpr std::array<std::string_view, 7> kMaps = {"q_proj",    "k_proj",  "v_proj",   "o_proj",
                                                   "gate_proj", "up_proj", "down_proj"};
constexpr std::string_view kNorms = "norms", kEmbeddings = "embeddings";
constexpr std::array<std::string_view, 2> kParts = {kNorms, kEmbeddings};

bool has(std::span<const std::string> names, std::string_view name) {
  return std::ranges::find(names, name) != names.end();
}

/// Reports the first of `names` that is not `known`, or comes twice.
void check_names(std::string_view field, std::span<const std::string> names,
                 std::span<const std::string_view> known, ConfigFaults& faults) {
  std::string all;
  for (const std::string_view name : known) all.append(all.empty() ? "" : ", ").append(name);
  for (const std::string& name : names) {
    if (std::ranges::find(known, name) == known.end())
      return faults.add({field}, "names of " + all, "\"" + name + "\"");
    if (std::ranges::count(names, name) > 1) return faults.add({field}, "each name once", name + " twice");
  }
}

/// "q_proj" of "model.layers.0.self_attn.q_proj.weight".
std::string_view module_of(std::string_view parameter) {
  const std::string_view path = parameter.substr(0, parameter.rfind('.'));
  return path.substr(path.rfind('.') + 1);  // of the whole where there is no dot
}

}  // namespace

bool LoraConfig::adapts(std::string_view map) const {
  return used() && has(targets, map);
}

LoraConfig spelt_out(LoraConfig config) {
  if (!config.used()) return {};
  const auto place = [](const std::string& name) { return std::ranges::find(kMaps, name); };
  std::ranges::sort(config.targets, {}, place);
  std::ranges::sort(config.full);
  return config;
}

void check(const LoraConfig& c, ConfigFaults& faults) {
  if (c.rank < 0) return faults.add({"lora.rank"}, "0 or more", number_text(c.rank));
  if (!(c.alpha > 0)) faults.add({"lora.alpha"}, "a number above 0", number_text(c.alpha));
  check_names("lora.targets", c.targets, kMaps, faults);
  check_names("lora.full", c.full, kParts, faults);
  if (c.used() && c.targets.empty())
    faults.add({"lora.targets", "lora.rank"}, "one or more names with " + faults.key("lora.rank"), "none");
  if (!c.used() && !c.full.empty())
    faults.add({"lora.full", "lora.rank"},
               "an empty list without " + faults.key("lora.rank") + ", as everything is trained",
               "\"" + c.full.front() + "\"");
}

void add_adapters(const LoraConfig& config, std::initializer_list<std::pair<std::string_view, Linear*>> maps,
                  Placement placement) {
  std::vector<Linear*> adapted;
  for (const auto& [name, map] : maps)
    if (config.adapts(name)) adapted.push_back(map);
  if (adapted.empty()) return;
  const std::vector<std::int64_t> ranks(adapted.size(), config.rank);
  const auto downs = adjoining_parameters(adapted.front()->weight().dim(1), ranks, /*bias=*/false, placement);
  for (std::size_t i = 0; i < adapted.size(); ++i) {
    const std::int64_t out = adapted[i]->weight().dim(0);
    const LinearParameterPair up = adjoining_parameters(config.rank, {out}, /*bias=*/false, placement)[0];
    adapted[i]->add_adapter({downs[i].weight, up.weight, config.scale()});
  }
}

bool is_adapter(std::string_view parameter) {
  return parameter.ends_with(kLoraDown) || parameter.ends_with(kLoraUp);
}

void initialise_adapter(const NamedParameter& parameter, RandomKey key) {
  const Tensor value = parameter.variable.value();
  if (parameter.name.ends_with(kLoraUp)) return value.fill(0.0);
  const double bound = 1 / std::sqrt(static_cast<double>(value.dim(1)));
  fill_uniform(value, key, -bound, bound);
}

bool trains(const LoraConfig& config, std::string_view parameter) {
  if (!config.used()) return true;
  const std::string_view module = module_of(parameter);
  if (std::ranges::find(kMaps, module) != kMaps.end()) return false;
  if (module.ends_with("norm")) return has(config.full, kNorms);
  if (module == "embed_tokens" || module == "lm_head") return has(config.full, kEmbeddings);
  return true;
}

}  // namespace moh
