#include "train/heads/analyze/analyze_heads.h"

#include <algorithm>
#include <cstddef>
#include <span>

#include "autograd/node.h"
#include "core/error.h"

namespace moh {

namespace {

void check_options(const AnalyzeOptions& options) {
  if (!(options.rank_tolerance > 0 && options.rank_tolerance < 1)) {
    throw ValueError(error_message("analyze", "rank tolerance", "more than 0 and less than 1",
                                   std::to_string(options.rank_tolerance)));
  }
}

/// Two observers, one after the other; the second may be null.
class BothObservers : public AttentionObserver {
 public:
  BothObservers(AttentionObserver& first, AttentionObserver* second) : first_(first), second_(second) {}
  void observe(const AttentionTrace& trace) override {
    first_.observe(trace);
    if (second_ != nullptr) second_->observe(trace);
  }

 private:
  AttentionObserver& first_;
  AttentionObserver* second_;
};

/// Records the selected heads of each token.
class SelectionKeeper : public AttentionObserver {
 public:
  struct Layer {
    std::size_t side = 0;
    std::vector<std::uint8_t> selected;  // [T, H]; empty in a dense layer
  };

  void observe(const AttentionTrace& trace) override {
    layers.push_back(
        {trace.side, trace.choice != nullptr ? selection_of(trace) : std::vector<std::uint8_t>()});
  }
  std::vector<Layer> layers;
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

std::vector<TextTokenReport> analyze_text(const std::vector<LayerHeads>& layers,
                                          const AnalysisInputs& inputs) {
  if (!inputs.text.defined()) return {};
  SelectionKeeper keeper;
  inputs.forward(inputs.text, {.observer = &keeper});
  std::vector<TextTokenReport> tokens;
  std::size_t first = 0;  // of the token's side
  for (std::size_t t = 0; t < inputs.text_tokens.size(); ++t) {
    TextTokenReport token{inputs.text_tokens[t], {}};
    if (token.side != inputs.text_tokens[first].side) first = t;
    for (std::size_t l = 0; l < layers.size(); ++l) {
      const auto& [side, selected] = keeper.layers.at(l);
      token.heads.push_back(side == token.side ? routed_heads_of_token(layers[l], selected, t - first)
                                               : std::vector<std::int64_t>());
    }
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
  MOH_CHECK(layer.moments, "every layer has been watched");
  for (const HeadGroup& group : layer.heads.groups()) {
    if (!layer.output.defined()) break;  // the output projection has no columns for each head
    report.rank_of_groups.emplace_back(group,
                                       layer.moments->of_group(group, layer.output.to(kCpu), tolerance));
  }
  for (std::int64_t h = 0; h < layer.heads.heads; ++h)
    report.rank_of_heads.push_back(layer.moments->of_head(h, tolerance));
  return report;
}

std::vector<TokenReport> token_table(const HeadAnalysis& analysis, const std::vector<ShownToken>& tokens) {
  std::vector<TokenReport> table;
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    TokenReport row{tokens[i], {}};
    for (std::size_t l = 0; l < analysis.layers().size(); ++l) {
      const bool routes = analysis.layers()[l].heads.is_moh();
      row.load.push_back(routes ? analysis.tokens().load(i, static_cast<std::int64_t>(l))
                                : std::vector<double>());
    }
    table.push_back(std::move(row));
  }
  return table;
}

std::vector<std::int32_t> ids_of(const std::vector<ShownToken>& tokens) {
  std::vector<std::int32_t> ids;
  for (const ShownToken& token : tokens) ids.push_back(token.id);
  return ids;
}

class Run {
 public:
  Run(const Model& model, const AnalysisInputs& inputs, const AnalyzeProgressCallback& progress,
      Communicator& processes, HeadDump* dump)
      : inputs_(inputs),
        progress_(progress),
        processes_(processes),
        dump_(dump),
        layers_(layer_heads_of(model.routing())) {
    report_.model = inputs.model;
    report_.unit = inputs.unit;
    report_.tokenizer = inputs.tokenizer;
    report_.options = inputs.options;
    report_.sources = inputs.sources;
    report_.similarity_tokens = inputs.similarity_tokens;
    for (const AnalyzedSource& source : inputs.sources) report_.tokens += source.tokens;
  }

  std::optional<HeadReport> run() {
    report_.text = analyze_text(layers_, inputs_);
    HeadAnalysis analysis({layers_, inputs_.model.vocab_size},
                          static_cast<std::int64_t>(inputs_.sources.size()), ids_of(inputs_.token_table));
    if (!watch(analysis)) return std::nullopt;
    analysis.add_of_all(processes_);
    if (processes_.is_rank0() && !rank(analysis)) return std::nullopt;
    report_.token_table = token_table(analysis, inputs_.token_table);
    return std::move(report_);
  }

 private:
  /// Runs the model over all inputs, in turns with the others; false when a callback stopped it.
  bool watch(HeadAnalysis& analysis) const {
    std::int64_t done = 0;
    for (std::int64_t first = 0; first < inputs_.num_passes; first += processes_.size()) {
      const std::int64_t own = first + processes_.rank();
      if (own < inputs_.num_passes) done += observe(analysis, own);
      const std::int64_t of_all = std::min(done * processes_.size(), report_.tokens);
      if (processes_.max(progress_({false, of_all, report_.tokens}) ? 0 : 1) > 0) return false;
    }
    return true;
  }

  /// Returns the number of tokens of the pass.
  std::int64_t observe(HeadAnalysis& analysis, std::int64_t index) const {
    AnalysisPass pass = inputs_.pass(index);
    const Tensor inputs = pass.inputs;
    const auto tokens = static_cast<std::int64_t>(pass.sources.size());
    if (dump_ != nullptr) dump_->begin(pass, inputs_.model.sides);
    analysis.begin(std::move(pass));
    BothObservers observers(analysis, dump_);
    inputs_.forward(inputs, {.observer = &observers});
    return tokens;
  }

  bool rank(const HeadAnalysis& analysis) {
    const auto total = static_cast<std::int64_t>(analysis.layers().size());
    for (const HeadAnalysis::Layer& layer : analysis.layers()) {
      report_.layers.push_back(report_of(layer, inputs_.sources.size(), report_.options.rank_tolerance));
      if (!progress_({true, static_cast<std::int64_t>(report_.layers.size()), total})) return false;
    }
    return true;
  }

  const AnalysisInputs& inputs_;
  const AnalyzeProgressCallback& progress_;
  Communicator& processes_;
  HeadDump* dump_;
  std::vector<LayerHeads> layers_;
  HeadReport report_;
};

}  // namespace

std::vector<double> LayerReport::routed_load(const HeadUse& of) const {
  std::vector<double> load;
  for (const std::int64_t h : heads.routed) load.push_back(of.load[static_cast<std::size_t>(h)]);
  return load;
}

std::optional<HeadReport> analyze_heads(const Model& model, const AnalysisInputs& inputs,
                                        const AnalyzeProgressCallback& progress, Communicator& processes,
                                        HeadDump* dump) {
  check_options(inputs.options);
  if (processes.size() > inputs.num_passes) {
    throw ValueError(error_message(
        "analyze", "processes", "at most one for each batch of inputs, " + std::to_string(inputs.num_passes),
        std::to_string(processes.size()), "start fewer, or analyse more inputs"));
  }
  const NoGrad no_grad;
  MOH_CHECK(dump == nullptr || processes.size() == 1, "a dump is of one process");
  return Run(model, inputs, progress, processes, dump).run();
}

}  // namespace moh
