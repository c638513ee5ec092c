#include "ops/attention/cudnn/cudnn_attention.h"

#include <array>
#include <cstdlib>
#include <exception>
#include <map>
#include <memory>
#include <string>
#include <tuple>
#include <type_traits>
#include <unordered_map>

// cuDNN and CUDA's runtime are loaded on first use; see core/cuda/library.h.
#define NV_CUDNN_FRONTEND_USE_DYNAMIC_LOADING
#define CUDNN_FRONTEND_SKIP_JSON_LIB
#include <cudnn_frontend.h>

#include "core/cuda/device.h"
#include "core/cuda/library.h"
#include "core/error.h"
#include "core/math_mode.h"
#include "ops/cuda/scratch.h"

namespace cudnn_frontend {
void* cudnn_dlhandle = nullptr;  // the handle in which the front end's header looks up cuDNN's functions
}

namespace moh {

namespace {

namespace fe = cudnn_frontend;
using GraphTensor = std::shared_ptr<fe::graph::Tensor_attributes>;

/// Numbers of the tensors of a graph.
enum Uid : std::int64_t { kQ = 1, kK, kV, kOut, kStats, kDout, kDq, kDk, kDv };

/// Workspace of a plan that is always granted, in bytes: deterministic gradients may take some that grows
/// with the square of the length.
constexpr std::size_t kSquareWorkspace = std::size_t{256} << 20;

/// Why cuDNN could not be loaded; empty if it was.
const std::string& load_error() {
  static const std::string error = [] {
    try {
      static const cuda::Library runtime("libcudart.so.13"), cudnn("libcudnn.so.9");
      fe::cudnn_dlhandle = cudnn.handle();
      // By default the front end loads the first runtime that it finds, whatever the version of its headers.
      setenv("CUDNN_FRONTEND_CUDART_LIB_NAME", "libcudart.so.13", /*overwrite=*/0);
      // Beyond so much workspace of the square of the length, deterministic gradients on Hopper are those
      // that cuDNN adds in order, from version 9.25 on: slower, with a workspace that is linear in the
      // length.
      setenv("CUDNN_FRONTEND_ATTN_DP_WORKSPACE_LIMIT", std::to_string(kSquareWorkspace).c_str(),
             /*overwrite=*/0);
      return std::string();
    } catch (const DeviceError& reason) {
      return std::string(reason.what());
    }
  }();
  return error;
}

/// The key of a cached plan.
struct Problem {
  AttentionShape shape;
  std::array<std::int64_t, 12> strides;  ///< batch, token, head of q, k, v and out; the same for gradients
  bool backward, with_stats, deterministic;

  template <class Args>
  Problem(const Args& args, bool of_backward, bool stats)
      : shape(args.shape),
        strides{args.q.batch_stride, args.q.token_stride,   args.q.head_stride,    args.k.batch_stride,
                args.k.token_stride, args.k.head_stride,    args.v.batch_stride,   args.v.token_stride,
                args.v.head_stride,  args.out.batch_stride, args.out.token_stride, args.out.head_stride},
        backward(of_backward),
        with_stats(stats),
        deterministic(of_backward && math_mode().deterministic_attention) {}

  auto key() const {
    return std::make_tuple(strides, shape.batch, shape.queries, shape.keys, shape.heads, shape.kv_heads,
                           shape.head_dim, shape.causal, shape.query_offset, shape.scale, backward,
                           with_stats, deterministic);
  }
};

/// Builds the cuDNN graph of a problem.
class GraphMaker {
 public:
  /// For GPUs of a compute capability (90 for 9.0); 0: that of the open GPU.
  explicit GraphMaker(const Problem& problem, int capability = 0)
      : problem_(problem), graph_(std::make_shared<fe::graph::Graph>()) {
    graph_->set_io_data_type(fe::DataType_t::BFLOAT16)
        .set_intermediate_data_type(fe::DataType_t::FLOAT)
        .set_compute_data_type(fe::DataType_t::FLOAT);
    if (capability != 0) graph_->set_sm_version(capability);
  }

  std::shared_ptr<fe::graph::Graph> make() {
    problem_.backward ? add_backward() : add_forward();
    return graph_;
  }

