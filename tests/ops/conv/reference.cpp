#include "tests/ops/conv/reference.h"

#include "ops/conv/cudnn/cudnn_convolution.h"

namespace moh::test {

namespace {

/// x at a pixel, 0 outside the image.
double pixel(const Tensor& x, std::int64_t n, std::int64_t i, std::int64_t j, std::int64_t c) {
  if (i < 0 || i >= x.dim(1) || j < 0 || j >= x.dim(2)) return 0;
  return x.data<double>()[((n * x.dim(1) + i) * x.dim(2) + j) * x.dim(3) + c];
}

double output(const std::vector<Tensor>& in, const Conv2dOptions& options, std::int64_t n, std::int64_t i,
              std::int64_t j, std::int64_t o) {
  const Tensor &x = in[0], &w = in[1];
  const std::int64_t group = o / (w.dim(0) / options.groups);
  double sum = in[2].defined() ? in[2].data<double>()[o] : 0.0;
  for (std::int64_t c = 0; c < w.dim(1); ++c) {
    for (std::int64_t r = 0; r < w.dim(2); ++r) {
      for (std::int64_t s = 0; s < w.dim(3); ++s) {
        sum += w.data<double>()[((o * w.dim(1) + c) * w.dim(2) + r) * w.dim(3) + s] *
               pixel(x, n, i * options.stride.y - options.padding.y + r,
                     j * options.stride.x - options.padding.x + s, group * w.dim(1) + c);
      }
    }
  }
  return sum;
}

std::vector<Tensor> reference(const std::vector<Tensor>& in, const Conv2dOptions& options) {
  const Tensor &x = in[0], &w = in[1];
  const std::int64_t height = (x.dim(1) + 2 * options.padding.y - w.dim(2)) / options.stride.y + 1;
  const std::int64_t width = (x.dim(2) + 2 * options.padding.x - w.dim(3)) / options.stride.x + 1;
  Tensor y = empty({x.dim(0), height, width, w.dim(0)}, DType::kFloat64);
  for (std::int64_t at = 0; at < y.numel(); ++at) {
    const std::int64_t o = at % w.dim(0), j = at / w.dim(0) % width, i = at / w.dim(0) / width % height;
    y.data<double>()[at] = output(in, options, at / w.dim(0) / width / height, i, j, o);
  }
  return {y};
}

std::string name_of(const ConvCase& conv) {
  const auto per_axis = [](PerAxis both) { return std::to_string(both.y) + "," + std::to_string(both.x); };
  return to_string(conv.x) + " * " + to_string(conv.w) + " stride " + per_axis(conv.options.stride) +
         " padding " + per_axis(conv.options.padding) + " groups " + std::to_string(conv.options.groups) +
         (conv.bias ? " with bias" : "");
}

}  // namespace

OpCase conv_case(const ConvCase& conv) {
  const bool depthwise = conv.options.groups == conv.x[3] && conv.w[0] == conv.x[3];
  return {
      .name = name_of(conv),
      .inputs = {normal(conv.x, 1), normal(conv.w, 2), conv.bias ? normal({conv.w[0]}, 3) : Tensor()},
      .run = [options =
                  conv.options](const Inputs& in) { return Outputs{conv2d(in[0], in[1], in[2], options)}; },
      .reference = [options = conv.options](const std::vector<Tensor>& in) { return reference(in, options); },
      .units = 64,
      .absent_on_gpu = depthwise ? std::string() : CudnnConvolution::absence()};
}

}  // namespace moh::test
