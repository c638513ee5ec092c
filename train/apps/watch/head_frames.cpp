#include "train/apps/watch/head_frames.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace moh::watch {

void HeadFrames::add(std::uint32_t step, const std::vector<std::vector<float>>& loads) {
  std::vector<std::uint32_t> heads;
  Frame frame{step, {}};
  for (const std::vector<float>& layer : loads) {
    heads.push_back(static_cast<std::uint32_t>(layer.size()));
    for (const float share : layer)
      frame.shares.push_back(
          static_cast<std::uint16_t>(std::lround(std::clamp(share, 0.0F, 1.0F) * 65535.0F)));
  }
  if (heads != heads_) frames_.clear();
  heads_ = std::move(heads);
  frames_.erase(std::ranges::lower_bound(frames_, step, {}, &Frame::step), frames_.end());
  frames_.push_back(std::move(frame));
}

void HeadFrames::limit(std::size_t bytes) {
  const std::size_t each =
      sizeof(Frame) + (frames_.empty() ? 0 : frames_[0].shares.size() * sizeof(std::uint16_t));
  while (frames_.size() > kMostFrames || (frames_.size() > 1 && frames_.size() * each > bytes)) {
    std::size_t kept = 0;
    for (std::size_t i = 0; i < frames_.size(); i += 2, ++kept)
      if (i != kept) frames_[kept] = std::move(frames_[i]);
    frames_.resize(kept);
  }
}

}  // namespace moh::watch
