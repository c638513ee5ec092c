#pragma once

#include <filesystem>
#include <string>

#include "tests/support/temporary_folder.h"
#include "train/families/translation/translation_family.h"
#include "train/families/translation/translation_run.h"
#include "train/trainer/config/load_run_config.h"
#include "train/trainer/config/run_config.h"

namespace moh::test {

enum class Heads { kDense, kMoh, kMoa };

/// A run of a small model, on sentences of bytes, in token batches of 64.
inline RunConfig small_run(const std::filesystem::path& pairs, Heads heads = Heads::kMoh) {
  RunConfig run = default_run(translation_family().defaults());
  TranslationRun& own = dynamic_cast<TranslationRun&>(*run.family);
  own.model = {.vocab_size = 256,
               .encoder_layers = 1,
               .decoder_layers = 2,
               .hidden = 16,
               .intermediate = 24,
               .heads = 4,
               .max_positions = 64,
               .dropout = 0,
               .attention_dropout = 0};
  if (heads == Heads::kMoh) own.model.moh = {.router = routers::kLearned, .num_shared = 1, .top_k = 2};
  if (heads == Heads::kMoa) {
    own.model.kv_heads = 1;
    own.model.moh = {
        .router = routers::kLearned, .top_k = 2, .router_init = RouterInit::kZeros, .z_loss_weight = 1e-3};
  }
  own.data.train = {pairs};
  own.data.validation_fraction = 0.25;
  own.data.batch_tokens = 64;
  own.data.max_length = 40;
  run.train.batch_size = 1;
  run.train.accumulate = 2;
  return run;
}

inline std::string write_pairs(const TemporaryFolder& folder) {
  std::string text;
  for (int i = 0; i < 120; ++i)
    text += "sentence number " + std::to_string(i * i) + "\tSatz Nummer " + std::to_string(i) +
            std::string(static_cast<std::size_t>(i % 7), '.') + "\n";
  return write_file(folder / "pairs.tsv", text);
}

}  // namespace moh::test
