#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "models/layers/attention_observer.h"
#include "train/base/formats/weight_file.h"
#include "train/base/io/durable_file.h"
#include "train/trainer/task/analysis_inputs.h"

namespace moh {

/// The tensors of a model's attention layers for some sequences, as one safetensors file for other programs
/// (docs/analyze.md). N sequences, in the order of the passes, of the length of the first one; others are
/// left out. By layer i:
///     layers.i.gates     [N, T, H] float32, 0 where a head is not selected; MoH layers only
///     layers.i.selected  [N, T, H] uint8; MoH layers only
///     layers.i.x, q, k, v, heads   as in AttentionTrace, in the model's dtype; of the chosen layers only
/// besides `tokens` [N, T] int64, where tokens have ids, and `sources` [N] or [N, T] int32, their numbers.
///
/// Packed sequences are of any length: T stands for all of their tokens in place of [N, T], and for each side
/// there are `tokens` [T] and `lengths` [N] int64, after its name as in `source_tokens`.
///
/// Each tensor is gathered in a file of its own, in a hidden folder beside the result, so that memory holds
/// one batch however many sequences there are; the disk holds the data twice while they are put together.
class HeadDump : public AttentionObserver {
 public:
  /// Creates the hidden folder. `layers`: those whose inputs and outputs are written, too. Throws
  /// StorageError.
  HeadDump(std::filesystem::path path, std::int64_t sequences, std::vector<std::int64_t> layers);
  ~HeadDump() override;

  /// To be called before each forward pass, with AnalyzedModel::sides.
  void begin(const AnalysisPass& pass, const std::vector<std::string>& sides);
  /// Throws StorageError.
  void observe(const AttentionTrace& trace) override;
  /// The sequences so far.
  std::int64_t sequences() const { return sequences_; }
  /// Publishes the file, durably, in place of one that may be there. `metadata` is that of the file, beside
  /// the number of sequences and the meaning of the tensors. Throws StorageError.
  void write(WeightFile::Metadata metadata);

 private:
  struct Part;

  bool takes(const AttentionTrace& trace);
  void append(const std::string& name, const Tensor& tensor, std::size_t side);
  void append_rows(const std::string& name, const Tensor& rows);
  void append_inputs();
  void append_packed_inputs();
  bool is_packed() const { return !tokens_of(pass_, 0).offsets.empty(); }

  std::filesystem::path path_;
  std::int64_t wanted_, sequences_ = 0;
  std::vector<std::int64_t> layers_;
  DurableFolder folder_;                                // never published
  std::map<std::string, std::unique_ptr<Part>> parts_;  // by name
  AnalysisPass pass_;
  std::vector<std::string> sides_;
  std::optional<std::int64_t> length_;  // of a sequence in the first layer
  std::int64_t taken_ = 0;              // sequences of the pass
};

}  // namespace moh
