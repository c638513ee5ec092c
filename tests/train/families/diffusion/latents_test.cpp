#include <catch2/catch.hpp>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "core/error.h"
#include "tests/support/message_of.h"
#include "tests/support/same_bits.h"
#include "tests/support/temporary_folder.h"
#include "tests/train/families/diffusion/random_autoencoder.h"
#include "train/augment/crop.h"
#include "train/base/formats/safetensors.h"
#include "train/families/diffusion/latents/latent_source.h"
#include "train/families/diffusion/latents/make_latents.h"
#include "train/families/diffusion/signed_pixels.h"
#include "train/families/images/data/made_pictures.h"

using namespace moh;
using namespace moh::test;
namespace fs = std::filesystem;

namespace {

constexpr int kDrawn = 24, kSide = 16;

PictureSourcePtr pictures(std::int64_t count = 10) {
  return shape_pictures(count, kDrawn, 1);
}

LatentOptions options_for(const fs::path& folder) {
  return {.folder = folder, .image_size = kSide, .shard_pictures = 4};
}

constexpr auto kNever = [](const LatentProgress&) { return false; };

LatentReport made_latents(const fs::path& folder) {
  return make_latents(*pictures(), random_autoencoder(), options_for(folder), kNever);
}

std::map<std::string, std::string> files_in(const fs::path& folder) {
  std::map<std::string, std::string> files;
  for (const auto& entry : fs::directory_iterator(folder)) {
    if (entry.path().filename() != ".lock") files[entry.path().filename().string()] = read_file(entry.path());
  }
  return files;
}

/// Mean and deviation, [channels, side, side], of the autoencoder itself.
struct Expected {
  Expected(std::int64_t index, bool mirrored) {
    const PictureSourcePtr source = pictures();
    Picture picture =
        center_crop(source->decode(index, {}, [](PictureSize size) { return whole(size); }), kSide);
    if (mirrored) flip(picture);
    const Tensor image = empty({1, kSide, kSide, 3}, DType::kFloat32);
    const ChannelNormalizer normalizer(kSignedPixels);
    normalizer(picture, image.span<float>());
    const LatentDistribution latents = random_autoencoder().model->encode(image);
    for (std::int64_t channel = 0; channel < 4; ++channel) {
      for (std::int64_t i = 0; i < 64; ++i) {
        mean.push_back(latents.mean.data<float>()[4 * i + channel]);
        deviation.push_back(latents.deviation.data<float>()[4 * i + channel]);
      }
    }
  }
  std::vector<float> mean, deviation;
};

void change_byte(const fs::path& path, std::size_t at, int mask = 4) {
  std::string bytes = read_file(path);
  bytes.at(at) = static_cast<char>(bytes.at(at) ^ mask);
  write_file(path, bytes);
}

/// The place of a tensor's first byte in a file.
std::size_t begin_of(const fs::path& path, std::string_view tensor) {
  const SafetensorsFile file(path);
  return file.raw_header().size() + file.find(tensor)->place;
}

std::string refusal(const fs::path& path) {
  return message_of<DataError>([&] { open_latents({path}); });
}

}  // namespace

TEST_CASE("latents: both views of each picture, as the autoencoder gives them, by class") {
  const TemporaryFolder folder;
  const LatentReport report = made_latents(folder / "latents");
  CHECK(report.finished);
  CHECK(report.shards == 3);
  CHECK(report.pictures == 10);
  CHECK(files_in(folder / "latents").size() == 3);
  const LatentSourcePtr latents = open_latents({folder / "latents"});
  REQUIRE(latents->size() == 10);
  CHECK(latents->class_names() == pictures()->class_names());
  CHECK(latents->scaling_factor() == 0.18215);
  CHECK(latents->channels() == 4);
  CHECK(latents->width() == 8);
  std::vector<float> mean(256), deviation(256);
  for (const std::int64_t index : {0, 3, 4, 9}) {
    CHECK(latents->label(index) == pictures()->label(index));
    for (const LatentView view : {LatentView::kPlain, LatentView::kMirrored}) {
      const Expected expected(index, view == LatentView::kMirrored);
      latents->read(index, view, mean, deviation);
      CHECK(mean == expected.mean);
      CHECK(deviation == expected.deviation);
    }
  }
  CHECK(latents->name(5).find("000001.safetensors, picture 1") != std::string::npos);
}

TEST_CASE("latents: bfloat16 stores rounded numbers") {
  const TemporaryFolder folder;
  LatentOptions options = options_for(folder / "latents");
  options.dtype = DType::kBFloat16;
  make_latents(*pictures(), random_autoencoder(), options, kNever);
  std::vector<float> mean(256), deviation(256);
  open_latents({folder / "latents"})->read(7, LatentView::kPlain, mean, deviation);
  const Expected expected(7, false);
  for (std::size_t i = 0; i < mean.size(); ++i) {
    CHECK(mean[i] == static_cast<float>(bfloat16(expected.mean[i])));
    CHECK(deviation[i] == static_cast<float>(bfloat16(expected.deviation[i])));
  }
}

