#include "autograd/variable.h"

#include <algorithm>
#include <atomic>
#include <optional>
#include <set>
#include <unordered_map>
#include <utility>

#include "autograd/between_ops.h"
#include "autograd/dry_reads.h"
#include "autograd/gradient_target.h"
#include "autograd/node.h"
#include "autograd/pending_value.h"
#include "autograd/profile.h"
#include "core/dry_run.h"
#include "core/error.h"
#include "core/math_mode.h"

namespace moh {

namespace {

constexpr std::string_view kSumGradients = "sum_gradients";  // in profiles

thread_local bool recording = true;
thread_local UnrecordedGradients* met_gradients = nullptr;  // of ops that are not recorded

std::atomic<std::uint64_t> last_sequence = 0;

std::uint64_t next_sequence() {
  return ++last_sequence;
}

/// A tensor that the backward pass reads before the op of this number.
struct DryRead {
  std::uint64_t sequence;
  Tensor tensor;
};
thread_local std::vector<DryRead> dry_reads;  // by ascending number

}  // namespace

struct Variable::State {
  Tensor value;
  bool requires_grad = false;
  // A leaf:
  Tensor grad;
  std::optional<DType> grad_dtype;     // accumulate_dtype() of the value's, unless set
  std::function<Tensor()> grad_place;  // of the gradient's buffer (keep_gradient_in); else it is any tensor
  GradientHook hook;
  std::shared_ptr<PendingValue> pending;
  // An op's output:
  std::shared_ptr<Node> node;
  int output = 0;
};

/// Where the gradient of an op's input goes: to the op that computed it, or to a leaf; to neither if the
/// input requires none. It does not keep the input's value: what the backward pass reads is in its closure.
struct Edge {
  std::shared_ptr<Node> node;
  int output = 0;  // of the node
  Variable leaf;
  Shape shape;
  DType dtype = DType::kFloat32;

  bool leads_somewhere() const { return node != nullptr || leaf.requires_grad(); }
};

/// One recorded op. Nodes are numbered as they are made, so an op's number is above those of its inputs.
class Node {
 public:
  std::string name;
  std::uint64_t sequence = 0;
  std::vector<Edge> inputs;
  std::vector<Variable> captured;  // leaves that `backward` adds to
  MathMode math_mode;              // of the forward pass
  std::size_t num_outputs = 0;
  MultiBackwardFn backward;

  Node() = default;
  Node(const Node&) = delete;
  Node& operator=(const Node&) = delete;
  ~Node();
};

/// Accessors of a Variable's state for the engine.
class Engine {
 public:
  static const std::shared_ptr<Node>& node_of(const Variable& v) { return v.state_->node; }
  static bool has_node(const Variable& v) { return v.defined() && v.state_->node != nullptr; }
  static const void* identity(const Variable& v) { return v.state_.get(); }
  static bool is_among(std::span<const Variable> variables, const Variable& v) {
    return std::ranges::any_of(variables, [&](const Variable& one) { return one.state_ == v.state_; });
  }
  static void note_unrecorded(const Variable& v) {
    if (met_gradients != nullptr && v.requires_grad() && !has_node(v)) met_gradients->add(v);
  }
  static Edge edge_to(const Variable& v) {
    if (!v.requires_grad()) return {};
    const State& state = *v.state_;
    const Tensor& value = state.value;  // its shape alone, so it need not have arrived (PendingValue)
    return {state.node, state.output, state.node ? Variable() : v, value.shape(), value.dtype()};
  }
  static void add_to_leaf(const Variable& leaf, Tensor grad);
  static void set_pending(const Variable& leaf, std::shared_ptr<PendingValue> value) {
    leaf.state_->pending = std::move(value);
  }
  static void run_hook(Variable leaf) {
    if (leaf.state_->hook) leaf.state_->hook(leaf);
  }

