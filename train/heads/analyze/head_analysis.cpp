#include "train/heads/analyze/head_analysis.h"

#include <string>
#include <utility>

#include "core/error.h"
#include "models/layers/head_routing.h"

namespace moh {

namespace {

std::vector<std::int64_t> head_counts(const std::vector<LayerHeads>& layers) {
  std::vector<std::int64_t> counts;
  for (const LayerHeads& layer : layers) counts.push_back(layer.heads);
  return counts;
}

Tensor as_floats(const Tensor& tensor) {
  return tensor.to(kCpu).to(DType::kFloat32);
}

void require_finite(const AttentionTrace& trace) {
  if (trace.heads.all_finite()) return;
  throw NumericError(error_message("analyze", "layer " + std::to_string(trace.layer), "finite head outputs",
                                   "NaN or infinity", "use an earlier checkpoint"));
}

}  // namespace

std::vector<std::uint8_t> selection_of(const AttentionTrace& trace) {
  const auto pairs = static_cast<std::size_t>(trace.heads.dim(0) * trace.heads.dim(1) * trace.heads.dim(2));
  if (trace.choice == nullptr) return std::vector<std::uint8_t>(pairs, 1);
  // The units of each token that the router counts: heads, or groups of heads that follow each other.
  const Tensor units = trace.choice->routing.selected.to(kCpu);
  const auto count = static_cast<std::size_t>(units.numel());
  MOH_CHECK(count > 0 ? pairs % count == 0 : pairs == 0, "units of as many heads each");
  std::vector<std::uint8_t> selected;
  selected.reserve(pairs);
  for (const std::uint8_t unit : units.span<std::uint8_t>())
    selected.insert(selected.end(), pairs / count, unit);
  return selected;
}

HeadAnalysis::HeadAnalysis(const WatchedModel& model, std::int64_t sources, std::vector<std::int32_t> ids)
    : token_heads_(std::move(ids), model.vocab_size, head_counts(model.layers)) {
  for (const LayerHeads& layer : model.layers)
    layers_.push_back({layer, HeadUseCounter(layer.heads, sources), HeadSimilarity(layer.heads), {}, {}});
}

void HeadAnalysis::begin(AnalysisPass pass) {
  pass_ = std::move(pass);
}

void HeadAnalysis::observe(const AttentionTrace& trace) {
  require_finite(trace);
  Layer& layer = layers_.at(static_cast<std::size_t>(trace.layer));
  MOH_CHECK(trace.heads.dim(2) == layer.heads.heads && (trace.choice != nullptr) == layer.heads.is_moh(),
            "the layer's heads and router are those of WatchedModel");
  const Tensor heads = as_floats(trace.heads);
  const std::int64_t tokens = heads.dim(0) * heads.dim(1);
  MOH_CHECK(static_cast<std::int64_t>(pass_.for_similarity.size()) == heads.dim(0),
            "a flag for every sequence");
  layer.output = trace.output;
  if (!layer.moments) layer.moments.emplace(layer.heads.heads, heads.dim(3));
  layer.moments->add(heads.reshape({tokens, heads.dim(2) * heads.dim(3)}));
  const std::vector<std::uint8_t> selected = selection_of(trace);
  if (trace.choice != nullptr) {
    const Tensor gates = as_floats(trace.choice->gates.value());
    layer.use.add(gates.span<float>(), selected, sources_of_tokens(heads.dim(0), heads.dim(1)));
    if (pass_.ids.defined()) token_heads_.add(trace.layer, pass_.ids.span<std::int64_t>(), selected);
  }
  compare(layer, trace, heads, selected);
}

std::vector<std::int32_t> HeadAnalysis::sources_of_tokens(std::int64_t sequences, std::int64_t length) const {
  const auto given = static_cast<std::int64_t>(pass_.sources.size());
  if (given == sequences * length) return pass_.sources;
  MOH_CHECK(given == sequences, "a source for every token, or for every sequence");
  std::vector<std::int32_t> sources;
  for (const std::int32_t source : pass_.sources)
    sources.insert(sources.end(), static_cast<std::size_t>(length), source);
  return sources;
}

void HeadAnalysis::add_of_all(Communicator& processes) {
  for (Layer& layer : layers_) {
    if (layer.heads.is_moh()) layer.use.add_of_all(processes);
    layer.similarity.add_of_all(processes);
    layer.moments.value().add_of_all(processes);
  }
  token_heads_.add_of_all(processes);
}

void HeadAnalysis::compare(Layer& layer, const AttentionTrace& trace, const Tensor& heads,
                           std::span<const std::uint8_t> selected) const {
  if (!trace.q.defined() && !trace.patterns) return;  // no attention that could be compared
  const std::int64_t per_sequence = heads.dim(1) * heads.dim(2);
  const Tensor starts = trace.document_starts.defined() ? trace.document_starts.to(kCpu) : Tensor();
  for (std::int64_t b = 0; b < heads.dim(0); ++b) {
    if (!pass_.for_similarity[static_cast<std::size_t>(b)]) continue;
    const auto begin = selected.begin() + b * per_sequence;
    const bool has_queries = trace.q.defined();
    layer.similarity.add({.q = has_queries ? as_floats(trace.q.select(b)) : Tensor(),
                          .k = has_queries ? as_floats(trace.k.select(b)) : Tensor(),
                          .heads = heads.select(b),
                          .output = trace.output.defined() ? as_floats(trace.output) : Tensor(),
                          .causal = trace.causal,
                          .window = trace.window,
                          .document_starts = starts.defined() ? starts.select(b) : Tensor(),
                          .selected = {begin, begin + per_sequence},
                          .patterns = trace.patterns ? trace.patterns(b) : Tensor()});
  }
}

}  // namespace moh
