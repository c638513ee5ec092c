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

/// The tokens of one sequence of a pass: all of a row of [B, T, ...], or where sequences are packed into one
/// row, those from `begin` to `end`.
struct SequenceRows {
  std::int64_t row = 0, begin = 0, end = 0;

  Tensor of(const Tensor& x) const {
    return x.defined() ? as_floats(x.select(row).slice(begin, end)) : Tensor();
  }
};

SequenceRows rows_of_sequence(const PassTokens& tokens, std::int64_t sequence, std::int64_t length) {
  if (tokens.offsets.empty()) return {sequence, 0, length};
  const auto i = static_cast<std::size_t>(sequence);
  return {0, tokens.offsets.at(i), tokens.offsets.at(i + 1)};
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

Tensor selected_of(const AttentionTrace& trace) {
  return tensor_of<std::uint8_t>({trace.heads.dim(0), trace.heads.dim(1), trace.heads.dim(2)},
                                 selection_of(trace));
}

std::int64_t sequences_in(const AnalysisPass& pass, const AttentionTrace& trace) {
  const PassTokens tokens = tokens_of(pass, trace.side);
  return tokens.offsets.empty() ? trace.heads.dim(0) : std::ssize(tokens.offsets) - 1;
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
  MOH_CHECK(std::ssize(pass_.for_similarity) == sequences_in(pass_, trace), "a flag for every sequence");
  layer.output = trace.output;
  if (!layer.moments) layer.moments.emplace(layer.heads.heads, heads.dim(3));
  layer.moments->add(heads.reshape({tokens, heads.dim(2) * heads.dim(3)}));
  const std::vector<std::uint8_t> selected = selection_of(trace);
  if (trace.choice != nullptr) {
    const Tensor gates = as_floats(trace.choice->gates.value());
    layer.use.add(gates.span<float>(), selected, sources_of_tokens(trace));
    const Tensor ids = tokens_of(pass_, trace.side).ids;
    if (ids.defined()) token_heads_.add(trace.layer, ids.span<std::int64_t>(), selected);
  }
  compare(layer, trace, heads, selected);
}

std::vector<std::int32_t> HeadAnalysis::sources_of_tokens(const AttentionTrace& trace) const {
  const std::int64_t given = std::ssize(pass_.sources), length = trace.heads.dim(1);
  if (given == trace.heads.dim(0) * length) return pass_.sources;
  MOH_CHECK(given == sequences_in(pass_, trace), "a source for every token, or for every sequence");
  const PassTokens tokens = tokens_of(pass_, trace.side);
  std::vector<std::int32_t> sources;
  for (std::int64_t i = 0; i < given; ++i) {
    const SequenceRows rows = rows_of_sequence(tokens, i, length);
    sources.insert(sources.end(), static_cast<std::size_t>(rows.end - rows.begin),
                   pass_.sources[static_cast<std::size_t>(i)]);
  }
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
  const PassTokens queries = tokens_of(pass_, trace.side), keys = tokens_of(pass_, trace.key_side);
  // Packed sequences are compared one by one: the limits of documents are theirs.
  const bool has_starts = trace.document_starts.defined() && queries.offsets.empty();
  MOH_CHECK(!trace.document_ends.defined() || !queries.offsets.empty(), "ends are those of packed sequences");
  const Tensor starts = has_starts ? trace.document_starts.to(kCpu) : Tensor();
  const Tensor output = trace.output.defined() ? as_floats(trace.output) : Tensor();
  const std::int64_t length = heads.dim(1), width = heads.dim(2);
  for (std::int64_t i = 0; i < std::ssize(pass_.for_similarity); ++i) {
    if (!pass_.for_similarity[static_cast<std::size_t>(i)]) continue;
    const SequenceRows rows = rows_of_sequence(queries, i, length);
    const auto begin = selected.begin() + (rows.row * length + rows.begin) * width;
    layer.similarity.add(
        {.q = rows.of(trace.q),
         .k = trace.k.defined() ? rows_of_sequence(keys, i, trace.k.dim(1)).of(trace.k) : Tensor(),
         .heads = rows.of(heads),
         .output = output,
         .causal = trace.causal,
         .window = trace.window,
         .document_starts = has_starts ? starts.select(i) : Tensor(),
         .selected = {begin, begin + (rows.end - rows.begin) * width},
         .patterns = trace.patterns ? trace.patterns(i) : Tensor()});
  }
}

}  // namespace moh
