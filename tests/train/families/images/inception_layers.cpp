// inception_layers WEIGHTS PICTURES adm|pytorch-fid OUT.safetensors: what Inception makes of pictures, as one
// batch: "input", the output of each block under its name, "features", "spatial" and "logits".

#include <exception>
#include <iostream>
#include <string_view>
#include <vector>

#include "autograd/node.h"
#include "train/base/formats/safetensors.h"
#include "train/families/images/data/loose_pictures.h"
#include "train/families/images/inception_features.h"
#include "train/families/images/inception_weights.h"

using namespace moh;

namespace {

Tensor input_of(const PictureSource& pictures, PixelCenters centers) {
  Tensor input = empty({pictures.size(), Inception::kSide, Inception::kSide, 3}, DType::kFloat32);
  std::vector<std::byte> bytes;
  for (std::int64_t i = 0; i < pictures.size(); ++i) {
    pictures.load(i, bytes);
    make_inception_picture(pictures.decode(i, bytes, [](PictureSize size) { return whole(size); }), centers,
                           input.select(i).span<float>());
  }
  return input;
}

}  // namespace

int main(int argc, char** argv) try {
  if (argc != 5) {
    std::cerr << "usage: inception_layers WEIGHTS PICTURES adm|pytorch-fid OUT.safetensors\n";
    return 2;
  }
  const auto model = load_inception(argv[1], DType::kFloat32);
  const PictureSourcePtr pictures = open_loose_pictures(argv[2]);
  const bool is_adm = std::string_view(argv[3]) == "adm";
  const NoGrad no_grad;
  std::vector<NamedTensor> layers = {
      {"input", input_of(*pictures, is_adm ? PixelCenters::kCorner : PixelCenters::kHalf)}};
  const InceptionOutput output =
      model->forward(Variable(layers[0].tensor), [&](std::string_view name, const Variable& x) {
        layers.push_back({std::string(name), x.value()});
      });
  layers.push_back({"features", output.features.value()});
  layers.push_back({"spatial", output.spatial.value()});
  layers.push_back({"logits", output.logits.value()});
  save_safetensors(argv[4], layers);
  return 0;
} catch (const std::exception& error) {
  std::cerr << error.what() << "\n";
  return 1;
}
