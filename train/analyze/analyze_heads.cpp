#include "train/analyze/analyze_heads.h"

#include <algorithm>
#include <numeric>
#include <span>

#include "autograd/node.h"
#include "core/error.h"
#include "train/io/printable.h"

namespace moh {

namespace {

void check_options(const Llama& model, const AnalyzeOptions& options) {
  if (!(options.rank_tolerance > 0 && options.rank_tolerance < 1)) {
    throw ValueError(error_message("analyze", "rank tolerance", "more than 0 and less than 1",
                                   std::to_string(options.rank_tolerance)));
  }
  if (options.top_tokens < 0) {
    throw ValueError(
        error_message("analyze", "tokens in the table", "0 or more", std::to_string(options.top_tokens)));
  }
  if (options.sequence_length > model.config().max_positions) {
    throw ValueError(error_message("analyze", "sequence length",
                                   "at most " + std::to_string(model.config().max_positions) + " positions",
                                   std::to_string(options.sequence_length)));
  }
}

std::vector<TokenId> ids_of(const Tokenizer& tokenizer, const std::string& text) {
  std::vector<TokenId> ids;
  tokenizer.encode(text, ids);
  return ids;
}

/// The tokens that were asked for by their text.
std::vector<TokenId> chosen_tokens(const Tokenizer& tokenizer, const std::vector<std::string>& texts) {
  std::vector<TokenId> chosen;
  for (const std::string& text : texts) {
    const std::vector<TokenId> ids = ids_of(tokenizer, text);
    if (ids.size() != 1) {
      throw ValueError(error_message("analyze", "token '" + printable(text) + "'",
                                     "the text of one token of " + std::string(tokenizer.name()),
                                     std::to_string(ids.size()) + " tokens"));
    }
    if (std::ranges::find(chosen, ids[0]) == chosen.end()) chosen.push_back(ids[0]);
  }
  return chosen;
}

/// The most frequent ids, ties by id; none that does not occur.
std::vector<TokenId> most_frequent(std::span<const std::int64_t> counts, std::int64_t number) {
  std::vector<TokenId> ids(counts.size());
  std::iota(ids.begin(), ids.end(), 0);
  const auto count = [&](TokenId id) { return counts[static_cast<std::size_t>(id)]; };
  const auto kept = std::min(ids.size(), static_cast<std::size_t>(number));
  std::ranges::partial_sort(ids, ids.begin() + static_cast<std::ptrdiff_t>(kept), [&](TokenId a, TokenId b) {
    return count(a) != count(b) ? count(a) > count(b) : a < b;
  });
  ids.resize(kept);
  std::erase_if(ids, [&](TokenId id) { return count(id) == 0; });
  return ids;
}

/// Notes which heads each token uses.
class SelectionKeeper : public AttentionObserver {
 public:
  void observe(const AttentionTrace& trace) override {
    if (trace.choice == nullptr) {
      selected.emplace_back();
    } else {
      selected.push_back(selection_of(trace));
    }
  }
  std::vector<std::vector<std::uint8_t>> selected;  // by layer, [T, H]; empty in a dense layer
};

std::vector<std::int64_t> routed_heads_of_token(const LayerHeads& layer,
                                                std::span<const std::uint8_t> selected, std::size_t token) {
  std::vector<std::int64_t> heads;
  for (const std::int64_t h : layer.routed) {
    if (selected[token * static_cast<std::size_t>(layer.heads) + static_cast<std::size_t>(h)] != 0)
      heads.push_back(h);
  }
  return heads;
}

std::vector<TextTokenReport> analyze_text(const Llama& model, const Tokenizer& tokenizer,
                                          const std::string& text) {
  const std::vector<TokenId> ids = ids_of(tokenizer, text);
  const auto length = static_cast<std::int64_t>(ids.size());
  if (length == 0) return {};
  if (length > model.config().max_positions) {
    throw ValueError(error_message("analyze", "text",
                                   "at most " + std::to_string(model.config().max_positions) + " tokens",
                                   std::to_string(length)));
  }
  SelectionKeeper keeper;
  model.forward(tensor_of<TokenId>({1, length}, ids), {.observer = &keeper});
  const std::vector<LayerHeads> layers = layer_heads_of(model.config());
  std::vector<TextTokenReport> tokens;
  for (std::size_t t = 0; t < ids.size(); ++t) {
    TextTokenReport token{ids[t], printable(tokenizer.token_bytes(ids[t])), {}};
    for (std::size_t l = 0; l < layers.size(); ++l)
      token.heads.push_back(routed_heads_of_token(layers[l], keeper.selected[l], t));
    tokens.push_back(std::move(token));
  }
  return tokens;
}

LayerReport report_of(const HeadAnalysis::Layer& layer, std::size_t labels, double tolerance) {
  LayerReport report{.heads = layer.heads, .similarity = layer.similarity};
  if (layer.heads.is_moh()) {
    report.use = layer.use.overall();
    for (std::size_t label = 0; label < labels; ++label)
      report.by_source.push_back(layer.use.of_label(static_cast<std::int64_t>(label)));
  }
  const Tensor output = layer.output.to(kCpu);
  for (const HeadGroup& group : layer.heads.groups())
    report.rank_of_groups.emplace_back(group, layer.moments.of_group(group, output, tolerance));
  for (std::int64_t h = 0; h < layer.heads.heads; ++h)
    report.rank_of_heads.push_back(layer.moments.of_head(h, tolerance));
  return report;
}

std::vector<TokenReport> token_table(const HeadAnalysis& analysis, const Tokenizer& tokenizer,
                                     std::span<const std::int64_t> counts) {
  std::vector<TokenReport> table;
  const std::vector<TokenId>& ids = analysis.tokens().ids();
  for (std::size_t i = 0; i < ids.size(); ++i) {
    // A model's vocabulary may be padded beyond the tokenizer's.
    const bool known = ids[i] < tokenizer.vocab_size();
    TokenReport row{ids[i],
                    known ? printable(tokenizer.token_bytes(ids[i])) : "",
                    counts[static_cast<std::size_t>(ids[i])],
                    {}};
    for (std::size_t l = 0; l < analysis.layers().size(); ++l) {
      const bool routes = analysis.layers()[l].heads.is_moh();
      row.load.push_back(routes ? analysis.tokens().load(i, static_cast<std::int64_t>(l))
                                : std::vector<double>());
    }
    table.push_back(std::move(row));
  }
  return table;
}

/// One analysis on its way.
class Run {
 public:
  Run(const Llama& model, const Tokenizer& tokenizer, const std::vector<AnalysisSource>& sources,
      const AnalyzeOptions& options, const AnalyzeProgressCallback& progress)
      : model_(model),
        tokenizer_(tokenizer),
        progress_(progress),
        counts_(static_cast<std::size_t>(model.config().vocab_size)) {
    report_.model = model.config();
    report_.tokenizer = tokenizer.name();
    report_.options = options;
    open(sources);
  }

