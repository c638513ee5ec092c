#include "ops/embedding/embedding.h"

#include <vector>

#include "autograd/gradient_target.h"
#include "ops/embedding/embedding_kernels.h"
#include "ops/embedding/embedding_workspace.h"
#include "ops/indices.h"
#include "ops/op.h"

namespace moh {

namespace {

Shape output_shape(const Shape& ids, std::int64_t width) {
  std::vector<std::int64_t> extents(ids.extents().begin(), ids.extents().end());
  extents.push_back(width);
  return Shape(std::span<const std::int64_t>(extents));
}

/// Bytes of workspace of the CPU kernels.
struct BackwardWorkspace {
  EmbeddingSizes sizes;

  template <class Backend, class T>
  std::size_t operator()() const {
    if constexpr (std::is_same_v<Backend, Cuda>) return 0;
    return group_by_id_bytes(sizes) + run_sums_bytes<Acc<T>>(sizes);
  }
};

}  // namespace

Variable embedding(const Variable& table, const Tensor& ids) {
  Check("embedding").floating("table", table).rank("table", table, 2);
  const IndexRange range{.bound = table.dim(0), .of = "rows of table"};
  const Tensor rows = checked_indices("embedding", "ids", ids, table.device(), range);
  const EmbeddingSizes sizes{table.dim(0), table.dim(1), rows.numel()};
  Tensor y = empty(output_shape(ids.shape(), sizes.width), table.dtype(), table.device());
  run_kernel("embedding", y, [&]<class Backend, class T>() {
    EmbeddingKernels<Backend, T>::forward(table.value().data<T>(), rows.data<std::int64_t>(), y.data<T>(),
                                          sizes);
  });
  return record("embedding", y, {table},
                [rows, sizes, target = GradientTarget(table)](const Tensor& dy) -> Grads {
                  const Tensor dtable = target.contribution();  // not rounded: micro-batches add theirs up
                  const auto run = [&]<class Backend, class T>() {
                    EmbeddingKernels<Backend, T>::backward(dy.data<T>(), rows.data<std::int64_t>(),
                                                           dtable.data<Acc<T>>(), sizes);
                  };
                  run_kernel("embedding", dy, run, BackwardWorkspace{sizes});
                  return {dtable};
                });
}

}  // namespace moh
