#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "train/comm/communicator.h"

namespace moh {

/// Counts how often tokens of given ids select each head of each layer. Memory: ids x layers x heads.
class TokenHeads {
 public:
  /// `ids` are distinct and below `vocab_size`; layers may have different numbers of heads.
  TokenHeads(std::vector<std::int32_t> ids, std::int64_t vocab_size,
             std::span<const std::int64_t> heads_of_layers);

  /// Adds N tokens: their ids, and whether each selects each head of a layer, [N, H].
  void add(std::int64_t layer, std::span<const std::int64_t> tokens, std::span<const std::uint8_t> selected);

  /// Adds the tokens of the other processes. A collective.
  void add_of_all(Communicator& processes);

  const std::vector<std::int32_t>& ids() const { return ids_; }
  /// How often ids()[token] occurred in a layer's input.
  std::int64_t count(std::size_t token, std::int64_t layer) const;
  /// By head: the share of these occurrences that selected the head; NaN if there are none.
  std::vector<double> load(std::size_t token, std::int64_t layer) const;

 private:
  struct Layer {
    std::size_t heads = 0;
    std::vector<std::int64_t> seen;  // occurrences, by index into ids_
    std::vector<std::int64_t> used;  // [index into ids_, head]
  };

  std::vector<std::int32_t> ids_;
  std::vector<std::int32_t> place_of_;  // index into ids_, by id; -1: not in it
  std::vector<Layer> layers_;
};

}  // namespace moh
