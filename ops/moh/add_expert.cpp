#include "ops/moh/add_expert.h"

#include "ops/moh/add_expert_kernels.h"
#include "ops/op.h"

namespace moh {

Variable add_expert(const Variable& sum, const Variable& output, const Variable& gates, std::int64_t expert) {
  constexpr std::string_view kOp = "add_expert";
  Check check(kOp);
  check.floating("output", output).min_rank("output", output, 1);
  if (sum.defined()) check.shape("sum", sum, output.shape(), "as output").like("sum", sum, "output", output);
  const Rows rows = rows_of(output);
  check.floating("gates", gates).rank("gates", gates, 2);
  check.shape("gates", gates, {rows.count, gates.dim(1)}, "rows of output");
  check.in_range("expert", static_cast<double>(expert), 0, static_cast<double>(gates.dim(1) - 1));
  const AddedExpertRows shape{rows.count, rows.width, gates.dim(1)};
  const Tensor wide = gates.value().to(accumulate_dtype(output.dtype())), y = empty_like(output.value());
  run_kernel(kOp, y, [&]<class Backend, class T>() {
    AddExpertKernels<Backend, T>::forward(sum.defined() ? sum.value().data<T>() : nullptr,
                                          output.value().data<T>(), wide.data<Acc<T>>() + expert, y.data<T>(),
                                          shape);
  });
  return record("add_expert", y, {sum, output, gates},
                [shape, expert, wide, output = output.value(), gate_dtype = gates.dtype(),
                 needs_dsum = sum.requires_grad()](const Tensor& dy) -> Grads {
                  const Tensor doutput = empty_like(output), dgates = zeros_like(wide);
                  run_kernel("add_expert", dy, [&]<class Backend, class T>() {
                    AddExpertKernels<Backend, T>::backward(dy.data<T>(), output.data<T>(),
                                                           wide.data<Acc<T>>() + expert, doutput.data<T>(),
                                                           dgates.data<Acc<T>>() + expert, shape);
                  });
                  return {needs_dsum ? dy : Tensor(), doutput, dgates.to(gate_dtype)};
                });
}

}  // namespace moh
