#include "ops/tokens/add_positions.h"

#include <string>

#include "ops/op.h"
#include "ops/tokens/add_positions_kernels.h"

namespace moh {

Variable add_positions(const Variable& x, const Variable& token, const Variable& positions) {
  constexpr std::string_view kOp = "add_positions";
  Check check(kOp);
  check.floating("x", x).rank("x", x, 3);
  const std::int64_t width = x.dim(2), tokens = x.dim(1) + (token.defined() ? 1 : 0);
  if (token.defined())
    check.shape("token", token, {1, 1, width}, "last axis of x").like("token", token, "x", x);
  check.shape("positions", positions, {1, tokens, width}, "tokens of an image")
      .like("positions", positions, "x", x);
  const TokenSizes sizes{x.dim(0), token.defined() ? width : 0, x.dim(1) * width};
  const Tensor y = empty({x.dim(0), tokens, width}, x.dtype(), x.device());
  run_kernel(kOp, y, [&]<class Backend, class T>() {
    AddPositionsKernels<Backend, T>::forward(x.value().data<T>(),
                                             token.defined() ? token.value().data<T>() : nullptr,
                                             positions.value().data<T>(), y.data<T>(), sizes);
  });
  return record(
      "add_positions", y, {x, token, positions},
      [sizes, width, shape = x.shape(), tokens, needs_dx = x.requires_grad()](const Tensor& dy) -> Grads {
        const Tensor dx = needs_dx ? empty(shape, dy.dtype(), dy.device()) : Tensor();
        const Tensor dpositions = empty({1, tokens, width}, accumulate_dtype(dy.dtype()), dy.device());
        run_kernel("add_positions", dy, [&]<class Backend, class T>() {
          AddPositionsKernels<Backend, T>::backward(dy.data<T>(), needs_dx ? dx.data<T>() : nullptr,
                                                    dpositions.data<Acc<T>>(), sizes);
        });
        Grads grads = {dx, {}, dpositions};
        if (sizes.prefix > 0)
          grads[1] = dpositions.reshape({tokens, width}).slice(0, 1).reshape({1, 1, width}).clone();
        return grads;
      });
}

Variable take_token(const Variable& x, std::int64_t index) {
  constexpr std::string_view kOp = "take_token";
  Check check(kOp);
  check.floating("x", x).rank("x", x, 3);
  check.require(index >= 0 && index < x.dim(1), "index", "0 to " + std::to_string(x.dim(1) - 1),
                std::to_string(index));
  const std::int64_t images = x.dim(0), width = x.dim(2), image = x.dim(1) * width, first = index * width;
  const Tensor y = empty({images, width}, x.dtype(), x.device());
  run_kernel(kOp, y, [&]<class Backend, class T>() {
    AddPositionsKernels<Backend, T>::take(x.value().data<T>(), y.data<T>(), images, image, first, width);
  });
  return record("take_token", y, {x}, [=, shape = x.shape()](const Tensor& dy) -> Grads {
    const Tensor dx = empty(shape, dy.dtype(), dy.device());
    run_kernel("take_token", dy, [&]<class Backend, class T>() {
      AddPositionsKernels<Backend, T>::put(dy.data<T>(), dx.data<T>(), images, image, first, width);
    });
    return {dx};
  });
}

}  // namespace moh
