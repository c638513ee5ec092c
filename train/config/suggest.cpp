#include "train/config/suggest.h"

#include <algorithm>
#include <cctype>
#include <iterator>
#include <limits>

#include "train/config/fields.h"

namespace moh::config {

namespace {

/// Names of other frameworks for a key, in lower case and separated by spaces.
struct OtherNames {
  std::string_view names, key;
};
constexpr OtherNames kOtherNames[] = {
    {"lr max_lr base_lr peak_lr", "optim.learning_rate"},
    {"wd decay", "optim.weight_decay"},
    {"beta1 beta2 adam_beta1 adam_beta2", "optim.betas"},
    {"adam_epsilon epsilon", "optim.eps"},
    {"grad_clip clip_grad max_grad_norm gradient_clip_val gradient_clipping clip", "optim.clip_grad_norm"},
    {"optimizer optimiser", "optim.name"},
    {"min_lr lr_min eta_min lr_end", "schedule.min_learning_rate"},
    {"warmup warmup_iters num_warmup_steps lr_warmup_steps", "schedule.warmup_steps"},
    {"scheduler lr_scheduler lr_scheduler_type lr_schedule", "schedule.kind"},
    {"cooldown cooldown_iters num_decay_steps wsd_decay_steps", "schedule.cooldown_steps"},
    {"max_steps max_iters train_iters iterations num_steps total_steps num_train_steps", "train.steps"},
    {"epochs num_epochs max_epochs num_train_epochs", "train.epochs"},
    {"ema_decay model_ema_decay", "ema.decay"},
    {"bs micro_batch_size mbs per_device_train_batch_size train_batch_size", "train.batch_size"},
    {"grad_accum gradient_accumulation gradient_accumulation_steps accumulate_grad_batches grad_accum_steps "
     "accumulation_steps",
     "train.accumulate"},
    {"dtype mixed_precision amp bf16 fp16 torch_dtype", "precision"},
    {"random_seed manual_seed", "seed"},
    {"num_threads n_threads num_workers", "threads"},
    {"use_cuda gpu gpus accelerator", "device"},
    {"gradient_checkpointing activation_checkpointing use_checkpoint", "model.recompute"},
    {"out_dir output_dir save_dir run_dir log_dir", "output.dir"},
    {"save_interval save_steps save_every ckpt_interval checkpoint_interval", "checkpoint.every"},
    {"save_total_limit", "checkpoint.keep_last"},
    {"eval_interval eval_steps val_interval eval_every", "eval.every"},
    {"log_interval logging_steps log_every", "log.every"},
    {"init_from pretrained resume_from checkpoint_path model_name_or_path", "init.from"},
    {"dataset train_file train_data train_path data_path data_dir", "data.train"},
    {"val_file val_data valid valid_data validation_file test", "data.validation"},
    {"val_fraction val_split", "data.validation_fraction"},
    {"block_size seq_len seq_length seqlen max_length context_length", "data.sequence_length"},
    {"num_hidden_layers num_layers n_layers n_layer depth", "model.layers"},
    {"hidden_size n_embd d_model dim embed_dim", "model.hidden"},
    {"intermediate_size ffn_dim ffn_hidden_size mlp_dim d_ff", "model.intermediate"},
    {"num_attention_heads n_heads n_head num_heads", "model.heads"},
    {"num_key_value_heads n_kv_heads num_kv_heads", "model.kv_heads"},
    {"max_position_embeddings n_positions max_seq_len", "model.max_positions"},
    {"rms_norm_eps layer_norm_eps", "model.norm_eps"},
    {"tie_word_embeddings tie_embeddings", "model.tied_embeddings"},
    {"initializer_range", "model.init_std"},
    {"vocab vocabulary_size n_vocab", "model.vocab_size"},
};

/// Whether `word` is one of `names`, in upper or lower case.
bool is_one_of(std::string_view word, std::string_view names) {
  std::string padded = " ";
  for (const char c : word) padded += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return (" " + std::string(names) + " ").find(padded + " ") != std::string::npos;
}

/// The candidate that other frameworks call `word`; "" if there is none.
std::string known_elsewhere(std::string_view word, const std::vector<std::string>& candidates) {
  for (const auto& [names, key] : kOtherNames) {
    if (is_one_of(word, names) && std::ranges::count(candidates, key) != 0) return std::string(key);
  }
  return "";
}

/// The first candidate with the smallest distance, or "" if all distances exceed `limit`.
std::string closest(std::string_view word, const std::vector<std::string>& candidates, std::size_t limit) {
  constexpr std::size_t kLongestWord = 64;  // longer ones have no suggestion
  if (word.size() > kLongestWord) return "";
  const auto distance = [&](const std::string& candidate) { return edit_distance(word, candidate); };
  const auto nearest = std::ranges::min_element(candidates, {}, distance);
  return nearest == candidates.end() || distance(*nearest) > limit ? "" : *nearest;
}

}  // namespace

std::string key_elsewhere(std::string_view name) {
  for (const auto& [names, key] : kOtherNames) {
    const std::string_view last = key.substr(key.rfind('.') + 1);
    if (name == last || is_one_of(name, names)) return std::string(key);
  }
  return "";
}

std::size_t edit_distance(std::string_view a, std::string_view b) {
  // Three rows of the dynamic-programming table: distances of the prefixes of a of the current and the last
  // two lengths from all prefixes of b.
  std::vector<std::size_t> before_last, last(b.size() + 1), row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) last[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t replace = last[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      row[j] = std::min({replace, last[j] + 1, row[j - 1] + 1});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
        row[j] = std::min(row[j], before_last[j - 2] + 1);
      }
    }
    before_last = last;
    last = row;
  }
  return last[b.size()];
}

std::string nearest_name(std::string_view word, const std::vector<std::string>& candidates) {
  return closest(word, candidates, std::clamp<std::size_t>(last_name(word).size() / 3, 1, 3));
}

std::string nearest_key(std::string_view key, const std::vector<std::string>& candidates) {
  std::vector<std::string> elsewhere;
  std::ranges::copy_if(candidates, std::back_inserter(elsewhere),
                       [&](const std::string& candidate) { return last_name(candidate) == last_name(key); });
  std::string nearest = closest(key, elsewhere, std::numeric_limits<std::size_t>::max());
  if (nearest.empty()) nearest = known_elsewhere(last_name(key), candidates);
  return nearest.empty() ? nearest_name(key, candidates) : nearest;
}

}  // namespace moh::config