TEST_CASE("latents: stopped anywhere, the folder ends with the same bytes, and keeps complete shards") {
  const TemporaryFolder folder;
  made_latents(folder / "whole");
  for (const std::int64_t at : {0, 3, 4, 9}) {
    const fs::path path = folder / ("cut" + std::to_string(at));
    const auto stop = [at](const LatentProgress& progress) { return progress.done == at; };
    const LatentReport report = make_latents(*pictures(), random_autoencoder(), options_for(path), stop);
    CHECK_FALSE(report.finished);
    CHECK(std::ssize(files_in(path)) == at / 4);
    if (at > 0 && at < 8) CHECK_THROWS_AS(open_latents({path}), DataError);
    std::int64_t kept = -1;
    make_latents(*pictures(), random_autoencoder(), options_for(path), [&](const LatentProgress& progress) {
      if (kept < 0) kept = progress.kept;
      CHECK(progress.total == 10);
      return false;
    });
    CHECK(kept == at / 4 * 4);
    CHECK(files_in(path) == files_in(folder / "whole"));
    CHECK_FALSE(fs::exists(path / ".lock"));
  }
  // One that is missing is made again, and a complete folder is left as it is.
  fs::remove(folder / "whole/000001.safetensors");
  CHECK(refusal(folder / "whole").find("000002.safetensors: first picture: expected 4, found 8") !=
        std::string::npos);
  made_latents(folder / "whole");
  CHECK(files_in(folder / "whole") == files_in(folder / "cut9"));
}

TEST_CASE("latents: a folder takes shards of one making alone") {
  const TemporaryFolder folder;
  const fs::path path = folder / "latents";
  made_latents(path);
  const auto refused = [&](const LoadedAutoencoder& autoencoder, LatentOptions options,
                           const PictureSourcePtr& source) {
    return message_of<ConfigError>([&] { make_latents(*source, autoencoder, options, kNever); });
  };
  const LatentOptions same = options_for(path);
  CHECK(
      refused(random_autoencoder(6), same, pictures())
          .find("autoencoder: expected hash of weights 6, as this command has it, found hash of weights 5") !=
      std::string::npos);
  LatentOptions other = same;
  other.image_size = 24;
  CHECK(refused(random_autoencoder(), other, pictures()).find("image size") != std::string::npos);
  other = same;
  other.dtype = DType::kBFloat16;
  CHECK(refused(random_autoencoder(), other, pictures()).find("type: expected BF16") != std::string::npos);
  other = same;
  other.shard_pictures = 5;
  CHECK(refused(random_autoencoder(), other, pictures()).find("pictures of a shard") != std::string::npos);
  CHECK(refused(random_autoencoder(), same, pictures(11)).find("pictures") != std::string::npos);
  // Nor are shards of different makings read together.
  make_latents(*pictures(), random_autoencoder(6), options_for(folder / "other"), kNever);
  CHECK(message_of<DataError>([&] {
          open_latents({path, folder / "other"});
        }).find("autoencoder") != std::string::npos);
  fs::copy_file(folder / "other/000001.safetensors", path / "000001.safetensors",
                fs::copy_options::overwrite_existing);
  CHECK(refusal(path).find("000001.safetensors: autoencoder: expected hash of weights 5") !=
        std::string::npos);

  other = options_for(folder / "new");
  other.image_size = 15;
  CHECK(refused(random_autoencoder(), other, pictures()).find("--image-size: expected a multiple of 2") !=
        std::string::npos);
  CHECK_FALSE(fs::exists(folder / "new"));
}

