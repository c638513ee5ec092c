#include "train/base/formats/torch/torch_tensor.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "train/base/io/printable.h"

namespace moh {

namespace {

/// Reads values with checked types; messages name `what` they describe.
class FieldReader {
 public:
  FieldReader(const InputFile& file, const PickleTree& tree, std::string what)
      : file_(file), tree_(tree), what_(std::move(what)) {}

 protected:
  [[noreturn]] void fail(std::string_view expected, std::string_view found,
                         std::string_view fix = "the file is damaged") const {
    file_.fail(what_, expected, found, fix);
  }

  std::int64_t integer(PickleId id, std::string_view expected) const {
    if (!tree_.is(id, PickleKind::kInt)) fail(expected, "a value of another type");
    return tree_.integer(id);
  }

  /// The name of a class or dtype; empty for other values.
  std::string_view global_name(PickleId id) const {
    return tree_.is(id, PickleKind::kGlobal) ? std::string_view(tree_.name(id)) : std::string_view();
  }

  const InputFile& file_;
  const PickleTree& tree_;
  std::string what_;
};

class StorageIdReader : FieldReader {
 public:
  using FieldReader::FieldReader;

  TorchStorageId read(const std::vector<PickleId>& fields) {
    if (fields.size() != 5 && fields.size() != 6) fail("5 or 6 fields", std::to_string(fields.size()));
    read_type(global_name(fields[1]));
    if (!tree_.is(fields[2], PickleKind::kText)) fail("a text as key", "a value of another type");
    id_.key = tree_.bytes(fields[2]);
    what_ += printable(id_.key);
    id_.numel = id_.view_numel = count(fields[4], "a number of elements");
    std::uint64_t bytes = 0;
    if (__builtin_mul_overflow(id_.numel, id_.element_bytes(), &bytes)) {
      fail("a size within 64 bits", std::to_string(id_.numel) + " elements");
    }
    if (fields.size() == 6 && !tree_.is(fields[5], PickleKind::kNone)) read_view(tree_.node(fields[5]));
    return id_;
  }

 private:
  void read_type(std::string_view name) {
    id_.dtype = find_torch_storage(name);
    const bool untyped = name == "torch.storage.UntypedStorage" || name == "torch.UntypedStorage" ||
                         name == "torch.storage._UntypedStorage";  // the tensors have the dtype
    if (id_.dtype == nullptr && !untyped) {
      fail("a storage class of PyTorch", name.empty() ? "a value" : printable(name));
    }
  }

  void read_view(const PickleNode& view) {
    if (view.kind != PickleKind::kTuple || view.items.size() != 3) fail("a view with 3 fields", "another");
    id_.view_begin = count(view.items[1], "a first element");
    id_.view_numel = count(view.items[2], "a number of elements");
    if (id_.view_begin > id_.numel || id_.view_numel > id_.numel - id_.view_begin) {
      fail("a view within " + std::to_string(id_.numel) + " elements",
           std::to_string(id_.view_numel) + " from element " + std::to_string(id_.view_begin));
    }
  }

  std::uint64_t count(PickleId id, std::string_view expected) const {
    const std::int64_t count = integer(id, expected);
    if (count < 0) fail(expected, "something else");
    return static_cast<std::uint64_t>(count);
  }

  TorchStorageId id_;
};

/// The positions of arguments in the calls that make a tensor.
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

/// The innermost call, which makes the data of a tensor.
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
  constexpr int kMostAround = 8;  // wrapping calls; a parameter of a subclass has two
  for (int depth = 0; depth < kMostAround; ++depth) {
    if (!tree.is(id, PickleKind::kObject)) return std::nullopt;
    Call call{tree.name(id), &tree.args(id)};
    if (is_subclass(call.function)) {  // (function, type, args, state)
      const auto& args = *call.args;
      if (args.size() < 3 || !tree.is(args[0], PickleKind::kGlobal) || !tree.is(args[2], PickleKind::kTuple))
        return std::nullopt;
      call = {tree.name(args[0]), &tree.node(args[2]).items};
    }
    if (!is_parameter(call.function)) return call;
    if (call.args->empty()) return std::nullopt;
    id = call.args->front();
  }
  return std::nullopt;
}

class TensorReader : FieldReader {
 public:
  using FieldReader::FieldReader;

