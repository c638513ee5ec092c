#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "train/io/input_file.h"

namespace moh {

/// The index of a pair of files of Megatron-LM, PREFIX.idx and PREFIX.bin (`preprocess_data.py`): where the
/// documents of the ids in PREFIX.bin end.
struct MegatronIndex {
  std::string_view stored_dtype;  ///< as named in safetensors: "U16"
  std::int64_t num_tokens = 0;
  std::vector<std::int64_t> ends;  ///< of the documents that have ids, in order; the last is num_tokens
};

bool looks_like_megatron(std::string_view first_bytes);

/// Reads an index: version 1, integers, sequences one after the other. Memory: 8 bytes a document. Throws
/// DataError for a damaged file, and naming what it has instead.
MegatronIndex read_megatron_index(const InputFile& file);

}  // namespace moh