TEST_CASE("latents: a flipped bit anywhere in a shard is found, and named") {
  const TemporaryFolder folder;
  made_latents(folder / "latents");
  const fs::path shard = folder / "latents/000001.safetensors";
  const std::string sound = read_file(shard);
  const auto read_all = [&] {
    const LatentSourcePtr latents = open_latents({folder / "latents"});
    std::vector<float> mean(256), deviation(256);
    for (std::int64_t i = 0; i < latents->size(); ++i) {
      for (const LatentView view : {LatentView::kPlain, LatentView::kMirrored})
        latents->read(i, view, mean, deviation);
    }
  };
  read_all();
  constexpr std::size_t kLatent = 256 * sizeof(float);
  struct Damage {
    std::string tensor;
    std::size_t at;
    std::string message;
  };
  for (const Damage& damage : std::vector<Damage>{
           {"mean", 0, "000001.safetensors: mean and deviation of picture 0: expected checksum "},
           {"mean", 5 * kLatent + 9, "mean and deviation of picture 2, mirrored: expected checksum "},
           {"deviation", 8 * kLatent - 1, "mean and deviation of picture 3, mirrored: expected checksum "},
           {"labels", 8, "000001.safetensors: labels and checksums: expected checksum "},
           {"checksums", 31, "000001.safetensors: labels and checksums: expected checksum "}}) {
    change_byte(shard, begin_of(shard, damage.tensor) + damage.at);
    const std::string message = message_of<DataError>(read_all);
    INFO(message);
    CHECK(message.find(damage.message) != std::string::npos);
    CHECK(message.find(", found ") != std::string::npos);
    CHECK(message.find("'moh data latents' makes it again") != std::string::npos);
    CHECK_THROWS_AS(LatentShard(shard).verify(), DataError);
    write_file(shard, sound);
  }
  // Every bit of the header but those of a JSON text that means the same, of which this one has none but
  // spaces.
  const std::size_t header = begin_of(shard, "labels");
  for (std::size_t at = 0; at < header; ++at) {
    if (sound[at] == ' ') continue;
    std::string bytes = sound;
    bytes[at] = static_cast<char>(bytes[at] ^ 1);
    write_file(shard, bytes);
    INFO("byte " << at << " of the header, " << sound[at]);
    CHECK_THROWS_AS(read_all(), DataError);
  }
  write_file(shard, sound.substr(0, sound.size() - 1));
  CHECK(refusal(folder / "latents").find("the file is truncated") != std::string::npos);
  write_file(shard, "no shard");
  CHECK(refusal(folder / "latents").find("000001.safetensors") != std::string::npos);
}

TEST_CASE("latents: classes are found by name, and those that do not exist are named") {
  const TemporaryFolder folder;
  made_latents(folder / "latents");
  std::vector<std::string> names = pictures()->class_names();
  std::ranges::reverse(names);
  names.emplace_back("further");
  const LatentSourcePtr latents = open_latents({folder / "latents"}, names);
  CHECK(latents->label(1) == std::ssize(names) - 3);
  names.erase(names.begin());
  CHECK(message_of<DataError>([&] {
          open_latents({folder / "latents"}, names);
        }).find(pictures()->class_names().back()) != std::string::npos);

  // A shard whose labels are beyond its classes, with checksums in order.
  const LatentShard shard(folder / "latents/000000.safetensors");
  NewLatentShard wrong([&] {
    LatentShardInfo info = shard.info();
    info.count = 0;
    return info;
  }());
  const Tensor some = full({2, 8, 8, 4}, 0.5, DType::kFloat32);
  wrong.add(some, some, 99, "a");
  wrong.save(folder / "wrong.safetensors");
  CHECK(refusal(folder / "wrong.safetensors").find("picture 0: expected a class from 0 to 7, found 99") !=
        std::string::npos);
}

TEST_CASE("latents: broken pictures stop, or are left out") {
  /// Pictures of which numbers 1 and 6 cannot be decoded.
  class Broken final : public PictureSource {
   public:
    std::int64_t size() const override { return sound_->size(); }
    std::int64_t label(std::int64_t index) const override { return sound_->label(index); }
    const std::vector<std::string>& class_names() const override { return sound_->class_names(); }
    std::string name(std::int64_t index) const override { return sound_->name(index); }
    std::string describe_contents() const override { return sound_->describe_contents(); }
    void load(std::int64_t, std::vector<std::byte>&) const override {}
    Picture decode(std::int64_t index, const std::vector<std::byte>& bytes,
                   ChooseRegion region) const override {
      if (index % 5 == 1) throw DataError("picture " + std::to_string(index) + " is broken");
      return sound_->decode(index, bytes, region);
    }

   private:
    PictureSourcePtr sound_ = pictures();
  };
  const TemporaryFolder folder;
  LatentOptions options = options_for(folder / "latents");
  CHECK(message_of<DataError>([&] {
          make_latents(Broken(), random_autoencoder(), options, kNever);
        }).find("picture 1 is broken") != std::string::npos);
  options.on_error = OnError::kSkip;
  const LatentReport report = make_latents(Broken(), random_autoencoder(), options, kNever);
  CHECK(report.pictures == 8);
  CHECK(report.broken.find("2 broken pictures") != std::string::npos);
  const LatentSourcePtr latents = open_latents({folder / "latents"});
  REQUIRE(latents->size() == 8);
  std::vector<float> mean(256), deviation(256);
  latents->read(1, LatentView::kPlain, mean, deviation);
  CHECK(mean == Expected(2, false).mean);
}