  TorchTensor read(const Rebuild& rebuild, const std::vector<PickleId>& args, const TorchStorages& storages) {
    if (args.size() < rebuild.least_args) {
      fail(std::to_string(rebuild.least_args) + " arguments for " + std::string(rebuild.function),
           std::to_string(args.size()));
    }
    const auto id = read_storage_id(file_, tree_, args[0]);
    if (!id) fail("a storage in the file", "something else");
    tensor_.dtype = rebuild.names_dtype ? read_dtype(global_name(args[6])) : id->dtype;
    if (tensor_.dtype == nullptr) fail("a dtype", "none");
    find_storage(*id, storages);
    tensor_.storage_offset = integer(args[1], "a storage offset");
    tensor_.shape = numbers(args[2], "sizes");
    tensor_.strides = numbers(args[3], "strides");
    check_extent(*id);
    return tensor_;
  }

 private:
  const StoredDType* read_dtype(std::string_view name) const {
    if (const StoredDType* dtype = find_torch_dtype(name)) return dtype;
    fail("a dtype that moh knows", name.empty() ? "a value" : printable(name),
         "save the tensor as another dtype");
  }

  void find_storage(const TorchStorageId& id, const TorchStorages& storages) {
    const auto found = storages.find(id.key);
    if (found == storages.end()) fail("its storage in the file", "no storage " + printable(id.key));
    tensor_.storage_key = found->first;
    tensor_.storage = &found->second;
    const std::uint64_t bytes = id.numel * id.element_bytes();  // read_storage_id() has checked for overflow
    if (bytes != found->second.bytes) {
      fail("a storage of " + std::to_string(bytes) + " bytes", std::to_string(found->second.bytes));
    }
  }

  std::vector<std::int64_t> numbers(PickleId id, const std::string& what) const {
    const bool is_size = tree_.is_object(id, "torch.Size") && tree_.args(id).size() == 1;
    const PickleNode& list = tree_.node(is_size ? tree_.args(id)[0] : id);
    if (list.kind != PickleKind::kTuple && list.kind != PickleKind::kList) {
      fail(what + " as a tuple", "a value of another type");
    }
    constexpr std::size_t kMostAxes = 64;  // PyTorch's own limit
    if (list.items.size() > kMostAxes) fail("at most 64 " + what, "more");
    std::vector<std::int64_t> values;
    for (const PickleId item : list.items) {
      values.push_back(integer(item, "whole numbers as " + what));
      if (values.back() < 0) fail(what + " of 0 or more", std::to_string(values.back()));
    }
    return values;
  }

  /// Checks that the last element, and so all of them, lie within the storage, or the referenced part of it.
  void check_extent(const TorchStorageId& id) {
    if (tensor_.shape.size() != tensor_.strides.size()) {
      fail(std::to_string(tensor_.shape.size()) + " strides", std::to_string(tensor_.strides.size()));
    }
    if (tensor_.storage_offset < 0) {
      fail("a storage offset of 0 or more", std::to_string(tensor_.storage_offset));
    }
    std::int64_t last = tensor_.storage_offset;
    auto bytes = static_cast<std::int64_t>(tensor_.dtype->bytes());  // of all elements, packed
    bool overflow = false, is_empty = false;
    for (std::size_t i = 0; i < tensor_.shape.size(); ++i) {
      const std::int64_t size = tensor_.shape[i];
      is_empty = is_empty || size == 0;
      std::int64_t reach = 0;
      overflow = overflow || __builtin_mul_overflow(size == 0 ? 0 : size - 1, tensor_.strides[i], &reach) ||
                 __builtin_add_overflow(last, reach, &last) ||
                 __builtin_mul_overflow(std::max<std::int64_t>(size, 1), bytes, &bytes);
    }
    if (overflow) fail("sizes and strides within 64 bits", "larger ones");
    if (is_empty) return;
    const std::uint64_t element_bytes = tensor_.dtype->bytes();
    const std::uint64_t stored = id.view_numel * id.element_bytes() / element_bytes;
    if (static_cast<std::uint64_t>(last) >= stored) {
      fail("elements within the storage's " + std::to_string(stored), "element " + std::to_string(last));
    }
    if (tensor_.numel() > stored && tensor_.bytes() > kMaxRepeatedBytes) {
      fail("at most " + std::to_string(kMaxRepeatedBytes) + " bytes for a tensor that repeats its elements",
           std::to_string(tensor_.bytes()), "save it without expand()");
    }
    const auto first = static_cast<std::uint64_t>(tensor_.storage_offset);
    tensor_.begin = tensor_.storage->begin + id.view_begin * id.element_bytes() + first * element_bytes;
    tensor_.reach_bytes = (static_cast<std::uint64_t>(last) - first + 1) * element_bytes;
  }

