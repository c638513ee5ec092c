#include "train/formats/torch/torch_tensor.h"

#include <algorithm>
#include <cstring>

#include "train/io/printable.h"

namespace moh {

namespace {

/// Where the calls that make a tensor keep their arguments.
struct Rebuild {
  std::string_view function;
  std::size_t least_args;
  bool names_dtype;  ///< the seventh argument is the dtype
};

constexpr Rebuild kRebuilds[] = {
    {"torch._utils._rebuild_tensor", 4, false},
    {"torch._utils._rebuild_tensor_v2", 6, false},
    {"torch._utils._rebuild_tensor_v3", 7, true},
};

const Rebuild* find_rebuild(std::string_view function) {
  for (const Rebuild& rebuild : kRebuilds) {
    if (rebuild.function == function) return &rebuild;
  }
  return nullptr;
}

/// The call that makes the data of a tensor, taken out of those around it.
struct Call {
  std::string_view function;
  const std::vector<PickleId>* args;
};

bool is_parameter(std::string_view function) {
  return function == "torch._utils._rebuild_parameter" ||
         function == "torch._utils._rebuild_parameter_with_state";
}

bool is_subclass(std::string_view function) {
  return function == "torch._tensor._rebuild_from_type_v2" || function == "torch._tensor._rebuild_from_type";
}

std::optional<Call> find_call(const PickleTree& tree, PickleId id) {
  constexpr int kMostAround = 8;  // a parameter of a subclass has two
  for (int depth = 0; depth < kMostAround; ++depth) {
    if (!tree.is(id, PickleKind::kObject)) return std::nullopt;
    const Call call{tree.name(id), &tree.args(id)};
    if (is_subclass(call.function)) {  // (function, type, args, state)
      const auto& args = *call.args;
      if (args.size() < 3 || !tree.is(args[0], PickleKind::kGlobal) ||
          !tree.is(args[2], PickleKind::kTuple)) {
        return std::nullopt;
      }
      const Call inner{tree.name(args[0]), &tree.node(args[2]).items};
      if (!is_parameter(inner.function)) return inner;
      if (inner.args->empty()) return std::nullopt;
      id = inner.args->front();
    } else if (is_parameter(call.function)) {
      if (call.args->empty()) return std::nullopt;
      id = call.args->front();
    } else {
      return call;
    }
  }
  return std::nullopt;
}

class TensorReader {
 public:
  TensorReader(const InputFile& file, const PickleTree& tree, const TorchStorages& storages,
               const std::string& where)
      : file_(file), tree_(tree), storages_(storages), where_(where) {}

  TorchTensor read(const Rebuild& rebuild, const std::vector<PickleId>& args) {
    if (args.size() < rebuild.least_args) {
      fail(std::to_string(rebuild.least_args) + " arguments for " + std::string(rebuild.function),
           std::to_string(args.size()));
    }
    const auto id = read_storage_id(file_, tree_, args[0]);
    if (!id) fail("a storage in the file", "something else");
    tensor_.dtype = id->dtype;
    if (rebuild.names_dtype) read_dtype(args[6]);
    if (tensor_.dtype == nullptr) fail("a dtype", "none");
    find_storage(*id);
    if (!tree_.is(args[1], PickleKind::kInt)) fail("a storage offset", "something else");
    tensor_.storage_offset = tree_.integer(args[1]);
    tensor_.shape = numbers(args[2], "sizes");
    tensor_.strides = numbers(args[3], "strides");
    check_extent(id->view_numel * id->element_bytes());
    return tensor_;
  }

 private:
  [[noreturn]] void fail(std::string_view expected, std::string_view found,
                         std::string_view fix = "the file is damaged") const {
    file_.fail("tensor " + printable(where_), expected, found, fix);
  }

  void read_dtype(PickleId id) {
    const bool named = tree_.is(id, PickleKind::kGlobal);
    tensor_.dtype = named ? find_torch_dtype(tree_.name(id)) : nullptr;
    if (tensor_.dtype == nullptr) {
      fail("a dtype that moh knows", named ? printable(tree_.name(id)) : "a value",
           "save the tensor as another dtype");
    }
  }

