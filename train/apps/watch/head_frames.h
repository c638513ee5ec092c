#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace moh::watch {

/// How often the heads of a model's layers were chosen, at some steps of a run. Shares are kept as 16-bit
/// numbers. All frames have the same layers and heads.
class HeadFrames {
 public:
  struct Frame {
    std::uint32_t step = 0;
    std::vector<std::uint16_t> shares;  ///< layer after layer, of 65535
  };

  /// `loads`: by layer the share of tokens, 0 to 1, of each head. Frames at this step and after it are
  /// dropped, and all of them if the layers or heads are other ones.
  void add(std::uint32_t step, const std::vector<std::vector<float>>& loads);
  /// As many as a slider can tell apart.
  static constexpr std::size_t kMostFrames = 1024;
  /// Drops every second frame until there are at most kMostFrames, and they take at most so many bytes.
  void limit(std::size_t bytes);

  const std::vector<std::uint32_t>& heads() const { return heads_; }  ///< of each layer
  const std::vector<Frame>& frames() const { return frames_; }

 private:
  std::vector<std::uint32_t> heads_;
  std::vector<Frame> frames_;
};

}  // namespace moh::watch
