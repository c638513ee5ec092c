#include "train/families/images/data/noise_pictures.h"

#include <utility>

#include "core/philox.h"
#include "core/random.h"
#include "train/families/images/data/checked_source.h"
#include "train/families/images/data/number_names.h"

namespace moh {

namespace {

constexpr std::uint64_t kNoiseStream = std::uint64_t{3} << 52;

class NoisePictures final : public PictureSource {
 public:
  NoisePictures(std::int64_t count, std::int64_t classes, int side, std::uint64_t seed)
      : count_(count), names_(classes), side_(side), seed_(seed) {}

  std::int64_t size() const override { return count_; }
  std::int64_t label(std::int64_t index) const override { return index % num_classes(); }
  const std::vector<std::string>& class_names() const override { return names_.get(); }
  std::int64_t num_classes() const override { return names_.size(); }
  std::string name(std::int64_t index) const override { return "noise " + std::to_string(index); }
  std::string describe_contents() const override { return std::to_string(count_) + " pictures of noise"; }

  void load(std::int64_t, std::vector<std::byte>& bytes) const override { bytes.clear(); }
  Picture decode(std::int64_t index, const std::vector<std::byte>&, ChooseRegion region) const override {
    Picture picture(region({side_, side_}).size());
    // A number is drawn for a row, which it fills: noise for each pixel would cost more than a small step.
    const RandomKey key{seed_, kNoiseStream | static_cast<std::uint64_t>(index)};
    for (int y = 0; y < picture.height(); ++y) {
      const std::uint64_t first = random_below(key, static_cast<std::uint64_t>(y), std::uint64_t{1} << 24);
      for (std::size_t x = 0; x < picture.row_bytes(); ++x)
        picture.row(y)[x] = static_cast<std::uint8_t>((first + x * 89) >> 3);
    }
    return picture;
  }

 private:
  std::int64_t count_;
  NumberNames names_;
  int side_;
  std::uint64_t seed_;
};

}  // namespace

PictureSourcePtr noise_pictures(std::int64_t count, std::int64_t classes, int side, std::uint64_t seed) {
  return checked_turn<PictureSource>(std::make_shared<NoisePictures>(count, classes, side, seed));
}

}  // namespace moh