  void find_storage(const TorchStorageId& id) {
    const auto found = storages_.find(id.key);
    if (found == storages_.end()) fail("its storage in the file", "no storage " + printable(id.key));
    tensor_.storage_key = found->first;
    tensor_.storage = &found->second;
    const std::uint64_t bytes = id.numel * id.element_bytes();  // read_storage_id() has checked it
    if (bytes != found->second.bytes) {
      fail("a storage of " + std::to_string(bytes) + " bytes", std::to_string(found->second.bytes));
    }
    tensor_.view_begin = found->second.begin + id.view_begin * id.element_bytes();
  }

  std::vector<std::int64_t> numbers(PickleId id, std::string_view what) const {
    const bool is_size = tree_.is_object(id, "torch.Size") && tree_.args(id).size() == 1;
    const PickleNode& list = tree_.node(is_size ? tree_.args(id)[0] : id);
    if (list.kind != PickleKind::kTuple && list.kind != PickleKind::kList) {
      fail(std::string(what) + " in a tuple", "something else");
    }
    constexpr std::size_t kMostAxes = 64;  // PyTorch's own limit
    if (list.items.size() > kMostAxes) fail("at most 64 " + std::string(what), "more");
    std::vector<std::int64_t> values;
    for (const PickleId item : list.items) {
      if (!tree_.is(item, PickleKind::kInt)) fail("whole numbers as " + std::string(what), "something else");
      values.push_back(tree_.integer(item));
      if (values.back() < 0) fail(std::string(what) + " of 0 or more", std::to_string(values.back()));
    }
    return values;
  }

  /// The last element, and so all of them, must lie within the storage.
  void check_extent(std::uint64_t storage_bytes) const {
    if (tensor_.shape.size() != tensor_.strides.size()) {
      fail(std::to_string(tensor_.shape.size()) + " strides", std::to_string(tensor_.strides.size()));
    }
    if (tensor_.storage_offset < 0) {
      fail("a storage offset of 0 or more", std::to_string(tensor_.storage_offset));
    }
    std::int64_t last = tensor_.storage_offset;
    std::int64_t numel = static_cast<std::int64_t>(tensor_.dtype->bytes());  // of which it has to have room
    bool overflow = false, is_empty = false;
    for (std::size_t i = 0; i < tensor_.shape.size(); ++i) {
      const std::int64_t size = tensor_.shape[i];
      is_empty = is_empty || size == 0;
      std::int64_t reach = 0;
      overflow = overflow || __builtin_mul_overflow(size == 0 ? 0 : size - 1, tensor_.strides[i], &reach) ||
                 __builtin_add_overflow(last, reach, &last) ||
                 __builtin_mul_overflow(std::max<std::int64_t>(size, 1), numel, &numel);
    }
    if (overflow) fail("sizes and strides within 64 bits", "larger ones");
    if (is_empty) return;
    const std::uint64_t stored = storage_bytes / tensor_.dtype->bytes();
    if (static_cast<std::uint64_t>(last) >= stored) {
      fail("elements within the storage's " + std::to_string(stored), "element " + std::to_string(last));
    }
    if (tensor_.numel() > stored && tensor_.bytes() > kMaxRepeatedBytes) {
      fail("at most " + std::to_string(kMaxRepeatedBytes) + " bytes for a tensor that repeats its elements",
           std::to_string(tensor_.bytes()), "save it without expand()");
    }
  }

