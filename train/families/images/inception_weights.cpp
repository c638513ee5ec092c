#include "train/families/images/inception_weights.h"

#include <cmath>
#include <cstring>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "core/error.h"
#include "train/base/formats/tensorflow/frozen_graph.h"
#include "train/base/io/printable.h"
#include "train/weights/load_weights.h"
#include "train/weights/locate_model.h"

namespace moh {

namespace {

namespace fs = std::filesystem;

constexpr std::string_view kPublished =
    "--features takes classify_image_graph_def.pb, pt_inception-2015-12-05-6726825d.pth of pytorch-fid or "
    "weights-inception-2015-12-05-6726825d.pth of torch-fidelity";

/// A convolution's weight [out, in, kh, kw] and what its normalisation has, of each output.
struct StoredConv {
  std::vector<double> weight, mean, variance, beta, gamma;
  double epsilon = 0;
};

/// Reads tensors of one file by name and shape.
class Reader {
 public:
  explicit Reader(const WeightFile& file) : file_(file) {}
  virtual ~Reader() = default;

  virtual StoredConv conv(const InceptionConv& conv) const = 0;
  virtual std::vector<double> classes() const = 0;  ///< [classes, features]

 protected:
  const WeightFile& file() const { return file_; }

  std::vector<double> tensor(const std::string& name, const Shape& shape) const {
    const WeightInfo* info = file_.find(name);
    if (info == nullptr || info->shape != shape)
      fail(name, "a tensor " + to_string(shape), info == nullptr ? "none" : to_string(info->shape));
    if (!can_convert(info->stored_dtype, "F64")) fail(name, "floating point", info->stored_dtype);
    std::vector<double> values(static_cast<std::size_t>(shape.numel()));
    std::span<std::byte> rest = std::as_writable_bytes(std::span(values));
    stream_tensor(file_, *info, "F64", [&](std::span<const std::byte> block) {
      std::memcpy(rest.data(), block.data(), block.size());
      rest = rest.subspan(block.size());
    });
    return values;
  }

  [[noreturn]] void fail(const std::string& what, std::string_view expected, std::string_view found) const {
    throw CheckpointError(
        error_message(printable_path(file_.path()), "Inception's " + what, expected, found, kPublished));
  }

 private:
  const WeightFile& file_;
};

class TorchReader final : public Reader {
 public:
  using Reader::Reader;

  StoredConv conv(const InceptionConv& c) const override {
    constexpr double kEpsilon = 1e-3;
    const auto of_norm = [&](const char* part) { return tensor(c.name + ".bn." + part, {c.out}); };
    return {.weight = tensor(c.name + ".conv.weight", {c.out, c.in, c.kernel.y, c.kernel.x}),
            .mean = of_norm("running_mean"),
            .variance = of_norm("running_var"),
            .beta = of_norm("bias"),
            .gamma = of_norm("weight"),
            .epsilon = kEpsilon};
  }
  std::vector<double> classes() const override {
    return tensor("fc.weight", {Inception::kClasses, Inception::kFeatures});
  }
};

/// The transpose of [rows, columns].
std::vector<double> transposed(const std::vector<double>& values, std::size_t columns) {
  const std::size_t rows = values.size() / columns;
  std::vector<double> made(values.size());
  for (std::size_t i = 0; i < values.size(); ++i) made[i % columns * rows + i / columns] = values[i];
  return made;
}

class GraphReader final : public Reader {
 public:
  explicit GraphReader(const FrozenGraph& graph) : Reader(graph), graph_(graph) {}

  StoredConv conv(const InceptionConv& c) const override {
    const std::string norm = c.graph_name + "/batchnorm";
    const GraphNorm* how = graph_.norm(norm);
    if (how == nullptr) fail(norm, "a node BatchNormWithGlobalNormalization", "none");
    const auto of_norm = [&](const char* part) { return tensor(norm + "/" + part, {c.out}); };
    StoredConv stored{
        .weight = transposed(tensor(c.graph_name + "/conv2d_params", {c.kernel.y, c.kernel.x, c.in, c.out}),
                             static_cast<std::size_t>(c.in * c.out)),
        .mean = of_norm("moving_mean"),
        .variance = of_norm("moving_variance"),
        .beta = of_norm("beta"),
        .gamma = std::vector<double>(static_cast<std::size_t>(c.out), 1.0),
        .epsilon = how->epsilon};
    // [in, out, taps] becomes [out, in, taps].
    const auto taps = static_cast<std::size_t>(c.kernel.y * c.kernel.x), in = static_cast<std::size_t>(c.in),
               out = static_cast<std::size_t>(c.out);
    std::vector<double> by_output(stored.weight.size());
    for (std::size_t i = 0; i < by_output.size(); ++i)
      by_output[(i / taps % out * in + i / taps / out) * taps + i % taps] = stored.weight[i];
    stored.weight = std::move(by_output);
    if (how->scales) stored.gamma = of_norm("gamma");
    return stored;
  }
  std::vector<double> classes() const override {
    return transposed(tensor("softmax/weights", {Inception::kFeatures, Inception::kClasses}),
                      static_cast<std::size_t>(Inception::kClasses));
  }

 private:
  const FrozenGraph& graph_;
};

void set(const Variable& parameter, const std::vector<double>& values, const fs::path& path,
         const std::string& name) {
  const Tensor all = tensor_of(parameter.shape(), values);
  const Tensor narrow = all.to(DType::kFloat32);
  if (!narrow.all_finite())
    throw CheckpointError(error_message(printable_path(path), "Inception's " + name,
                                        "finite weights after the batch normalisation", "others"));
  parameter.value().copy_from(narrow.to(parameter.value().dtype()).to(parameter.value().device()));
}

void load(const Inception& model, const Reader& reader, const fs::path& path) {
  for (const Inception::Convolution& to : model.convolutions()) {
    StoredConv stored = reader.conv(to.conv);
    const std::size_t outputs = stored.beta.size(), each = stored.weight.size() / outputs;
    for (std::size_t o = 0; o < outputs; ++o) {
      const double scale = stored.gamma[o] / std::sqrt(stored.variance[o] + stored.epsilon);
      for (std::size_t i = 0; i < each; ++i) stored.weight[o * each + i] *= scale;
      stored.beta[o] -= stored.mean[o] * scale;
    }
    set(to.weight, stored.weight, path, to.conv.name);
    set(to.bias, stored.beta, path, to.conv.name);
  }
  set(model.classes(), reader.classes(), path, "classes");
}

}  // namespace

std::unique_ptr<Inception> load_inception(const fs::path& path, Placement placement) {
  auto model = std::make_unique<Inception>(placement);
  if (looks_like_graph(InputFile(path, InputKind::kCheckpoint).first_bytes(1))) {
    const FrozenGraph graph(path);
    load(*model, GraphReader(graph), path);
  } else {
    const std::unique_ptr<WeightFile> file = open_weights({.weights = path, .config = {}});
    load(*model, TorchReader(*file), path);
  }
  return model;
}

}  // namespace moh
