#include <algorithm>
#include <cmath>
#include <cstdarg>
#include <cstdio>
#include <functional>
#include <numeric>
#include <ostream>

#include "train/base/log/format.h"
#include "train/heads/analyze/analyze_heads.h"

namespace moh {

namespace {

/// Writes one line, formatted as by printf.
[[gnu::format(printf, 2, 3)]] void line(std::ostream& out, const char* format, ...) {
  char text[256];
  va_list arguments;
  va_start(arguments, format);
  std::vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  out << text << '\n';
}

/// "0.123", or "-" for NaN.
std::string shown(double value, int digits = 3) {
  return std::isfinite(value) ? format_fixed(value, digits) : "-";
}

const FeatureRank* rank_of(const LayerReport& layer, std::string_view group) {
  const auto found = std::ranges::find_if(layer.rank_of_groups,
                                          [&](const auto& entry) { return entry.first.name == group; });
  return found == layer.rank_of_groups.end() ? nullptr : &found->second;
}

std::string shown_rank(const LayerReport& layer, std::string_view group) {
  const FeatureRank* rank = rank_of(layer, group);
  if (rank == nullptr) return "-";
  return std::to_string(rank->rank) + "/" + std::to_string(rank->largest) + " " +
         format_fixed(rank->effective, 1);
}

/// The number of a layer, and its name where layers are of several kinds.
std::string label(const HeadReport& report, std::size_t layer) {
  std::string number = std::to_string(layer);
  if (report.model.layer_kinds.empty()) return number;
  return number + " " + name_of(report.model.layer_kinds.at(layer));
}

/// The label in a column of the tables.
std::string first_column(const HeadReport& report, std::string text) {
  std::size_t width = 6;
  for (std::size_t i = 0; i < report.layers.size(); ++i) width = std::max(width, label(report, i).size() + 2);
  text.resize(std::max(width, text.size()), ' ');
  return text;
}

std::string row_label(const HeadReport& report, std::size_t layer) {
  return first_column(report, label(report, layer));
}

void write_loads(std::ostream& out, const HeadReport& report) {
  line(out, "%s%-22s%9s%9s%9s%9s%11s", first_column(report, "layer").c_str(), "heads", "min load", "mean",
       "max", "entropy", "imbalance");
  for (std::size_t i = 0; i < report.layers.size(); ++i) {
    const LayerReport& layer = report.layers[i];
    const std::vector<double> load = layer.use ? layer.routed_load(*layer.use) : std::vector<double>();
    if (load.empty()) {
      line(out, "%s%lld, %s", row_label(report, i).c_str(), static_cast<long long>(layer.heads.heads),
           layer.heads.is_moh() ? "all of them shared" : "dense");
      continue;
    }
    const LoadBalance balance = balance_of(load);
    const std::string heads = std::to_string(layer.heads.shared.size()) + " shared, " +
                              std::to_string(layer.heads.top_k) + " of " +
                              std::to_string(layer.heads.routed.size());
    line(out, "%s%-22s%9.3f%9.3f%9.3f%9s%11s", row_label(report, i).c_str(), heads.c_str(),
         std::ranges::min(load),
         std::accumulate(load.begin(), load.end(), 0.0) / static_cast<double>(load.size()),
         std::ranges::max(load), shown(balance.entropy).c_str(), shown(balance.imbalance, 2).c_str());
  }
}

void write_pairs(std::ostream& out, const HeadReport& report) {
  line(out, "\n%s%27s%27s%27s", first_column(report, "layer").c_str(), "similarity of attention",
       "of outputs", "of contributions");
  line(out, "%s%9s%9s%9s%9s%9s%9s%9s%9s%9s", first_column(report, "").c_str(), "all", "shared", "routed",
       "all", "shared", "routed", "all", "shared", "routed");
  for (std::size_t i = 0; i < report.layers.size(); ++i) {
    const LayerReport& layer = report.layers[i];
    const HeadGroup all = layer.heads.groups().front(), shared{"shared", layer.heads.shared},
                    routed{"routed", layer.heads.routed};
    std::string cells;
    for (const HeadPairs* pairs :
         {&layer.similarity->attention(), &layer.similarity->outputs(), &layer.similarity->contributions()}) {
      for (const HeadGroup* group : {&all, &shared, &routed}) {
        char mean[16];
        std::snprintf(mean, sizeof mean, "%9s", shown(pairs->mean(*group, *group)).c_str());
        cells += mean;
      }
    }
    line(out, "%s%s", row_label(report, i).c_str(), cells.c_str());
  }
}

void write_ranks(std::ostream& out, const HeadReport& report) {
  line(out, "\n%s%20s%20s%20s", first_column(report, "layer").c_str(), "rank, effective: all", "shared",
       "routed");
  for (std::size_t i = 0; i < report.layers.size(); ++i) {
    const LayerReport& layer = report.layers[i];
    line(out, "%s%20s%20s%20s", row_label(report, i).c_str(), shown_rank(layer, "all").c_str(),
         shown_rank(layer, "shared").c_str(), shown_rank(layer, "routed").c_str());
  }
}

/// The last layer with routed heads, of each kind, which the MoH paper shows, too; none in a dense model.
std::vector<std::size_t> last_routed_layers(const HeadReport& report) {
  const auto kind_of = [&](std::size_t layer) {
    return report.model.layer_kinds.empty() ? "" : report.model.layer_kinds.at(layer).kind;
  };
  std::vector<std::size_t> last;
  for (std::size_t i = report.layers.size(); i-- > 0;) {
    const auto is_of_kind = [&](std::size_t layer) { return kind_of(layer) == kind_of(i); };
    if (!report.layers[i].heads.routed.empty() && std::ranges::none_of(last, is_of_kind))
      last.insert(last.begin(), i);
  }
  return last;
}

void write_sources(std::ostream& out, const HeadReport& report, std::size_t index) {
  const LayerReport& layer = report.layers[index];
  line(out, "\nload in layer %s, by source", label(report, index).c_str());
  std::string names = "  head";
  constexpr std::size_t kMost = 12;
  const std::size_t sources = std::min(report.sources.size(), kMost);
  for (std::size_t s = 0; s < sources; ++s) {
    char cell[32];
    std::snprintf(cell, sizeof cell, "%13.12s", report.sources[s].name.c_str());
    names += cell;
  }
  out << names << '\n';
  for (const std::int64_t h : layer.heads.routed) {
    char cell[32];
    std::snprintf(cell, sizeof cell, "%6lld", static_cast<long long>(h));
    std::string row = cell;
    for (std::size_t s = 0; s < sources; ++s) {
      std::snprintf(cell, sizeof cell, "%13.3f", layer.by_source[s].load[static_cast<std::size_t>(h)]);
      row += cell;
    }
    out << row << '\n';
  }
}

/// The top_k (at most 8) routed heads that a token selects most often, with the share of its occurrences.
std::string favourite_heads(const LayerHeads& layer, const std::vector<double>& load) {
  std::vector<std::int64_t> heads = layer.routed;
  std::ranges::stable_sort(heads, std::greater<>(),
                           [&](std::int64_t h) { return load[static_cast<std::size_t>(h)]; });
  std::string text;
  for (std::int64_t i = 0; i < std::min<std::int64_t>(layer.top_k, 8); ++i) {
    const std::int64_t h = heads[static_cast<std::size_t>(i)];
    text += (i > 0 ? ", " : "") + std::to_string(h) + " (" +
            format_fixed(100 * load[static_cast<std::size_t>(h)], 0) + "%)";
  }
  return text;
}

void write_tokens(std::ostream& out, const HeadReport& report, std::size_t layer) {
  constexpr std::size_t kMost = 10;
  const LayerHeads& heads = report.layers[layer].heads;
  line(out, "\ntoken            count  routed heads it uses most in layer %s", label(report, layer).c_str());
  std::size_t lines = 0;
  for (const TokenReport& token : report.token_table) {
    if (token.count > 0 && std::isnan(token.load[layer].front())) continue;  // of the other side alone
    if (++lines > kMost) break;
    const std::string name = "'" + token.text + "'";
    if (token.count == 0) {
      line(out, "%-12.12s%10d  (does not occur)", name.c_str(), 0);
      continue;
    }
    line(out, "%-12.12s%10lld  %s", name.c_str(), static_cast<long long>(token.count),
         favourite_heads(heads, token.load[layer]).c_str());
  }
}

void write_text(std::ostream& out, const HeadReport& report, std::size_t layer) {
  line(out, "\ntext          routed heads in layer %s", label(report, layer).c_str());
  for (const TextTokenReport& token : report.text) {
    if (token.heads[layer].empty()) continue;  // of the other side
    std::string heads;
    for (const std::int64_t h : token.heads[layer]) heads += (heads.empty() ? "" : ", ") + std::to_string(h);
    const std::string name = "'" + token.text + "'";
    line(out, "%-12.12s  %s", name.c_str(), heads.c_str());
  }
}

}  // namespace

void write_tables(std::ostream& out, const HeadReport& report) {
  for (const AnalyzedSource& source : report.sources) {
    line(out, "%-16.64s %lld of %lld %s", source.name.c_str(), static_cast<long long>(source.tokens),
         static_cast<long long>(source.available), report.unit.c_str());
  }
  out << '\n';
  write_loads(out, report);
  write_pairs(out, report);
  write_ranks(out, report);
  for (const std::size_t last : last_routed_layers(report)) {
    if (report.sources.size() > 1) write_sources(out, report, last);
    if (!report.token_table.empty()) write_tokens(out, report, last);
    if (!report.text.empty()) write_text(out, report, last);
  }
}

}  // namespace moh
