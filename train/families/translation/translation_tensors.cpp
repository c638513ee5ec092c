#include "train/families/translation/translation_tensors.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <span>

#include "models/layers/output_gate.h"
#include "models/translation/position_table.h"
#include "train/weights/load_weights.h"
#include "train/weights/sizes_in.h"

namespace moh {

namespace {

/// Tensors under their names in a file.
struct Tensors {
  const WeightFile& weights;
  std::string prefix;

  const WeightInfo* find(std::string_view name) const { return weights.find(prefix + std::string(name)); }
  std::int64_t length(std::string_view name, std::int64_t axis) const {
    return length_in(weights, prefix + std::string(name), axis);
  }
  std::int64_t layers(const std::string& stack) const {
    return count_in(weights, prefix + stack + ".layers.", ".fc1.weight");
  }
  /// The first that there is of the names of one matrix; null if there is none.
  const WeightInfo* first_of(std::initializer_list<std::string_view> names) const {
    for (const std::string_view name : names) {
      if (const WeightInfo* found = find(name)) return found;
    }
    return nullptr;
  }
};

bool are_one(const WeightFile& weights, const WeightInfo* a, const WeightInfo* b) {
  return a == nullptr || b == nullptr || a == b || same_elements(weights, *a, *b);
}

std::int64_t rows_of(const WeightInfo* matrix) {
  return matrix != nullptr && matrix->shape.rank() == 2 ? matrix->shape[0] : 0;
}

void read_tables(const Tensors& in, TranslationConfig& c) {
  const WeightInfo* source = in.first_of({kSourceTable, "shared.weight"});
  const WeightInfo* target = in.first_of({kTargetTable});
  const WeightInfo* output = in.first_of({kOutputMatrix, "decoder.embed_out"});
  if (output == nullptr) output = in.weights.find("lm_head.weight");
  const WeightInfo* of_target = target != nullptr ? target : source != nullptr ? source : output;
  c.vocab_size = rows_of(of_target);
  c.source_vocab_size = rows_of(source != nullptr ? source : of_target);
  c.shared_embeddings = !are_one(in.weights, of_target, output)  ? SharedEmbeddings::kNone
                        : are_one(in.weights, source, of_target) ? SharedEmbeddings::kAll
                                                                 : SharedEmbeddings::kDecoder;
}

/// Learned positions, or sinusoids, whose table is seldom stored. What fairseq wrote has its defaults.
void read_positions(const Tensors& in, TranslationConfig& c, std::vector<std::string>& untold) {
  const bool of_fairseq = in.weights.find("encoder.version") != nullptr;
  if (of_fairseq) c.position_offset = 2;
  const WeightInfo* table = in.find("encoder.embed_positions.weight");
  const std::optional<SinusoidKind> kind = table != nullptr ? sinusoids_in(in.weights, *table) : std::nullopt;
  if (kind) c.sinusoids = *kind;
  if (table != nullptr && !kind) {
    c.positions = PositionKind::kLearned;
    c.max_positions = std::max<std::int64_t>(rows_of(table) - c.position_offset, 0);
  }
  if (of_fairseq) return;
  untold.insert(untold.end(), {"model.position_offset", "model.scale_embedding"});
  if (table == nullptr) untold.emplace_back("model.sinusoids");
}

/// Widths of projections tell that of heads where queries are as wide as the model.
void read_heads(const Tensors& in, TranslationConfig& c, std::vector<std::string>& untold) {
  const std::int64_t queries = in.length("encoder.layers.0.self_attn.q_proj.weight", 0);
  const std::int64_t keys = in.length("encoder.layers.0.self_attn.k_proj.weight", 0);
  untold.emplace_back("model.heads");
  if (queries != keys) untold.emplace_back("model.kv_heads");
  if (queries != c.hidden) untold.emplace_back("model.head_dim");
  c.heads = 1;
}

}  // namespace

TranslationInTensors translation_in(const WeightFile& weights) {
  constexpr std::string_view kQueries = "encoder.layers.0.self_attn.q_proj.weight";
  const bool plain = weights.find(kQueries) != nullptr;
  const Tensors in{weights, plain ? "" : std::string(kModelPrefix)};
  TranslationInTensors found;
  TranslationConfig& c = found.model;
  c.hidden = in.length(kQueries, 1);
  if (c.hidden == 0) return found;
  c.encoder_layers = in.layers("encoder");
  c.decoder_layers = in.layers("decoder");
  c.intermediate = in.length("encoder.layers.0.fc1.weight", 0);
  c.norm = in.find("encoder.layer_norm.weight") != nullptr ? NormPlace::kBefore : NormPlace::kAfter;
  c.embedding_norm = in.find("encoder.layernorm_embedding.weight") != nullptr;
  c.attention_bias = in.find("encoder.layers.0.self_attn.q_proj.bias") != nullptr;
  c.output_bias = weights.find("final_logits_bias") != nullptr;
  c.attention_gate = gate_of_rows(in.length("encoder.layers.0.self_attn.output_gate.weight", 0),
                                  in.length("encoder.layers.0.self_attn.out_proj.weight", 1));
  read_tables(in, c);
  read_positions(in, c, found.untold);
  read_heads(in, c, found.untold);
  found.untold.emplace_back("model.activation");
  if (has_routers(weights))
    found.untold.insert(found.untold.end(), {"model.moh.router", "model.moh.num_shared", "model.moh.top_k"});
  return found;
}

std::optional<SinusoidKind> sinusoids_in(const WeightFile& weights, const WeightInfo& tensor) {
  constexpr double kTolerance = 4e-3;  // of bfloat16
  if (tensor.shape.rank() != 2 || tensor.shape[0] < 1 || tensor.shape[1] < 4 || tensor.shape[1] % 2 != 0 ||
      !can_convert(tensor.stored_dtype, "F32"))
    return std::nullopt;
  const std::int64_t width = tensor.shape[1];
  std::vector<float> found;
  stream_tensor(weights, tensor, "F32", [&](std::span<const std::byte> block) {
    const std::size_t before = found.size();
    found.resize(before + block.size() / sizeof(float));
    std::memcpy(found.data() + before, block.data(), block.size());
  });
  const auto is_of = [&](SinusoidKind kind) {
    const Tensor table =
        position_table({.hidden = width, .max_positions = tensor.shape[0], .sinusoids = kind});
    for (std::int64_t row = 0; row < tensor.shape[0]; ++row) {
      const std::span<const float> has(found.data() + row * width, static_cast<std::size_t>(width));
      if (std::ranges::all_of(has, [](float x) { return x == 0; })) continue;
      const double* const expected = table.data<double>() + row * width;
      for (std::size_t i = 0; i < has.size(); ++i)
        if (!(std::abs(static_cast<double>(has[i]) - expected[i]) <= kTolerance)) return false;
    }
    return true;
  };
  if (is_of(SinusoidKind::kFairseq)) return SinusoidKind::kFairseq;
  return is_of(SinusoidKind::kMarian) ? std::optional(SinusoidKind::kMarian) : std::nullopt;
}

}  // namespace moh