  std::optional<HeadReport> run() {
    const AnalyzeOptions& options = report_.options;
    const std::vector<TokenId> ids = options.tokens.empty() ? most_frequent(counts_, options.top_tokens)
                                                            : chosen_tokens(tokenizer_, options.tokens);
    report_.text = analyze_text(model_, tokenizer_, options.text);
    const LlamaConfig& config = model_.config();
    HeadAnalysis analysis({layer_heads_of(config), config.head_dim, config.vocab_size},
                          static_cast<std::int64_t>(sequences_.size()), ids);
    if (!watch(analysis) || !rank(analysis)) return std::nullopt;
    report_.token_table = token_table(analysis, tokenizer_, counts_);
    return std::move(report_);
  }

 private:
  void open(const std::vector<AnalysisSource>& sources) {
    const AnalyzeOptions& options = report_.options;
    const auto share = static_cast<std::int64_t>(sources.size());
    for (const AnalysisSource& source : sources) {
      const AnalysisSequences& opened = sequences_.emplace_back(
          source.tokens, AnalysisSizes{options.sequence_length, options.batch_size, options.max_tokens,
                                       (options.similarity_tokens + share - 1) / share});
      count_tokens(opened, counts_);
      report_.sources.push_back({source.name, opened.num_tokens(), source.tokens->size()});
      report_.tokens += opened.num_tokens();
      report_.similarity_tokens += opened.num_similarity_tokens();
    }
  }

  /// Runs the model over all sequences; false when asked to stop.
  bool watch(HeadAnalysis& analysis) const {
    std::int64_t done = 0;
    for (std::size_t label = 0; label < sequences_.size(); ++label) {
      for (std::int64_t i = 0; i < sequences_[label].size(); ++i) {
        const AnalysisBatch batch = sequences_[label].at(i);
        const auto tokens = static_cast<std::size_t>(batch.tokens.numel());
        analysis.begin(batch.tokens, std::vector<std::int32_t>(tokens, static_cast<std::int32_t>(label)),
                       batch.for_similarity);
        model_.forward(batch.tokens, {.observer = &analysis});
        done += batch.tokens.numel();
        if (!progress_({false, done, report_.tokens})) return false;
      }
    }
    return true;
  }

  bool rank(const HeadAnalysis& analysis) {
    const auto total = static_cast<std::int64_t>(analysis.layers().size());
    for (const HeadAnalysis::Layer& layer : analysis.layers()) {
      report_.layers.push_back(report_of(layer, sequences_.size(), report_.options.rank_tolerance));
      if (!progress_({true, static_cast<std::int64_t>(report_.layers.size()), total})) return false;
    }
    return true;
  }

  const Llama& model_;
  const Tokenizer& tokenizer_;
  const AnalyzeProgressCallback& progress_;
  std::vector<AnalysisSequences> sequences_;  // by source
  std::vector<std::int64_t> counts_;          // by token id
  HeadReport report_;
};

}  // namespace

std::vector<double> LayerReport::routed_load(const HeadUse& of) const {
  std::vector<double> load;
  for (const std::int64_t h : heads.routed) load.push_back(of.load[static_cast<std::size_t>(h)]);
  return load;
}

std::optional<HeadReport> analyze_heads(const Llama& model, const Tokenizer& tokenizer,
                                        const std::vector<AnalysisSource>& sources,
                                        const AnalyzeOptions& options,
                                        const AnalyzeProgressCallback& progress) {
  check_options(model, options);
  const NoGrad no_grad;
  return Run(model, tokenizer, sources, options, progress).run();
}

}  // namespace moh
