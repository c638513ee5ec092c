#include "train/families/images/picture_reader.h"

#include <cstddef>
#include <vector>

#include "train/base/io/printable.h"
#include "train/families/images/data/picture_source.h"
#include "train/families/images/image_run.h"

namespace moh {

PictureReader::PictureReader(const ImageRun& run)
    : view_(evaluation_view_of(run.settled_data())), normalizer_(view_.normalize) {}

Tensor PictureReader::read(std::span<const std::filesystem::path> files) const {
  Tensor pictures = empty({std::ssize(files), view_.crop, view_.crop, Picture::kChannels}, DType::kFloat32);
  std::vector<std::byte> bytes;
  for (std::int64_t i = 0; i < pictures.dim(0); ++i) {
    const std::filesystem::path& file = files[static_cast<std::size_t>(i)];
    read_picture_file(file, bytes);
    const Tensor row = pictures.select(i);
    make_evaluation_picture(view_, normalizer_, bytes, printable_path(file), row.span<float>());
  }
  return pictures;
}

}  // namespace moh