 private:
  using State = Variable::State;
};

Node::~Node() {
  // Destroys a chain of nodes in a loop: recursion through destructors would overflow the stack.
  std::vector<std::shared_ptr<Node>> orphans;
  const auto collect = [&orphans](std::vector<Edge>& edges) {
    for (Edge& edge : edges) {
      if (edge.node) orphans.push_back(std::move(edge.node));
    }
    edges.clear();
  };
  collect(inputs);
  while (!orphans.empty()) {
    const std::shared_ptr<Node> node = std::move(orphans.back());
    orphans.pop_back();
    if (node.use_count() == 1) collect(node->inputs);
  }
}

void Engine::add_to_leaf(const Variable& leaf, Tensor grad) {
  State& state = *leaf.state_;
  if (grad.shape() != state.value.shape()) {
    throw ShapeError(
        error_message("accumulate_grad", "", to_string(state.value.shape()), to_string(grad.shape())));
  }
  // An op may have begun the gradient, or added to it, and return it.
  if (state.grad.defined() && grad.is_same(state.grad)) return;
  const ProfileScope profile(kSumGradients);
  if (state.grad.defined()) return state.grad.add(grad);
  const DType wanted = leaf.grad_dtype();
  const MemoryPurposeScope purpose(MemoryPurpose::kGradient);
  if (state.grad_place) {
    state.grad = state.grad_place();
    state.grad.copy_from(grad);
  } else if (grad.dtype() != wanted) {
    state.grad = grad.to(wanted);
  } else if (grad.is_unique()) {  // no other reader: take the tensor without a copy
    grad.set_purpose(MemoryPurpose::kGradient);
    state.grad = std::move(grad);
  } else {
    state.grad = grad.clone();
  }
}

Variable::Variable(Tensor value, bool requires_grad) : state_(std::make_shared<State>()) {
  MOH_CHECK(value.defined(), "a variable needs a defined tensor");
  if (requires_grad && !is_floating(value.dtype())) {
    throw DTypeError(
        error_message("variable", "requires_grad", "a floating dtype", dtype_name(value.dtype())));
  }
  state_->value = std::move(value);
  state_->requires_grad = requires_grad;
}

const Tensor& Variable::value() const {
  MOH_CHECK(defined(), "the variable is undefined");
  if (state_->pending) std::exchange(state_->pending, {})->complete();
  return state_->value;
}

void PendingValue::belongs_to(const Variable& leaf) {
  MOH_CHECK(leaf.is_leaf(), "only the values of leaves are pending");
  Engine::set_pending(leaf, shared_from_this());
}

void PendingValue::complete() {
  if (complete_) std::exchange(complete_, {})();
}

void Variable::set_requires_grad(bool required) {
  MOH_CHECK(is_leaf() && (!required || is_floating(dtype())), "only floating leaves have gradients");
  state_->requires_grad = required;
}

bool Variable::requires_grad() const {
  return defined() && state_->requires_grad;
}

bool Variable::is_leaf() const {
  return !Engine::has_node(*this);
}

const Tensor& Variable::grad() const {
  MOH_CHECK(defined(), "the variable is undefined");
  return state_->grad;
}

DType Variable::grad_dtype() const {
  return state_->grad_dtype.value_or(accumulate_dtype(dtype()));
}

void Variable::set_grad_dtype(DType dtype) {
  MOH_CHECK(is_leaf(), "only leaves keep a gradient");
  MOH_CHECK(dtype == accumulate_dtype(value().dtype()) || dtype == value().dtype(),
            "a gradient has the dtype of its leaf, or the one it is summed in");
  if (dtype == grad_dtype()) return;
  state_->grad = Tensor();
  state_->grad_place = {};
  state_->grad_dtype = dtype;
}

void Variable::accumulate_grad(const Tensor& grad) {
  MOH_CHECK(is_leaf(), "only leaves keep a gradient");
  Engine::add_to_leaf(*this, Tensor(grad));
}

const Tensor& Variable::begin_grad() {
  MOH_CHECK(is_leaf() && requires_grad() && !state_->grad.defined(), "only a leaf's first gradient is begun");
  const MemoryPurposeScope purpose(MemoryPurpose::kGradient);
  state_->grad = state_->grad_place ? state_->grad_place() : empty(shape(), grad_dtype(), device());
  return state_->grad;
}

void Variable::zero_grad() {
  if (defined()) state_->grad = Tensor();
}

void Variable::keep_gradient_in(Tensor buffer) {
  MOH_CHECK(buffer.shape() == shape() && buffer.dtype() == grad_dtype() && buffer.device() == device(),
            "the buffer is of the gradient's shape, dtype and device");
  keep_gradient_in([buffer = std::move(buffer)] { return buffer; });
}

void Variable::keep_gradient_in(std::function<Tensor()> place) {
  MOH_CHECK(is_leaf() && requires_grad(), "only leaves that require a gradient keep one");
  state_->grad_place = std::move(place);
}

void Variable::on_gradient(GradientHook hook) {
  MOH_CHECK(is_leaf() && requires_grad(), "hooks are for leaves that require a gradient");
  state_->hook = std::move(hook);
}

Variable Variable::detach() const {
  return Variable(value());
}

void Variable::backward() const {
  if (numel() != 1)
    throw ShapeError(error_message("backward", "output", "a scalar, or a seed", to_string(shape())));
  backward(full(shape(), 1.0, dtype(), device()));
}

void Variable::backward(const Tensor& seed) const {
  moh::backward({this, 1}, {&seed, 1});
}

namespace {

/// The state of one backward pass: the nodes it reaches, and gradients not yet consumed.
class BackwardPass {
 public:
  BackwardPass() : outer_(current) { current = this; }
  ~BackwardPass() { current = outer_; }
  BackwardPass(const BackwardPass&) = delete;
  BackwardPass& operator=(const BackwardPass&) = delete;

