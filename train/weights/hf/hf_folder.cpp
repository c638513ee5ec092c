#include "train/weights/hf/hf_folder.h"

#include <algorithm>
#include <array>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "core/error.h"
#include "train/formats/element_blocks.h"
#include "train/io/durable_file.h"
#include "train/io/input_file.h"

namespace moh {

namespace fs = std::filesystem;

namespace {

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
  const auto read = [&](std::uint64_t offset, std::span<std::byte> block) {
    source.read(offset, block, "contents");
  };
  stream_blocks(source.size(), read, [&](std::span<const std::byte> block) { copy.write(block); });
  copy.sync_and_close();
}

}  // namespace

bool is_hf_model(const ModelLocation& source) {
  return source.config.filename() == "config.json";
}

std::string_view torch_dtype_name(const ModelLocation& source, std::span<const TensorToWrite> tensors) {
  static constexpr std::pair<std::string_view, std::string_view> kNames[] = {
      {"F32", "float32"}, {"BF16", "bfloat16"}, {"F16", "float16"}, {"F64", "float64"}};
  const std::string_view stored = main_type(tensors);
  for (const auto& [name, in_torch] : kNames) {
    if (name == stored) return in_torch;
  }
  throw CheckpointError(error_message(source.weights.string(), "tensors", "F32, BF16, F16 or F64", stored,
                                      "convert with --dtype float32 or --dtype bfloat16"));
}

void copy_companions(const ModelLocation& source, const fs::path& folder) {
  if (!is_hf_model(source)) return;
  const fs::path from = source.config.parent_path();
  std::error_code error;
  for (fs::directory_iterator it(from, error), end; !error && it != end; it.increment(error)) {
    const fs::path name = it->path().filename();
    if (it->is_regular_file() && is_companion(name.string())) copy_durably(it->path(), folder / name);
  }
  if (error) throw CheckpointError(error_message(from.string(), "", "a readable folder", error.message()));
}

}  // namespace moh
