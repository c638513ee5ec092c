#include <cmath>
#include <nlohmann/json.hpp>

#include "train/heads/analyze/analyze_heads.h"

namespace moh {

namespace {

using Json = nlohmann::ordered_json;

/// Rounded to six decimals, which keeps the file small; null for NaN and infinity.
Json number(double value) {
  if (!std::isfinite(value)) return nullptr;
  return std::round(value * 1e6) / 1e6 + 0.0;  // no -0
}

Json numbers(const std::vector<double>& values) {
  Json list = Json::array();
  for (const double value : values) list.push_back(number(value));
  return list;
}

Json use_json(const LayerReport& layer, const HeadUse& use) {
  Json object = {{"load", numbers(use.load)},
                 {"gate_mean", numbers(use.gate_mean)},
                 {"gate_std", numbers(use.gate_std)}};
  if (layer.heads.routed.empty()) return object;
  const LoadBalance balance = balance_of(layer.routed_load(use));
  object["entropy"] = number(balance.entropy);
  object["imbalance"] = number(balance.imbalance);
  object["unused"] = balance.unused;
  return object;
}

/// The mean over all pairs of heads, within each group and between groups, and the matrix of all pairs.
Json pairs_json(const HeadPairs& pairs, const std::vector<HeadGroup>& groups) {
  Json object = Json::object(), mean = Json::object(), matrix = Json::array();
  mean["all"] = number(pairs.mean(groups[0], groups[0]));
  for (std::size_t a = 1; a < groups.size(); ++a) {
    for (std::size_t b = a; b < groups.size(); ++b) {
      const std::string name = std::string(groups[a].name) + "_" + std::string(groups[b].name);
      mean[name] = number(pairs.mean(groups[a], groups[b]));
    }
  }
  for (std::int64_t i = 0; i < pairs.heads(); ++i) {
    Json row = Json::array();
    for (std::int64_t j = 0; j < pairs.heads(); ++j) row.push_back(number(pairs.mean(i, j)));
    matrix.push_back(std::move(row));
  }
  object["mean"] = std::move(mean);
  object["matrix"] = std::move(matrix);
  return object;
}

Json rank_json(const FeatureRank& rank) {
  return {{"largest", rank.largest}, {"rank", rank.rank}, {"effective", number(rank.effective)}};
}

Json layer_json(const HeadReport& report, std::size_t index) {
  const LayerReport& layer = report.layers[index];
  Json object = {{"layer", index}};
  if (!report.model.layer_kinds.empty()) object["name"] = name_of(report.model.layer_kinds.at(index));
  object.update({{"shared", layer.heads.shared.size()},
                 {"routed", layer.heads.routed.size()},
                 {"top_k", layer.heads.top_k},
                 {"shared_heads", layer.heads.shared}});
  if (layer.use) {
    object.update(use_json(layer, *layer.use));
    object["by_source"] = Json::array();
    for (std::size_t s = 0; s < layer.by_source.size(); ++s) {
      Json entry = {{"source", report.sources[s].name}};
      entry.update(use_json(layer, layer.by_source[s]));
      object["by_source"].push_back(std::move(entry));
    }
  }
  const std::vector<HeadGroup> groups = layer.heads.groups();
  object["similarity"] = {{"attention", pairs_json(layer.similarity->attention(), groups)},
                          {"outputs", pairs_json(layer.similarity->outputs(), groups)},
                          {"contributions", pairs_json(layer.similarity->contributions(), groups)}};
  Json rank = Json::object();
  for (const auto& [group, found] : layer.rank_of_groups) rank[std::string(group.name)] = rank_json(found);
  rank["heads"] = Json::array();
  for (const FeatureRank& found : layer.rank_of_heads) rank["heads"].push_back(rank_json(found));
  object["rank"] = std::move(rank);
  return object;
}

Json tokens_json(const HeadReport& report) {
  Json table = Json::array();
  for (const TokenReport& token : report.token_table) {
    Json load = Json::array();
    for (const std::vector<double>& layer : token.load) load.push_back(numbers(layer));
    table.push_back(
        {{"id", token.id}, {"text", token.text}, {"count", token.count}, {"load", std::move(load)}});
  }
  return table;
}

}  // namespace

std::string to_json(const HeadReport& report) {
  const AnalyzedModel& model = report.model;
  Json object = {{"format", "moh heads"}, {"version", 1}, {"checkpoint", report.checkpoint}};
  object["model"] = {{"layers", model.layers},     {"hidden", model.hidden},
                     {"heads", model.heads},       {"kv_heads", model.kv_heads},
                     {"head_dim", model.head_dim}, {"vocab_size", model.vocab_size}};
  if (!model.stages.empty()) object["model"]["stages"] = model.stages;
  object["tokenizer"] = report.tokenizer;
  object["sequence_length"] = report.options.sequence_length;
  object["unit"] = report.unit;
  object["tokens"] = report.tokens;
  object["similarity_tokens"] = report.similarity_tokens;
  object["rank_tolerance"] = report.options.rank_tolerance;
  object["sources"] = Json::array();
  for (const AnalyzedSource& source : report.sources) {
    object["sources"].push_back(
        {{"name", source.name}, {"tokens", source.tokens}, {"available", source.available}});
  }
  object["layers"] = Json::array();
  for (std::size_t i = 0; i < report.layers.size(); ++i) object["layers"].push_back(layer_json(report, i));
  object["token_table"] = tokens_json(report);
  object["text"] = Json::array();
  for (const TextTokenReport& token : report.text) {
    object["text"].push_back({{"id", token.id}, {"text", token.text}, {"heads", token.heads}});
    if (!model.sides.empty()) object["text"].back()["side"] = model.sides.at(token.side);
  }
  return object.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace moh
