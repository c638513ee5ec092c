#include "ops/attention/position_bias.h"

#include "ops/attention/position_bias_kernels.h"
#include "ops/indices.h"
#include "ops/op.h"

namespace moh {

Variable position_bias(const Variable& table, const Tensor& index) {
  Check check("position_bias");
  check.floating("table", table).rank("table", table, 2);
  check.rank("index", Variable(index), 2);
  const Tensor rows = checked_indices("position_bias", "index", index, table.device(),
                                      {.bound = table.dim(0), .of = "the table"});
  const PositionBiasShape shape{table.dim(0), table.dim(1), index.numel()};
  const Tensor y = empty({shape.heads, index.dim(0), index.dim(1)}, table.dtype(), table.device());
  run_kernel("position_bias", y, [&]<class Backend, class T>() {
    PositionBiasKernels<Backend, T>::forward(table.value().data<T>(), rows.data<std::int64_t>(), y.data<T>(),
                                             shape);
  });
  return record("position_bias", y, {table}, [rows, shape](const Tensor& dy) -> Grads {
    const Tensor dtable = empty({shape.rows, shape.heads}, accumulate_dtype(dy.dtype()), dy.device());
    run_kernel(
        "position_bias", dy,
        [&]<class Backend, class T>() {
          PositionBiasKernels<Backend, T>::backward(dy.data<T>(), rows.data<std::int64_t>(),
                                                    dtable.data<Acc<T>>(), shape);
        },
        [&]<class Backend, class T>() -> std::size_t {
          if constexpr (std::is_same_v<Backend, Cuda>)  // rows of pairs, and sorted indices
            return static_cast<std::size_t>(shape.pairs) *
                   (static_cast<std::size_t>(shape.heads) * sizeof(float) + 4 * sizeof(std::int64_t));
          else
            return static_cast<std::size_t>(shape.rows * shape.heads) * sizeof(Acc<T>);
        });
    return {dtable};
  });
}

}  // namespace moh