  const InputFile& file_;
  const PickleTree& tree_;
  const TorchStorages& storages_;
  const std::string& where_;
  TorchTensor tensor_;
};

}  // namespace

std::uint64_t TorchTensor::numel() const {
  std::uint64_t product = 1;
  for (const std::int64_t extent : shape) product *= static_cast<std::uint64_t>(extent);
  return product;
}

bool TorchTensor::is_contiguous() const {
  std::int64_t packed = 1;
  for (std::size_t i = shape.size(); i-- > 0;) {
    if (shape[i] != 1 && strides[i] != packed) return false;
    packed *= shape[i];
  }
  return true;
}

std::optional<TorchTensor> read_tensor(const InputFile& file, const PickleTree& tree,
                                       const TorchStorages& storages, PickleId id, const std::string& where) {
  const auto call = find_call(tree, id);
  if (!call) return std::nullopt;
  const Rebuild* rebuild = find_rebuild(call->function);
  if (rebuild == nullptr) return std::nullopt;
  return TensorReader(file, tree, storages, where).read(*rebuild, *call->args);
}

namespace {

/// Goes through the elements of a tensor in row-major order, by their offsets in its storage.
class ElementWalk {
 public:
  ElementWalk(const TorchTensor& tensor, std::uint64_t first)
      : tensor_(tensor), index_(tensor.shape.size()), at_(tensor.storage_offset) {
    for (std::size_t i = index_.size(); i-- > 0;) {
      const auto extent = static_cast<std::uint64_t>(tensor.shape[i]);
      index_[i] = static_cast<std::int64_t>(first % extent);
      at_ += index_[i] * tensor.strides[i];
      first /= extent;
    }
  }

  std::uint64_t at() const { return static_cast<std::uint64_t>(at_); }

  void next() {
    for (std::size_t i = index_.size(); i-- > 0;) {
      at_ += tensor_.strides[i];
      if (++index_[i] < tensor_.shape[i]) return;
      at_ -= index_[i] * tensor_.strides[i];
      index_[i] = 0;
    }
  }

 private:
  const TorchTensor& tensor_;
  std::vector<std::int64_t> index_;
  std::int64_t at_;
};

/// Bytes of the storage from the tensor's first to its last element.
std::uint64_t reach_bytes(const TorchTensor& tensor) {
  std::uint64_t last = 0;
  for (std::size_t i = 0; i < tensor.shape.size(); ++i) {
    last += static_cast<std::uint64_t>((tensor.shape[i] - 1) * tensor.strides[i]);
  }
  return (last + 1) * tensor.dtype->bytes();
}

}  // namespace

void TensorGather::read(const InputFile& file, const TorchTensor& tensor, std::uint64_t offset,
                        std::span<std::byte> to) {
  if (to.empty()) return;
  const std::uint64_t size = tensor.dtype->bytes();
  ElementWalk walk(tensor, offset / size);
  std::uint64_t within = offset % size;
  while (!to.empty()) {
    const std::size_t count = std::min<std::uint64_t>(size - within, to.size());
    std::memcpy(to.data(), bytes_at(file, tensor, walk.at() * size) + within, count);
    to = to.subspan(count);
    within = 0;
    walk.next();
  }
}

/// The element `at` bytes into the tensor's storage. Reads all that the tensor reaches at once where that is
/// about as much as the tensor itself, else a window of it.
const std::byte* TensorGather::bytes_at(const InputFile& file, const TorchTensor& tensor, std::uint64_t at) {
  const std::uint64_t size = tensor.dtype->bytes(), begin = tensor.view_begin + at;
  if (begin < window_begin_ || begin + size > window_begin_ + window_.size()) {
    constexpr std::uint64_t kWindow = 1 << 16;
    const std::uint64_t first = tensor.view_begin + static_cast<std::uint64_t>(tensor.storage_offset) * size;
    const std::uint64_t reach = reach_bytes(tensor);
    const bool whole = reach <= std::max(2 * tensor.bytes(), kWindow);
    window_begin_ = whole ? first : begin;
    window_.resize(whole ? reach : std::min(kWindow, first + reach - begin));
    try {
      file.read(window_begin_, window_, "storage " + printable(tensor.storage_key));
    } catch (...) {
      window_.clear();
      throw;
    }
  }
  return window_.data() + (begin - window_begin_);
}

}  // namespace moh