  void run(std::span<const Variable> outputs, std::span<const Tensor> seeds) {
    const ProfilePhaseScope phase(ProfilePhase::kBackward);
    for (const Variable& output : outputs) {
      if (Engine::has_node(output)) reach(Engine::node_of(output));
    }
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      if (!Engine::has_node(outputs[i])) ++leaf_contributions_[Engine::identity(outputs[i])];
    }
    for (std::size_t i = 0; i < outputs.size(); ++i) deliver(Engine::edge_to(outputs[i]), Tensor(seeds[i]));
    std::sort(nodes_.begin(), nodes_.end(),
              [](const auto& a, const auto& b) { return a->sequence > b->sequence; });
    for (const std::shared_ptr<Node>& node : nodes_) visit(*node);
  }

 private:
  /// Collects the nodes that `root` depends on, and counts the contributions that each leaf will get.
  void reach(const std::shared_ptr<Node>& root) {
    std::vector<std::shared_ptr<Node>> pending = {root};
    while (!pending.empty()) {
      const std::shared_ptr<Node> node = std::move(pending.back());
      pending.pop_back();
      if (!gradients_.try_emplace(node.get(), node->num_outputs).second) continue;
      nodes_.push_back(node);
      for (const Edge& input : node->inputs) {
        if (input.node)
          pending.push_back(input.node);
        else if (input.leads_somewhere())
          ++leaf_contributions_[Engine::identity(input.leaf)];
      }
      for (const Variable& leaf : node->captured) ++leaf_contributions_[Engine::identity(leaf)];
    }
  }

  void visit(Node& node) {
    while (!dry_reads.empty() && dry_reads.back().sequence >= node.sequence) {
      const Tensor read = std::move(dry_reads.back().tensor);
      dry_reads.pop_back();
      read.raw();
    }
    std::vector<Tensor> dys = std::move(gradients_[&node]);
    const bool reached = std::any_of(dys.begin(), dys.end(), [](const Tensor& dy) { return dy.defined(); });
    if (reached && !node.backward) {
      throw ValueError("backward: " + node.name +
                       ": backward() has already run through this graph, and its saved tensors are " +
                       "freed; run the forward pass again");
    }
    Grads grads;
    if (reached) {
      const ProfileScope profile(node.name);
      const MathModeScope mode(node.math_mode);
      visited_ = &node;
      grads = node.backward(dys);
      visited_ = nullptr;
    }
    node.backward = nullptr;
    dys.clear();
    BetweenOps::reached();
    MOH_CHECK(!reached || grads.size() == node.inputs.size(),
              "backward of " + node.name + ": one gradient per input");
    for (std::size_t i = 0; i < node.inputs.size(); ++i) {
      if (node.inputs[i].leads_somewhere()) deliver(node.inputs[i], reached ? std::move(grads[i]) : Tensor());
    }
    for (const Variable& leaf : node.captured) deliver_to_leaf(leaf, Tensor());
    node.inputs.clear();
    node.captured.clear();
  }

