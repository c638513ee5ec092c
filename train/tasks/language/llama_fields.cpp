#include "train/tasks/language/llama_fields.h"

#include "train/config/enum_names.h"
#include "train/config/limits.h"
#include "train/config/moh_fields.h"

namespace moh::config {

namespace {

Section describe(RopeScaling& c) {
  Section s("rope_scaling", "Rotary positions stretched for texts longer than those of the pre-training.");
  s.field("kind", c.kind,
          "`linear`: all wavelengths times `factor`. `llama3`: the long ones only, with a blend between long "
          "and short (LLaMA 3.1).");
  s.field("factor", c.factor, at_least(1), "How far wavelengths are stretched.");
  s.field("low_freq_factor", c.low_freq_factor, above(0),
          "With `llama3`: wavelengths above `original_positions` / this are long.");
  s.field("high_freq_factor", c.high_freq_factor, above(0),
          "With `llama3`: wavelengths below `original_positions` / this are short, and stay.");
  s.field("original_positions", c.original_positions, at_least(1, "tokens").capped(kMaxLength),
          "With `llama3`: longest text of the pre-training.");
  return s;
}

}  // namespace

void describe(LlamaConfig& c, Section& s) {
  s.field("vocab_size", c.vocab_size, at_least(2, "tokens").capped(kMaxVocab), "Entries of the embedding.");
  s.field("layers", c.layers, at_least(1).capped(kMaxLayers), "Blocks of attention and MLP.");
  s.field("hidden", c.hidden, at_least(1).capped(kMaxWidth), "Width of the residual stream.");
  s.field("intermediate", c.intermediate, at_least(1).capped(kMaxWidth), "Width inside the MLP.");
  s.field("heads", c.heads, at_least(1).capped(kMaxWidth), "Query heads per layer.");
  s.field("kv_heads", c.kv_heads, at_least(0).capped(kMaxWidth),
          "Key and value heads, each shared by a group of query heads (GQA). 0: as many as `heads`.");
  s.field("head_dim", c.head_dim, at_least(0).capped(kMaxWidth), "Width of a head. 0: `hidden` / `heads`.");
  s.field("max_positions", c.max_positions, at_least(1, "tokens").capped(kMaxLength),
          "Longest text the model can see.");
  s.field("norm_eps", c.norm_eps, above(0), "Added to the mean square in RMSNorm.");
  s.field("rope_theta", c.rope_theta, above(0), "Base of the rotary positions' wavelengths.");
  s.field("tied_embeddings", c.tied_embeddings, "Use the embedding as output matrix too.");
  s.field("dropout", c.dropout, from_below(0, 1),
          "Share of the residual branches' outputs set to 0 in training.");
  s.field("init_std", c.init_std, above(0),
          "Standard deviation of the initial matrices; output projections of the blocks get it divided by "
          "the root of 2 * "
          "`layers`.");
  s.field("recompute", c.recompute,
          "What the backward pass computes again instead of keeping it in memory: `none`, or all inside of a "
          "`layer`.");
  s.section(describe(c.rope_scaling));
  s.section(describe(c.moh));
}

}  // namespace moh::config
