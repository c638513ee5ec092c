#include "train/apps/python/pictures.h"

#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "core/error.h"
#include "models/vision/image_model.h"
#include "train/apps/python/arrays.h"
#include "train/apps/python/routing.h"
#include "train/families/images/image_data.h"

namespace moh::python {

namespace nb = nanobind;

namespace {

/// Pictures of an array, or a list of files that are read in each pass.
class Pictures {
 public:
  Pictures(const char* call, OpenModel& model, nb::handle given) : call_(call), model_(model) {
    std::vector<std::string> names;
    if (nb::try_cast(given, names, /*convert=*/false))
      files_.assign(names.begin(), names.end());
    else
      array_ = pictures_of(std::string(call) + ": images", given);
  }

  /// Within OpenModel::compute().
  ImageOutput forward(const ForwardContext& context = {}) const {
    const ImageModel& classifier = model_.classifier(call_);
    if (!array_.defined() && files_.empty())
      throw ValueError(error_message(call_, "images", "one or more", "none"));
    const Tensor pictures = array_.defined() ? array_ : model_.reader().read(files_);
    return classifier.forward(Variable(pictures.to(classifier.dtype()).to(classifier.device())), context);
  }

 private:
  const char* call_;
  OpenModel& model_;
  Tensor array_;
  std::vector<std::filesystem::path> files_;
};

Tensor as_floats(const Variable& values) {
  return values.value().to(kCpu).to(DType::kFloat32);
}

nb::object picture_logits(OpenModel& model, nb::handle given) {
  const Pictures pictures("logits", model, given);
  return array_of(model.compute([&] { return as_floats(pictures.forward().logits); }));
}

nb::object picture_features(OpenModel& model, nb::handle given) {
  const Pictures pictures("features", model, given);
  return array_of(model.compute([&] { return as_floats(pictures.forward().features); }));
}

nb::object picture_layer_input(OpenModel& model, nb::handle given, std::int64_t layer) {
  const Pictures pictures("features", model, given);
  return array_of(layer_input_of(
      model, [&](const ForwardContext& context) { pictures.forward(context); }, layer));
}

nb::object picture_routing(OpenModel& model, nb::handle given) {
  const Pictures pictures("routing", model, given);
  return routing_of(model, [&](const ForwardContext& context) { pictures.forward(context); });
}

std::vector<std::string> class_names(OpenModel& model) {
  return model.compute([&] {
    model.classifier("class_names");
    return class_names_of(image_run(model.run()));
  });
}

}  // namespace

void add_pictures(nb::class_<OpenModel>& model) {
  const auto images = nb::arg("images").none();  // which a message of moh's refuses, too
  model.def("image_logits", &picture_logits, images)
      .def("image_features", &picture_features, images)
      .def("image_layer_input", &picture_layer_input, images, nb::arg("layer"))
      .def("image_routing", &picture_routing, images)
      .def("class_names", &class_names);
}

}  // namespace moh::python