 private:
  /// Sets the id and the strides of a tensor: those of operand number `operand` of q, k, v, out.
  void describe(fe::graph::Tensor_attributes& tensor, Uid uid, int operand) const {
    const AttentionShape& s = problem_.shape;
    const bool of_keys = operand == 1 || operand == 2;
    const std::int64_t* stride = problem_.strides.data() + 3 * operand;
    tensor.set_uid(uid)
        .set_dim({s.batch, of_keys ? s.kv_heads : s.heads, of_keys ? s.keys : s.queries, s.head_dim})
        .set_stride({stride[0], stride[2], stride[1], 1});
  }
  void describe_stats(fe::graph::Tensor_attributes& tensor) const {
    const AttentionShape& s = problem_.shape;
    tensor.set_uid(kStats)
        .set_dim({s.batch, s.heads, s.queries, 1})
        .set_stride({s.heads * s.queries, s.queries, 1, 1})
        .set_data_type(fe::DataType_t::FLOAT);
  }
  GraphTensor input(Uid uid, int operand) {
    fe::graph::Tensor_attributes tensor;
    describe(tensor, uid, operand);
    return graph_->tensor(tensor);
  }
  void output(const GraphTensor& tensor, Uid uid, int operand) const {
    tensor->set_output(true);
    describe(*tensor, uid, operand);
  }

  template <class Attributes>
  Attributes attributes(const char* name) const {
    const AttentionShape& s = problem_.shape;
    Attributes attributes;
    attributes.set_name(name).set_attn_scale(static_cast<float>(s.scale));
    if (s.causal) {
      attributes
          .set_diagonal_alignment(s.query_offset == 0 ? fe::DiagonalAlignment_t::TOP_LEFT
                                                      : fe::DiagonalAlignment_t::BOTTOM_RIGHT)
          .set_diagonal_band_right_bound(0);
    }
    return attributes;
  }

  void add_forward() {
    auto options = attributes<fe::graph::SDPA_attributes>("attention");
    options.set_generate_stats(problem_.with_stats);
    const auto [out, stats] = graph_->sdpa(input(kQ, 0), input(kK, 1), input(kV, 2), options);
    output(out, kOut, 3);
    if (!problem_.with_stats) return;
    stats->set_output(true);
    describe_stats(*stats);
  }

  void add_backward() {
    auto options = attributes<fe::graph::SDPA_backward_attributes>("attention_backward");
    options.set_deterministic_algorithm(problem_.deterministic);
    fe::graph::Tensor_attributes stats;
    describe_stats(stats);
    const auto [dq, dk, dv] = graph_->sdpa_backward(input(kQ, 0), input(kK, 1), input(kV, 2), input(kOut, 3),
                                                    input(kDout, 3), graph_->tensor(stats), options);
    output(dq, kDq, 0);
    output(dk, kDk, 1);
    output(dv, kDv, 2);
  }

