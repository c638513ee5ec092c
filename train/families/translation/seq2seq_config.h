#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

#include "models/translation/translation_config.h"
#include "train/families/translation/translation_run.h"

namespace moh {

/// Whether read_seq2seq_config() supports a `model_type`, or has a specific error message for it.
bool is_translation_model_type(std::string_view type);

/// Reads a config.json as Hugging Face's transformers writes it, of model type `marian` (MarianMTModel) or
/// `fsmt` (FSMTForConditionalGeneration, transformers' form of fairseq's models): `model` of the run and the
/// decoder's first token. Absent keys have the defaults of transformers. The file is untrusted: size, depth,
/// types and ranges are checked. Throws CheckpointError for a file that is damaged or missing, ConfigError
/// for a model that moh does not support.
TranslationRun read_seq2seq_config(const std::filesystem::path& config_json);

/// Ids that config.json repeats.
struct Seq2SeqTokens {
  std::int64_t end = 0, decoder_start = 0, pad = 0;
};
/// The ids in a config.json or generation_config.json; nothing where one of them is absent. Throws
/// CheckpointError.
std::optional<Seq2SeqTokens> read_seq2seq_tokens(const std::filesystem::path& json);

/// The text of the config.json of a MarianMTModel; `dtype` is that of its tensors as named in PyTorch
/// ("bfloat16"). `where` begins the message. Throws ConfigError for a model that this class cannot compute:
/// one with routers, norms before the branches, or other positions.
std::string marian_config(std::string_view where, const TranslationConfig& model, const Seq2SeqTokens& tokens,
                          std::string_view dtype);

}  // namespace moh
