#pragma once

#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include "autograd/node.h"
#include "autograd/profile.h"
#include "autograd/variable.h"
#include "core/cuda/tag.h"
#include "core/dry_run.h"
#include "core/error.h"
#include "core/visit_cpu_isa.h"

namespace moh {

/// N rows of width D, for ops that work along the last axis.
struct Rows {
  std::int64_t count = 0;
  std::int64_t width = 0;
};

/// The rows of a tensor of rank 1 or more: width is the last axis, count the product of the others.
Rows rows_of(const Variable& x);

/// Checks the operands of an op; each method throws with the op's and the operand's name when its condition
/// fails.
///   Check("rms_norm").floating("x", x).shape("w", w, {x.dim(-1)}).like("w", w, "x", x).positive("eps", eps);
class Check {
 public:
  explicit Check(std::string_view op) : op_(op) {}

  /// Defined and float32, bfloat16 or float64.
  Check& floating(std::string_view name, const Variable& v);
  /// Defined and of this dtype.
  Check& dtype(std::string_view name, const Variable& v, DType dtype);
  /// Exactly this shape; `why` explains where it comes from ("last axis of x [8, 512]").
  Check& shape(std::string_view name, const Variable& v, const Shape& shape, std::string_view why = "");
  /// Exactly this rank.
  Check& rank(std::string_view name, const Variable& v, int rank);
  /// At least this rank.
  Check& min_rank(std::string_view name, const Variable& v, int rank);
  /// The dtype and device of another operand.
  Check& like(std::string_view name, const Variable& v, std::string_view other_name, const Variable& other);
  /// value > 0.
  Check& positive(std::string_view name, double value);
  /// low <= value <= high.
  Check& in_range(std::string_view name, double value, double low, double high);
  /// A condition of any other kind.
  Check& require(bool condition, std::string_view what, std::string_view expected, std::string_view found);

 private:
  std::string op_;
};

/// The name of a kernel in messages and profiles, and the model FLOPs that it reports: those of attention,
/// convolutions and projections of selected heads. Elementwise work is not counted.
struct KernelCall {
  // NOLINTNEXTLINE: a name alone reports no FLOPs
  KernelCall(std::string_view name, double operations = 0) : op(name), flops(operations) {}
  // NOLINTNEXTLINE: so does a literal
  KernelCall(const char* name, double operations = 0) : op(name), flops(operations) {}

  std::string_view op;
  double flops;
};

/// The instruction sets that an op's CPU kernels are compiled for: MOH_CPU_ISAS alone, or for bfloat16
/// MOH_CPU_MATRIX_ISAS, too (visit_isa_for).
struct BaseIsas {
  template <class T, class Fn>
  static void visit(Fn&& fn) {
    visit_cpu_isa(fn);
  }
};
struct MatrixIsas {
  template <class T, class Fn>
  static void visit(Fn&& fn) {
    visit_isa_for<T>(fn);
  }
};

/// Calls fn.template operator()<Backend, T>() with the back end of a device and the C++ type of a dtype.
/// Throws DTypeError for a dtype without kernels.
template <class Isas, class Fn>
void visit_backend(std::string_view op, const Tensor& x, Fn&& fn) {
  visit_floating(x.dtype(), op, [&]<class T>() {
    if (x.device() == kCpu) {
      Isas::template visit<T>([&]<class Backend>() { fn.template operator()<Backend, T>(); });
    } else if constexpr (!std::is_same_v<T, double>) {
      fn.template operator()<Cuda, T>();
    } else {
      throw DTypeError(error_message(op, "dtype", "float32 or bfloat16 on a GPU", "float64"));
    }
  });
}

/// Calls fn.template operator()<Backend, T>() with the back end of x's device and the C++ type of its dtype:
/// the only dispatch of an op to its kernel. Throws DTypeError for a dtype without kernels. In a dry run fn
/// is not called.
template <class Isas = BaseIsas, class Fn>
void run_kernel(KernelCall call, const Tensor& x, Fn&& fn) {
  const ProfileScope profile(call.op, call.flops);
  if (dry_run()) return;
  visit_backend<Isas>(call.op, x, [&]<class Backend, class T>() {
#ifndef MOH_HAVE_CUDA
    if constexpr (!std::is_same_v<Backend, Cuda>)
#endif
      fn.template operator()<Backend, T>();
  });
}

/// run_kernel() for a kernel whose workspace grows with the rows: a dry run counts the bytes that
/// workspace.template operator()<Backend, T>() returns.
template <class Isas = BaseIsas, class Fn, class Workspace>
void run_kernel(KernelCall call, const Tensor& x, Fn&& fn, const Workspace& workspace) {
  if (dry_run()) {
    visit_backend<Isas>(call.op, x, [&]<class Backend, class T>() {
      count_workspace(workspace.template operator()<Backend, T>(), x.device());
    });
  }
  run_kernel<Isas>(call, x, std::forward<Fn>(fn));
}

/// Throws DeviceError for a tensor on a GPU, for an op with CPU kernels only.
void require_cpu(std::string_view op, const Tensor& x);

/// run_kernel, with and without workspace, for an op with CPU kernels only. Throw DeviceError for a tensor on
/// a GPU.
template <class Fn, class Workspace>
void run_cpu_kernel(KernelCall call, const Tensor& x, Fn&& fn, const Workspace& workspace) {
  require_cpu(call.op, x);
  const ProfileScope profile(call.op, call.flops);
  visit_floating(x.dtype(), call.op, [&]<class T>() {
    visit_cpu_isa([&]<class Backend>() {
      if (dry_run()) return count_workspace(workspace.template operator()<Backend, T>(), kCpu);
      fn.template operator()<Backend, T>();
    });
  });
}
template <class Fn>
void run_cpu_kernel(KernelCall call, const Tensor& x, Fn&& fn) {
  run_cpu_kernel(call, x, std::forward<Fn>(fn), []<class Backend, class T>() { return std::size_t{0}; });
}

/// run_cpu_kernel() for a kernel that multiplies matrices: Backend is that of visit_isa_for<T>().
template <class Fn, class Workspace>
void run_matrix_kernel(KernelCall call, const Tensor& x, Fn&& fn, const Workspace& workspace) {
  require_cpu(call.op, x);
  const ProfileScope profile(call.op, call.flops);
  visit_floating(x.dtype(), call.op, [&]<class T>() {
    visit_isa_for<T>([&]<class Backend>() {
      if (dry_run()) return count_workspace(workspace.template operator()<Backend, T>(), kCpu);
      fn.template operator()<Backend, T>();
    });
  });
}

}  // namespace moh