  const Problem& problem_;
  std::shared_ptr<fe::graph::Graph> graph_;
};

/// A graph that the device can run, or why it cannot.
struct Plan {
  std::shared_ptr<fe::graph::Graph> graph;
  std::size_t workspace_bytes = 0;
  std::string error;
};

void check_cudnn(fe::error_t status, const char* call) {
  if (status.is_bad())
    throw DeviceError(
        error_message("attention", call, "success", status.get_message(), "set attention.backend: native"));
}

cudnnHandle_t cudnn_handle() {
  static const cudnnHandle_t handle = [] {
    cudnnHandle_t created = nullptr;
    if (fe::detail::create_handle(&created) != CUDNN_STATUS_SUCCESS ||
        fe::detail::set_stream(created, cuda::stream()) != CUDNN_STATUS_SUCCESS)
      throw DeviceError(
          "attention: cuDNN could not be initialised on this device; set attention.backend: native");
    return created;
  }();
  return handle;
}

/// May throw exceptions of cuDNN's front end, as when a library lacks a function.
Plan try_to_plan(const Problem& problem) {
  Plan plan{GraphMaker(problem).make()};
  const auto done = [&](fe::error_t status) {
    if (status.is_bad()) plan.error = "cuDNN: " + status.get_message();
    return status.is_good();
  };
  if (done(plan.graph->validate()) && done(plan.graph->build_operation_graph(cudnn_handle())) &&
      done(plan.graph->create_execution_plans({fe::HeurMode_t::A})) &&
      done(plan.graph->check_support(cudnn_handle())) && done(plan.graph->build_plans(cudnn_handle())))
    plan.workspace_bytes = static_cast<std::size_t>(plan.graph->get_workspace_size());
  return plan;
}

Plan make_plan(const Problem& problem) {
  try {
    return try_to_plan(problem);
  } catch (const std::exception& reason) {
    return {nullptr, 0, std::string("cuDNN: ") + reason.what()};
  }
}

const Plan& plan_of(const Problem& problem) {
  const auto key = problem.key();
  static auto& plans =  // never destroyed, as the device they belong to
      *new std::map<std::remove_const_t<decltype(key)>, Plan>;
  const auto found = plans.find(key);
  return found != plans.end() ? found->second : plans.emplace(key, make_plan(problem)).first->second;
}

std::size_t most_workspace_bytes(const AttentionShape& s) {
  constexpr std::size_t kPerElement = 16;
  const auto elements =
      static_cast<std::size_t>(s.batch * s.head_dim * (s.queries * s.heads + s.keys * s.kv_heads));
  return kSquareWorkspace + kPerElement * elements;
}

std::string refusal_of_plan(const Problem& problem) {
  const Plan& plan = plan_of(problem);
  if (!plan.error.empty()) return plan.error;
  const std::size_t most = most_workspace_bytes(problem.shape);
  if (plan.workspace_bytes <= most) return {};
  return "cuDNN needs " + std::to_string(plan.workspace_bytes) + " bytes of workspace, more than " +
         std::to_string(most);
}

void run_plan(const Problem& problem, std::unordered_map<std::int64_t, void*> tensors) {
  const Plan& plan = plan_of(problem);
  MOH_CHECK(plan.error.empty(), "refusal() must have accepted the call");
  const DeviceScratch workspace(plan.workspace_bytes);
  check_cudnn(plan.graph->execute(cudnn_handle(), tensors, workspace.as<void>()), "cuDNN");
}

void* address(const bfloat16* data) {
  return const_cast<bfloat16*>(data);
}

}  // namespace

std::string CudnnAttention::absence() {
  return load_error();
}

std::string CudnnAttention::refusal(const AttentionForward<bfloat16>& args) {
  const AttentionShape& s = args.shape;
  if (s.head_dim % 8 != 0 || s.head_dim > 128) return "cuDNN supports head widths of 8, 16 ... 128";
  if (s.causal && s.query_offset != 0 && s.query_offset != s.keys - s.queries)
    return "cuDNN supports causal masks that begin with the first or end with the last key";
  if (s.batch * s.queries == 0) return "the tensors are empty";
  if (!load_error().empty()) return load_error();
  return refusal_of_plan(Problem(args, false, args.lse != nullptr));
}

std::string CudnnAttention::refusal_of_gradient(const AttentionForward<bfloat16>& args) {
  return refusal_of_plan(Problem(args, true, true));
}

void CudnnAttention::forward(const AttentionForward<bfloat16>& args) {
  std::unordered_map<std::int64_t, void*> tensors = {{kQ, address(args.q.data)},
                                                     {kK, address(args.k.data)},
                                                     {kV, address(args.v.data)},
                                                     {kOut, args.out.data}};
  if (args.lse != nullptr) tensors.emplace(kStats, args.lse);
  run_plan(Problem(args, false, args.lse != nullptr), std::move(tensors));
}

void CudnnAttention::backward(const AttentionBackward<bfloat16>& args) {
  run_plan(Problem(args, true, true), {{kQ, address(args.q.data)},
                                       {kK, address(args.k.data)},
                                       {kV, address(args.v.data)},
                                       {kOut, address(args.out.data)},
                                       {kDout, address(args.dout.data)},
                                       {kStats, const_cast<float*>(args.lse)},
                                       {kDq, args.dq.data},
                                       {kDk, args.dk.data},
                                       {kDv, args.dv.data}});
}

std::string CudnnAttention::graph_error(const AttentionForward<bfloat16>& args, bool backward,
                                        int capability) {
  if (!load_error().empty()) return load_error();
  const Problem problem(args, backward, true);
  const auto graph = GraphMaker(problem, capability).make();
  const fe::error_t status = graph->validate();
  fe::error_t built = status.is_good() ? graph->build_operation_graph(nullptr) : status;
  return built.is_good() ? std::string() : built.get_message();
}

}  // namespace moh
