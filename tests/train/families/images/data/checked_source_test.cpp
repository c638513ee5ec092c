#include "train/families/images/data/checked_source.h"

#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "core/error.h"
#include "ops/loss/cross_entropy.h"
#include "tests/support/message_of.h"
#include "tests/support/temporary_folder.h"
#include "tests/train/families/images/data/tar_bytes.h"
#include "tests/train/pictures/golden.h"
#include "train/augment/mixing.h"
#include "train/families/images/class_counts.h"
#include "train/families/images/data/made_pictures.h"

using namespace moh;
using namespace moh::test;

namespace {

/// Pictures with these labels, of three classes.
class Labelled final : public PictureSource {
 public:
  explicit Labelled(std::vector<std::int64_t> labels) : labels_(std::move(labels)) {}
  std::int64_t size() const override { return std::ssize(labels_); }
  std::int64_t label(std::int64_t index) const override { return labels_[static_cast<std::size_t>(index)]; }
  const std::vector<std::string>& class_names() const override { return names_; }
  std::string name(std::int64_t index) const override { return "picture " + std::to_string(index); }
  std::string describe_contents() const override { return ""; }
  void load(std::int64_t, std::vector<std::byte>&) const override {}

 private:
  std::vector<std::int64_t> labels_;
  std::vector<std::string> names_ = {"a", "b", "c"};
};

std::string refused_labels(std::vector<std::int64_t> labels) {
  return message_of<DataError>([&] { checked<PictureSource>(std::make_shared<Labelled>(labels)); });
}

}  // namespace

TEST_CASE("checked sources: a label that is no class is refused, by picture") {
  CHECK(checked<PictureSource>(std::make_shared<Labelled>(std::vector<std::int64_t>{0, 2, 1}))->size() == 3);
  CHECK(refused_labels({0, 1, -1}) == "picture 2: label: expected 0 to 2, found -1");
  CHECK(refused_labels({3}) == "picture 0: label: expected 0 to 2, found 3");
  CHECK(refused_labels({0, std::int64_t{1} << 62}) ==
        "picture 1: label: expected 0 to 2, found 4611686018427387904");
  CHECK_THAT(refused_labels({}), Catch::Contains("expected at least one of each, found 0 and 3"));
}

TEST_CASE("checked sources: labels of archives are below the number of classes, where it is known") {
  const TemporaryFolder folder;
  const std::string jpeg = read_file(pictures_folder() / "data/gray.jpg");
  const auto archive = [&](const std::string& label) {
    return write_file(folder / (label + "/a.tar"), tar_of({{"0.jpg", jpeg}, {"0.cls", label}}));
  };
  const auto refused = [&](const std::string& label, const std::vector<std::string>& names,
                           std::int64_t classes) {
    const std::string path = archive(label);
    std::string message = message_of<DataError>([&] { open_pictures({path}, names, classes); });
    // From the index that the first opening wrote, too.
    CHECK(message_of<DataError>([&] { open_pictures({path}, names, classes); }) == message);
    CHECK_THAT(message, Catch::Contains("a.tar, picture 0 at byte 512, 0.jpg: label: expected less than "));
    CHECK_THAT(message, Catch::Contains("found " + label));
    return message;
  };
  CHECK_THAT(refused("10", {}, 10), Catch::Contains("less than 10, model.classes"));
  CHECK_THAT(refused("15075141", {}, 0), Catch::Contains("less than 1048576"));
  // A class that is named by the number has another label.
  CHECK_THAT(refused("77", {"3", "77"}, 2), Catch::Contains("less than 2, the number of classes"));
  CHECK(open_pictures({archive("9")}, {}, 10)->num_classes() == 10);
  CHECK(open_pictures({archive("1")}, {"cat", "dog"})->label(0) == 1);
}

TEST_CASE("labels that are no class reach neither targets nor counts") {
  std::vector<float> targets(6);
  for (const std::int64_t label : {std::int64_t{-1}, std::int64_t{3}, std::int64_t{1} << 40}) {
    const std::vector<std::int64_t> labels = {0, label};
    CHECK_THROWS_AS(soft_targets(labels, 3, 0.1, 0.5, targets), ValueError);
    CHECK(targets == std::vector<float>(6));
    ClassCounts counts(3);
    CHECK_THROWS_AS(counts.add(zeros({2, 3}, DType::kFloat32), tensor_of<std::int64_t>({2}, labels)),
                    ValueError);
  }
}

TEST_CASE("noise: names of classes are made when they are asked for") {
  const PictureSourcePtr noise = noise_pictures(std::int64_t{1} << 30, std::int64_t{1} << 26, 8, 1);
  CHECK(noise->num_classes() == std::int64_t{1} << 26);
  CHECK(noise->label((std::int64_t{1} << 26) + 5) == 5);
  CHECK(noise_pictures(3, 2, 8, 1)->class_names() == std::vector<std::string>{"0", "1"});
}