  void deliver(const Edge& to, Tensor grad) {
    if (grad.defined()) {
      MOH_CHECK(grad.shape() == to.shape, "a gradient has the shape of its variable");
    }
    if (!to.node) return deliver_to_leaf(to.leaf, std::move(grad));
    if (!grad.defined()) return;
    if (grad.dtype() != to.dtype) {
      MOH_CHECK(grad.dtype() == accumulate_dtype(to.dtype),
                "a gradient has the dtype of its variable, or the one it is summed in");
      grad = grad.to(to.dtype);
    }
    Tensor& sum = sum_at(to);
    if (sum.defined() && grad.is_same(sum)) return;  // an op has added to it (gradient_sum_of_input)
    if (!sum.defined()) {
      sum = std::move(grad);
      return;
    }
    const ProfileScope profile(kSumGradients);
    if (!sum.is_unique()) sum = sum.clone();
    sum.add(grad);
  }

  Tensor& sum_at(const Edge& to) { return gradients_[to.node.get()][static_cast<std::size_t>(to.output)]; }

  void deliver_to_leaf(const Variable& leaf, Tensor grad) {
    if (!leaf.requires_grad()) return;
    if (grad.defined()) Engine::add_to_leaf(leaf, std::move(grad));
    const void* const identity = Engine::identity(leaf);
    if (--leaf_contributions_[identity] > 0 || !leaf.grad().defined()) return;
    if (outer_ == nullptr || !outer_->awaits(identity)) Engine::run_hook(leaf);
  }

  /// Whether this pass, or one around it, has contributions to a leaf to come.
  bool awaits(const void* leaf) const {
    const auto found = leaf_contributions_.find(leaf);
    if (found != leaf_contributions_.end() && found->second > 0) return true;
    return outer_ != nullptr && outer_->awaits(leaf);
  }

  friend Tensor moh::gradient_sum_of_input(std::size_t input);
  friend bool moh::are_one_input(std::size_t a, std::size_t b);

  static thread_local BackwardPass* current;
  Node* visited_ = nullptr;    // whose `backward` runs
  BackwardPass* const outer_;  // that runs a backward pass within an op's

  std::vector<std::shared_ptr<Node>> nodes_;  // keeps them alive: a node drops its inputs once it has run
  std::unordered_map<Node*, std::vector<Tensor>> gradients_;
  std::unordered_map<const void*, int> leaf_contributions_;
};

thread_local BackwardPass* BackwardPass::current = nullptr;

}  // namespace

Tensor gradient_sum_of_input(std::size_t input) {
  BackwardPass* const pass = BackwardPass::current;
  MOH_CHECK(pass != nullptr && pass->visited_ != nullptr, "only the backward pass of an op adds to a sum");
  const Edge& to = pass->visited_->inputs[input];
  if (!to.node) return {};
  const Tensor& sum = pass->sum_at(to);
  return sum.defined() && sum.is_unique() ? sum : Tensor();
}

bool are_one_input(std::size_t a, std::size_t b) {
  const BackwardPass* const pass = BackwardPass::current;
  MOH_CHECK(pass != nullptr && pass->visited_ != nullptr, "only the backward pass of an op has inputs");
  const Edge &first = pass->visited_->inputs[a], &second = pass->visited_->inputs[b];
  if (!first.leads_somewhere() || !second.leads_somewhere()) return false;
  if (first.node || second.node) return first.node == second.node && first.output == second.output;
  return Engine::identity(first.leaf) == Engine::identity(second.leaf);
}

