#pragma once

#include <filesystem>
#include <memory>

#include "train/base/formats/weight_file.h"

namespace moh {

/// The description of a model that Meta's own code writes beside its weights.
inline constexpr const char* kMetaConfig = "params.json";

/// Whether `path` is a consolidated.NN.pth with a params.json beside it.
bool is_meta_weights(const std::filesystem::path& path);

/// Opens the weights of a LLaMA 1, 2 or 3 as Meta published them, consolidated.00.pth, consolidated.01.pth
/// ... and params.json in one folder, with the names and the order of elements of Hugging Face's
/// transformers:
/// - each file holds a part of every matrix, as tensor parallelism divides it: rows of wq, wk, wv, w1, w3 and
///   output, columns of wo and w2, and of tok_embeddings rows (LLaMA 3) or columns; norms are in each file;
/// - Meta's code rotates neighbouring elements of a head, 2 i and 2 i + 1, transformers elements i and
///   i + d/2, so row 2 i + j of a head in wq and wk becomes row i + j d/2 (j = 0, 1).
/// Elements are read where they lie, with no copy of a matrix. `first` is consolidated.00.pth. Throws
/// CheckpointError for files that do not fit together or hold anything else.
std::unique_ptr<WeightFile> open_meta_weights(const std::filesystem::path& first);

}  // namespace moh
