#include "tests/train/pictures/golden.h"

#include <algorithm>
#include <cstring>
#include <fstream>

#include "tests/support/sha256.h"
#include "tests/support/shared_data.h"
#include "tests/support/temporary_folder.h"

namespace moh::test {

std::filesystem::path pictures_folder() {
  return std::filesystem::path(MOH_SOURCE_DIR) / "tests/train/pictures";
}

const nlohmann::json& golden_pictures() {
  static const nlohmann::json golden = nlohmann::json::parse(read_file(pictures_folder() / "golden.json"));
  return golden;
}

std::optional<std::filesystem::path> imagenet_sample() {
  const auto shared = shared_data();
  if (!shared) return std::nullopt;
  return *shared / "data/imagenet_sample";
}

std::vector<std::byte> bytes_of(const std::filesystem::path& path) {
  const std::string text = read_file(path);
  std::vector<std::byte> bytes(text.size());
  std::memcpy(bytes.data(), text.data(), text.size());
  return bytes;
}

std::vector<std::byte> sample_bytes(const std::string& name) {
  return bytes_of(pictures_folder() / "data" / name);
}

std::string sha256_of(const Picture& picture) {
  return sha256_hex(std::as_bytes(picture.bytes()));
}

Picture part_of(const Picture& picture, const PictureBox& box) {
  Picture part(box.size());
  for (int y = 0; y < box.height; ++y) {
    std::memcpy(part.row(y),
                picture.row(box.top + y) + static_cast<std::size_t>(box.left) * Picture::kChannels,
                part.row_bytes());
  }
  return part;
}

bool same_pixels(const Picture& a, const Picture& b) {
  return a.size() == b.size() && std::ranges::equal(a.bytes(), b.bytes());
}

}  // namespace moh::test
