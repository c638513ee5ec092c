#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <string>
#include <system_error>
#include <vector>

#include "core/error.h"
#include "train/io/durable_file.h"
#include "train/io/input_file.h"
#include "train/io/safetensors_dtype.h"
#include "train/weights/write_model_folder.h"
#if __has_include("train/weights/hf/hf_export.h")
#include "train/weights/hf/hf_export.h"
#endif

namespace moh {

namespace fs = std::filesystem;

#if __has_include("train/weights/hf/hf_export.h")
namespace {

/// Files beside a model that moh does not read, but that somebody who gets the model needs.
bool is_companion(const std::string& name) {
  static constexpr std::array<std::string_view, 9> kNames = {"tokenizer.json",
                                                             "tokenizer.model",
                                                             "tokenizer_config.json",
                                                             "special_tokens_map.json",
                                                             "added_tokens.json",
                                                             "vocab.json",
                                                             "merges.txt",
                                                             "chat_template.jinja",
                                                             "chat_template.json"};
  return std::ranges::find(kNames, name) != kNames.end() || name.starts_with("LICENSE") ||
         name.starts_with("USE_POLICY") || name.starts_with("NOTICE");
}

void copy_durably(const fs::path& from, const fs::path& to) {
  const InputFile source(from, InputKind::kCheckpoint);
  OutputFile copy(to, source.size());
  std::vector<std::byte> block(1 << 20);
  for (std::uint64_t offset = 0; offset < source.size(); offset += block.size()) {
    const std::span<std::byte> piece =
        std::span(block).first(std::min<std::uint64_t>(block.size(), source.size() - offset));
    source.read(offset, piece, "contents");
    copy.write(piece);
  }
  copy.sync_and_close();
}

void copy_companions(const fs::path& from, const fs::path& to) {
  std::error_code error;
  for (fs::directory_iterator it(from, error), end; !error && it != end; it.increment(error)) {
    const fs::path name = it->path().filename();
    if (it->is_regular_file() && is_companion(name.string())) copy_durably(it->path(), to / name);
  }
  if (error) throw CheckpointError(error_message(from.string(), "", "a readable folder", error.message()));
}

void say_float16(const fs::path& config_json) {
  auto config = nlohmann::ordered_json::parse(read_text_file(config_json, InputKind::kCheckpoint, 1 << 20));
  for (const char* key : {"torch_dtype", "dtype"}) {
    if (config.contains(key)) config[key] = "float16";
  }
  write_file_durably(config_json, config.dump(2) + '\n');
}

}  // namespace

void write_hf_files(const fs::path& folder, const ModelConfig& model, const ModelLocation& source,
                    std::span<const TensorToWrite> tensors) {
  const std::string_view type = main_type(tensors);
  // moh has no dtype float16: the word is put in afterwards.
  const bool half = type == "F16";
  const bool from_hf = source.config.filename() == "config.json";
  const auto dtype = half ? DType::kBFloat16 : find_safetensors_dtype(type)->loads_as;
  if (!dtype) {
    throw CheckpointError(error_message(source.weights.string(), "tensors", "F32, BF16, F16 or F64", type,
                                        "convert with --dtype float32 or --dtype bfloat16"));
  }
  write_hf_model_files(folder, model, *dtype, from_hf ? read_hf_token_ids(source.config) : HfTokenIds{});
  if (half) say_float16(folder / "config.json");
  if (from_hf) copy_companions(source.config.parent_path(), folder);
}
#else
void write_hf_files(const fs::path&, const ModelConfig&, const ModelLocation& source,
                    std::span<const TensorToWrite>) {
  throw ConfigError(source.weights.string() + ": this build cannot write Hugging Face folders");
}
#endif

}  // namespace moh
