#include "train/weights/foreign_formats.h"

#include <algorithm>
#include <string>
#include <system_error>
#include <utility>

#include "core/error.h"

namespace moh {

namespace fs = std::filesystem;

namespace {

constexpr ForeignFormat
    kDistributed =
        {"a checkpoint of torch.distributed.checkpoint (DCP)",
         "join it with python -m torch.distributed.checkpoint.format_utils dcp_to_torch FOLDER model.pt"},
    kDeepSpeed = {"a checkpoint of DeepSpeed",
                  "join it with the script in it: python zero_to_fp32.py FOLDER OUT"},
    kFsdp = {"a part of a model that FSDP has sharded",
             "in Python, save the full state_dict() (StateDictType.FULL_STATE_DICT)"},
    kAdapter = {"an adapter (LoRA)",
                "in Python, merge it into its model (merge_and_unload) and save that with save_pretrained"},
    kMeta =
        {"a model in the form of Meta's own code",
         "lay its params.json beside consolidated.00.pth and name their folder; other names alone would not "
         "do, as the rows of wq and wk have another order"},
    kLitGpt = {"a model in the form of LitGPT",
               "litgpt convert_from_litgpt FOLDER OUT writes one with the names of transformers"},
    kGpt2 = {"a GPT-2 (nanoGPT)", "moh has no such model: learned positions, LayerNorm, GELU, biases"},
    kQuantised = {"a quantised model (GPTQ, AWQ)",
                  "take the one that it was made from, or dequantise it in Python and save that"},
    kGguf = {"a GGUF file",
             "its weights are quantised or renamed: take the safetensors files that it was made from"},
    kHdf5 = {"an HDF5 file (Keras)", "save the model in the form of transformers"};

using Known = std::pair<std::string_view, const ForeignFormat*>;

/// Formats by the first bytes of a file.
constexpr Known kFiles[] = {{"GGUF", &kGguf}, {"\x89HDF\r\n\x1a\n", &kHdf5}};

/// Formats by the name of a file in a folder.
constexpr Known kFolders[] = {{".metadata", &kDistributed},
                              {"zero_to_fp32.py", &kDeepSpeed},
                              {"adapter_config.json", &kAdapter},
                              {"consolidated.00.pth", &kMeta},
                              {"lit_model.pth", &kLitGpt}};

/// Formats by the suffix of a tensor's name.
constexpr Known kNames[] = {{"tok_embeddings.weight", &kMeta},
                            {"transformer.h.0.attn.qkv.weight", &kLitGpt},
                            {"transformer.h.0.attn.attn.weight", &kLitGpt},
                            {"h.0.attn.c_attn.weight", &kGpt2},
                            {".qweight", &kQuantised},
                            {".lora_A.weight", &kAdapter},
                            {"flat_param", &kFsdp}};

template <class Matches>
const ForeignFormat* find_known(std::span<const Known> known, const Matches& matches) {
  const auto found = std::ranges::find_if(known, matches, &Known::first);
  return found == known.end() ? nullptr : found->second;
}

}  // namespace

const ForeignFormat* foreign_file(const fs::path& path, std::string_view begin) {
  if (path.extension() == ".distcp") return &kDistributed;
  return find_known(kFiles, [&](std::string_view known) { return begin.starts_with(known); });
}

const ForeignFormat* foreign_folder(const fs::path& folder) {
  return find_known(kFolders, [&](std::string_view known) {
    std::error_code ignored;
    return fs::exists(folder / known, ignored);
  });
}

const ForeignFormat* foreign_names(std::span<const WeightInfo> tensors) {
  return find_known(kNames, [&](std::string_view known) {
    return std::ranges::any_of(tensors, [&](const WeightInfo& t) { return t.name.ends_with(known); });
  });
}

void refuse_foreign_names(const WeightFile& weights) {
  const ForeignFormat* const format = foreign_names(weights.tensors());
  if (format == nullptr) return;
  throw CheckpointError(error_message(weights.path().string(), "names", "those of a model that moh has",
                                      "those of " + std::string(format->name), format->fix));
}

}  // namespace moh