  TorchTensor tensor_;
};

/// Offset of element number `index`, in row-major order, from the tensor's first one, in elements.
std::int64_t place_of(const TorchTensor& tensor, std::int64_t index) {
  std::int64_t place = 0;
  for (std::size_t i = tensor.shape.size(); i-- > 0; index /= tensor.shape[i]) {
    place += index % tensor.shape[i] * tensor.strides[i];
  }
  return place;
}

}  // namespace

std::optional<TorchStorageId> read_storage_id(const InputFile& file, const PickleTree& tree, PickleId id) {
  if (!tree.is(id, PickleKind::kPersistent)) return std::nullopt;
  const PickleNode& what = tree.node(tree.node(id).items[0]);
  if (what.kind != PickleKind::kTuple || what.items.empty() || !tree.is_text(what.items[0], "storage")) {
    return std::nullopt;
  }
  return StorageIdReader(file, tree, "storage ").read(what.items);
}

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
  const auto rebuild = std::ranges::find(kRebuilds, call->function, &Rebuild::function);
  if (rebuild == std::ranges::end(kRebuilds)) return std::nullopt;
  return TensorReader(file, tree, "tensor " + printable(where)).read(*rebuild, *call->args, storages);
}

void TensorGather::read(const InputFile& file, const TorchTensor& tensor, std::uint64_t offset,
                        std::span<std::byte> to) {
  const std::uint64_t size = tensor.dtype->bytes();
  auto element = static_cast<std::int64_t>(offset / size);
  std::uint64_t within = offset % size;
  while (!to.empty()) {  // row by row
    std::int64_t place = place_of(tensor, element);
    const std::int64_t columns = tensor.shape.back();
    for (std::int64_t column = element % columns; column < columns && !to.empty(); ++column, ++element) {
      const std::size_t count = std::min<std::uint64_t>(size - within, to.size());
      std::memcpy(to.data(), bytes_at(file, tensor, static_cast<std::uint64_t>(place) * size) + within,
                  count);
      to = to.subspan(count);
      within = 0;
      place += tensor.strides.back();
    }
  }
}

/// The element `at` bytes after the tensor's first one. Reads the whole range of the tensor at once if that
/// is not much larger than its elements, else a window of it.
const std::byte* TensorGather::bytes_at(const InputFile& file, const TorchTensor& tensor, std::uint64_t at) {
  const std::uint64_t size = tensor.dtype->bytes(), begin = tensor.begin + at;
  if (begin < window_begin_ || begin + size > window_begin_ + window_.size()) {
    constexpr std::uint64_t kWindow = 1 << 16;
    const bool whole = tensor.reach_bytes <= std::max(2 * tensor.bytes(), kWindow);
    const std::uint64_t from = whole ? tensor.begin : begin;
    window_begin_ = UINT64_MAX;  // stays so if the read throws
    window_.resize(std::min(whole ? tensor.reach_bytes : kWindow, tensor.begin + tensor.reach_bytes - from));
    file.read(from, window_, "storage " + printable(tensor.storage_key));
    window_begin_ = from;
  }
  return window_.data() + (begin - window_begin_);
}

}  // namespace moh