void backward(std::span<const Variable> outputs, std::span<const Tensor> seeds) {
  MOH_CHECK(outputs.size() == seeds.size(), "backward: one seed per output");
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    if (!outputs[i].requires_grad())
      throw ValueError("backward: the output does not depend on any variable that requires a gradient");
    if (seeds[i].shape() != outputs[i].shape() || seeds[i].dtype() != outputs[i].dtype()) {
      throw ShapeError(error_message("backward", "seed", describe(outputs[i].value()), describe(seeds[i])));
    }
  }
  BackwardPass().run(outputs, seeds);
}

void read_in_dry_backward(const Tensor& value) {
  if (dry_run()) dry_reads.push_back({last_sequence, value});
}

std::vector<Variable> record_outputs(std::string_view name, std::vector<Tensor> outputs,
                                     const std::vector<Variable>& inputs, MultiBackwardFn backward,
                                     std::vector<Variable> captured) {
  const bool wanted = !captured.empty() || std::any_of(inputs.begin(), inputs.end(),
                                                       [](const Variable& v) { return v.requires_grad(); });
  const bool needed = recording && wanted;
  if (!recording) {
    for (const Variable& input : inputs) Engine::note_unrecorded(input);
    for (const Variable& leaf : captured) Engine::note_unrecorded(leaf);
  }
  std::shared_ptr<Node> node;
  if (needed) {
    node = std::make_shared<Node>();
    node->name = name;
    node->sequence = next_sequence();
    for (const Variable& input : inputs) node->inputs.push_back(Engine::edge_to(input));
    node->captured = std::move(captured);
    node->num_outputs = outputs.size();
    node->math_mode = math_mode();
    node->backward = std::move(backward);
  }
  std::vector<Variable> variables;
  variables.reserve(outputs.size());
  for (Tensor& output : outputs) {
    const bool differentiable = needed && is_floating(output.dtype());
    Variable variable(std::move(output));
    if (differentiable) {
      variable.state_->requires_grad = true;
      variable.state_->output = static_cast<int>(variables.size());
      variable.state_->node = node;
    }
    variables.push_back(std::move(variable));
  }
  BetweenOps::reached();
  return variables;
}

Variable record(std::string_view name, Tensor output, const std::vector<Variable>& inputs,
                BackwardFn backward) {
  std::vector<Tensor> outputs;
  outputs.push_back(std::move(output));
  return record_outputs(
      name, std::move(outputs), inputs,
      [backward = std::move(backward)](std::span<const Tensor> dys) { return backward(dys[0]); })[0];
}

bool grad_enabled() {
  return recording;
}

GradMode::GradMode(bool enabled) : previous_(recording) {
  recording = enabled;
}
GradMode::~GradMode() {
  recording = previous_;
}

UnrecordedGradients::UnrecordedGradients() : outer_(met_gradients) {
  met_gradients = this;
}
UnrecordedGradients::~UnrecordedGradients() {
  met_gradients = outer_;
  if (outer_ == nullptr) return;
  for (const Variable& leaf : leaves_) outer_->add(leaf);
}

void UnrecordedGradients::add(const Variable& leaf) {
  if (!Engine::is_among(leaves_, leaf)) leaves_.push_back(leaf);
}

std::vector<Variable> UnrecordedGradients::leaves_besides(std::span<const Variable> inputs) const {
  std::vector<Variable> others;
  for (const Variable& leaf : leaves_) {
    if (!Engine::is_among(inputs, leaf)) others.push_back(leaf);
  }
  return others;
}

std::vector<std::string> graph_op_names(const Variable& output) {
  std::set<std::string> names;
  std::set<const Node*> seen;
  std::vector<const Node*> pending;
  const auto visit = [&](const Node* node) {
    if (node != nullptr && seen.insert(node).second) pending.push_back(node);
  };
  visit(Engine::node_of(output).get());
  while (!pending.empty()) {
    const Node* node = pending.back();
    pending.pop_back();
    names.insert(node->name);
    for (const Edge& input : node->inputs) visit(input.node.get());
  }
  return {names.begin(), names.end()};
}

}  // namespace moh
