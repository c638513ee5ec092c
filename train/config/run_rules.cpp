#include "train/config/run_rules.h"

#include <set>
#include <string>
#include <vector>

#include "train/config/number_text.h"

namespace moh::config {

namespace {

std::string text(std::int64_t number) {
  return std::to_string(number);
}

void check_heads(const ModelConfig& c, Rules& rules) {
  if (c.head_dim == 0 && c.hidden % c.heads != 0) {
    rules.refuse({"model.heads", "model.hidden", "model.head_dim"},
                 "a divisor of model.hidden (" + text(c.hidden) + ")", text(c.heads),
                 "or set model.head_dim");
  } else if (c.head_width() % 2 != 0) {
    rules.refuse({"model.head_dim", "model.hidden", "model.heads"},
                 "an even number (rotary positions turn pairs)",
                 text(c.head_width()) + (c.head_dim == 0 ? " (model.hidden / model.heads)" : ""));
  }
  if (c.heads % c.num_kv_heads() != 0) {
    rules.refuse({"model.kv_heads", "model.heads"}, "a divisor of model.heads (" + text(c.heads) + ")",
                 text(c.kv_heads));
  }
}

void check_rope_scaling(const RopeScaling& c, Rules& rules) {
  const RopeScaling unset;
  if (c.kind == RopeScalingKind::kNone && c.factor != unset.factor) {
    rules.refuse({"model.rope_scaling.kind", "model.rope_scaling.factor"},
                 "a kind for model.rope_scaling.factor", "none", "set it to linear or llama3");
  } else if (c.kind != RopeScalingKind::kNone && c.factor == unset.factor) {
    rules.refuse({"model.rope_scaling.factor", "model.rope_scaling.kind"}, "a number above 1",
                 number_text(c.factor), "or set model.rope_scaling.kind: none");
  }
  if (c.kind == RopeScalingKind::kLlama3) {
    if (c.high_freq_factor <= c.low_freq_factor) {
      rules.refuse({"model.rope_scaling.high_freq_factor", "model.rope_scaling.low_freq_factor"},
                   "more than low_freq_factor (" + number_text(c.low_freq_factor) + ")",
                   number_text(c.high_freq_factor));
    }
  } else if (RopeScaling other{c.kind, c.factor}; c != other) {
    rules.refuse({"model.rope_scaling.kind", "model.rope_scaling.low_freq_factor",
                  "model.rope_scaling.high_freq_factor", "model.rope_scaling.original_positions"},
                 "llama3 for low_freq_factor, high_freq_factor and original_positions", name_of(c.kind));
  }
}

/// Whether a list has one value per layer. One value for all layers always fits.
bool check_length(std::string_view key, std::string_view init_key, const PerLayer& counts,
                  std::int64_t layers, Rules& rules) {
  const auto length = static_cast<std::int64_t>(counts.each.size());
  if (length == 0 || length == layers) return true;
  rules.refuse({key, init_key, "model.layers"},
               "one value, or one per layer (model.layers is " + text(layers) + ")",
               "a list of " + text(length));
  return false;
}

/// The heads of one layer. Returns whether they fit, so that one layer stands for all that are alike.
bool check_layer(const ModelConfig& c, std::int64_t layer, Rules& rules) {
  const std::int64_t shared = c.moh.shared.at(layer), routed = c.moh.routed.at(layer);
  const std::int64_t candidates = c.heads - shared;
  const std::string where = " (layer " + text(layer) + ")";
  if (candidates < 0) {
    rules.refuse({"model.moh.shared", "init.moh.shared", "model.heads", "model.moh.router"},
                 "at most model.heads (" + text(c.heads) + ")", text(shared) + where);
  } else if (routed > candidates) {
    rules.refuse({"model.moh.routed", "init.moh.routed_top_k", "model.moh.shared", "init.moh.shared",
                  "model.heads", "model.moh.router"},
                 "at most " + text(candidates) + ", the heads that are not shared", text(routed) + where);
  } else if (routed == 0 && candidates > 0) {
    rules.refuse({"model.moh.routed", "init.moh.routed_top_k", "model.moh.shared", "init.moh.shared",
                  "model.heads", "model.moh.router"},
                 "at least 1 of the " + text(candidates) + " heads that are not shared", "0" + where,
                 "a head that no token can keep is dead; to have all on, share them all");
  } else if (c.moh.router == RouterChoice::kQueryNorm && candidates == 1) {
    rules.refuse({"model.moh.shared", "init.moh.shared", "model.moh.router", "model.heads"},
                 "at least 2 heads that are not shared (query_norm compares their norms)", "1" + where);
  } else {
    return true;
  }
  return false;
}

/// What is wrong with a list of shared heads; empty when nothing is.
std::string fault_of(const std::vector<std::int64_t>& listed, std::int64_t heads) {
  const std::set<std::int64_t> different(listed.begin(), listed.end());
  if (different.size() != listed.size()) return "a head twice";
  for (const std::int64_t head : listed) {
    if (head >= heads) return "head " + text(head);
  }
  return "";
}

/// Lists of shared heads fit the counts.
void check_shared_heads(const ModelConfig& c, Rules& rules) {
  const HeadSet& listed = c.moh.shared_heads;
  const auto refuse = [&](const std::string& expected, const std::string& found) {
    rules.refuse({"model.moh.shared_heads", "init.moh.shared_heads", "model.moh.shared", "init.moh.shared"},
                 expected, found);
  };
  if (!listed.listed()) return;
  const auto length = static_cast<std::int64_t>(listed.each.size());
  if (length != 0 && length != c.layers)
    return refuse("one list, or one per layer (model.layers is " + text(c.layers) + ")",
                  text(length) + " lists");
  for (std::int64_t layer = 0; layer < c.layers; ++layer) {
    const std::vector<std::int64_t>& heads = listed.at(layer);
    const std::int64_t shared = c.moh.shared.at(layer);
    const std::string where = " (layer " + text(layer) + ")";
    if (static_cast<std::int64_t>(heads.size()) != shared)
      return refuse("as many heads as model.moh.shared says (" + text(shared) + ")",
                    std::to_string(heads.size()) + where);
    const std::string fault = fault_of(heads, c.heads);
    if (!fault.empty()) return refuse("heads from 0 to " + text(c.heads - 1) + ", each once", fault + where);
  }
}

void check_moh(const ModelConfig& c, Rules& rules) {
  const HeadMixtureConfig& moh = c.moh;
  if (moh.router == RouterChoice::kNone) {
    const PerLayer none;
    if (moh.shared != none || moh.routed != none || moh.shared_heads.listed()) {
      rules.refuse({"model.moh.router", "model.moh.shared", "model.moh.routed"},
                   "a router for model.moh.shared and model.moh.routed", "none",
                   "set model.moh.router: learned, or both counts to 0 for the dense model");
    }
    return;
  }
  if (moh.router == RouterChoice::kQueryNorm && moh.gate_scaling == GateScalingChoice::kPaper) {
    rules.refuse({"model.moh.gate_scaling", "model.moh.router"}, "code with model.moh.router: query_norm",
                 "paper", "selected heads have weight 1 there; nothing is scaled");
  }
  const bool shared_fits = check_length("model.moh.shared", "init.moh.shared", moh.shared, c.layers, rules);
  const bool routed_fits =
      check_length("model.moh.routed", "init.moh.routed_top_k", moh.routed, c.layers, rules);
  if (!shared_fits || !routed_fits) return;
  const std::int64_t num_different = moh.shared.each.empty() && moh.routed.each.empty() ? 1 : c.layers;
  for (std::int64_t layer = 0; layer < num_different; ++layer) {
    if (!check_layer(c, layer, rules)) return;
  }
  check_shared_heads(c, rules);
}

void check_schedule(const RunConfig& run, Rules& rules) {
  const ScheduleConfig& c = run.schedule;
  const std::string peak = "at most optim.learning_rate (" + number_text(run.optim.learning_rate) + ")";
  if (c.min_learning_rate > run.optim.learning_rate) {
    rules.refuse({"schedule.min_learning_rate", "optim.learning_rate"}, peak,
                 number_text(c.min_learning_rate));
  }
  if (c.warmup_start > run.optim.learning_rate) {
    rules.refuse({"schedule.warmup_start", "optim.learning_rate"}, peak, number_text(c.warmup_start));
  }
  if (c.decay_steps != 0 && c.decay_steps <= c.warmup_steps) {
    rules.refuse({"schedule.decay_steps", "schedule.warmup_steps"},
                 "more than schedule.warmup_steps (" + text(c.warmup_steps) + "), or 0", text(c.decay_steps));
  }
}

void check_data(const RunConfig& run, Rules& rules) {
  const DataConfig& c = run.data;
  constexpr std::int64_t kByteVocab = 256;
  if (c.train.empty()) {
    rules.refuse({"data.train"}, "text to train on", "no path", "name files or folders: data.train=text.txt");
  }
  if (c.sequence_length > run.model.max_positions) {
    rules.refuse({"data.sequence_length", "model.max_positions"},
                 "at most model.max_positions (" + text(run.model.max_positions) + ")",
                 text(c.sequence_length));
  }
  if (c.tokenizer == TokenizerKind::kByte && run.model.vocab_size < kByteVocab) {
    rules.refuse({"model.vocab_size", "data.tokenizer"}, "at least 256, the tokens of data.tokenizer: byte",
                 text(run.model.vocab_size));
  }
}

void check_device(const RunConfig& run, Rules& rules) {
  if (run.cuda_graph && run.device == kCpu) {
    rules.refuse({"cuda_graph", "device"}, "false with device: cpu", "true", "or set device: cuda");
  }
  if (run.tf32 && run.device == kCpu) {
    rules.refuse({"tf32", "device"}, "false with device: cpu, which has no TF32", "true");
  }
  const bool cudnn = run.attention.backend == AttentionBackend::kCudnn;
  if (cudnn && (run.device == kCpu || run.precision != Precision::kBFloat16)) {
    rules.refuse(
        {"attention.backend", "device", "precision"}, "cudnn with device: cuda and precision: bfloat16 alone",
        "device: " + device_name(run.device) + ", precision: " + std::string(name_of(run.precision)));
  }
}

}  // namespace

void check(const RunConfig& run, Rules& rules) {
  check_device(run, rules);
  check_heads(run.model, rules);
  check_rope_scaling(run.model.rope_scaling, rules);
  check_moh(run.model, rules);
  check_schedule(run, rules);
  check_data(run, rules);
}

}  // namespace moh::config
