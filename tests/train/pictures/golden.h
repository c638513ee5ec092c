#pragma once

#include <cstddef>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "train/base/formats/pictures/picture.h"

namespace moh::test {

/// tests/train/pictures: golden.json and data/, which make_golden.py makes.
std::filesystem::path pictures_folder();

/// golden.json.
const nlohmann::json& golden_pictures();

/// data/imagenet_sample of shared_data(); nothing where there is none.
std::optional<std::filesystem::path> imagenet_sample();

std::vector<std::byte> bytes_of(const std::filesystem::path& path);
/// A file of tests/train/pictures/data.
std::vector<std::byte> sample_bytes(const std::string& name);

/// SHA-256 of the pixels.
std::string sha256_of(const Picture& picture);

/// Copies a part.
Picture part_of(const Picture& picture, const PictureBox& box);
bool same_pixels(const Picture& a, const Picture& b);

}  // namespace moh::test
