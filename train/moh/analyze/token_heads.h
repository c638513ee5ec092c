#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace moh {

/// Counts, for chosen tokens, which heads of each layer they use. Memory: chosen tokens x layers x heads.
class TokenHeads {
 public:
  /// `ids` are different and below `vocab_size`; layers may have different numbers of heads.
  TokenHeads(std::vector<std::int32_t> ids, std::int64_t vocab_size,
             std::span<const std::int64_t> heads_of_layers);

  /// N tokens and whether they use each head of a layer, [N, H].
  void add(std::int64_t layer, std::span<const std::int64_t> tokens, std::span<const std::uint8_t> selected);

  const std::vector<std::int32_t>& ids() const { return ids_; }
  /// How often the token was seen in a layer.
  std::int64_t count(std::size_t token, std::int64_t layer) const;
  /// By head: share of these times that it used the head; NaN for a token that was not seen.
  std::vector<double> load(std::size_t token, std::int64_t layer) const;

 private:
  struct Layer {
    std::size_t heads = 0;
    std::vector<std::int64_t> seen;  // by chosen token
    std::vector<std::int64_t> used;  // [chosen token, head]
  };

  std::vector<std::int32_t> ids_;
  std::vector<std::int32_t> place_of_;  // by id; -1: not chosen
  std::vector<Layer> layers_;
};

}  // namespace moh
