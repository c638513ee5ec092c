#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/tensor.h"
#include "train/comm/communicator.h"

namespace moh {

/// A parameter, or what belongs to it, as far as where its elements lie is concerned.
struct BucketItem {
  std::int64_t elements = 0;
  DType dtype = DType::kFloat32;
  /// Its values lie right behind those of the item before it, so that one multiplication may compute the
  /// gradients of both (packed_linear() of ops/linalg/linear.h), if these lie so, too.
  bool follows = false;
  /// One process has all of its elements, as an update reads a whole matrix; of all items, or of none.
  bool whole = false;
};

/// Items in one buffer.
struct Bucket {
  std::vector<std::size_t> items;    ///< indices, in the order in the buffer
  std::vector<std::int64_t> begins;  ///< their first elements in it
  std::int64_t elements = 0;         ///< of the buffer: those of the items, and what makes equal parts
};

/// Items in buckets of at least `bytes` of float32 each, but for the last, in the reverse of their order:
/// that in which a backward pass completes their gradients. An item that follows another lies behind it. The
/// items of a bucket are of one dtype, and its elements can be divided into `parts` equal parts that begin at
/// multiples of 64 bytes.
///
/// Items that are whole are in one part each, and a bucket has so many that at most an eighth of it is empty,
/// or eight for each part.
std::vector<Bucket> bucket_layout(std::span<const BucketItem> items, std::size_t bytes, std::int64_t parts);

/// Elements of a tensor that has `whole` of them, from number `begin` on.
struct TensorPart {
  std::string name;
  Tensor tensor;
  std::int64_t begin = 0, whole = 0;
};

/// The elements of the parameters that this process updates: all of them, or, where the optimiser state is
/// divided among the processes (ZeRO stage 1, arXiv 1910.02054), an equal part of each bucket, and all
/// processes get the new values of all elements.
class ParameterShards {
 public:
  struct Range {
    std::int64_t begin = 0, end = 0;
    std::int64_t count() const { return end - begin; }
  };

  /// Not divided if `processes` is one. The communicator must outlive this object.
  ParameterShards(std::vector<BucketItem> items, std::size_t bucket_bytes, Communicator& processes);
  ~ParameterShards();
  ParameterShards(const ParameterShards&) = delete;
  ParameterShards& operator=(const ParameterShards&) = delete;

  bool divided() const { return !processes_.alone(); }
  const std::vector<BucketItem>& items() const { return items_; }
  const std::vector<Bucket>& buckets() const { return buckets_; }
  Communicator& processes() const { return processes_; }
  /// The elements of item `index` that this process updates; none: begin = end. Those of rank r + 1 follow
  /// those of rank r.
  Range own(std::size_t index) const { return own_[index]; }
  /// A view of those elements, [count], of a tensor of the item's size; where nothing is divided, or the item
  /// is whole and this process's, the tensor.
  Tensor own_part(std::size_t index, const Tensor& whole) const;

  /// Views of those elements of all items, [count] each, of the parts that this process has of buckets():
  /// of_buckets[b] is [elements / N], the own elements of its items one behind the other.
  std::vector<Tensor> own_parts(std::span<const Tensor> of_buckets) const;
  /// Views of the own elements of one bucket's items, in their order in it, of this process's part of it.
  std::vector<Tensor> own_parts(std::size_t bucket, const Tensor& part) const;

  /// The norm of the gradients of all elements, equal in all processes, from that of this process's. In host
  /// memory; a collective.
  double norm_of_all(double own) const;
  /// The function that DeviceAdamW::update() takes: gathers the sums of the squares of all processes on their
  /// GPUs. Empty where nothing is divided.
  std::function<Tensor(const Tensor& own)> squares_of_all() const;

  /// Completes the tensors `whole[i]` of all items from the parts [count] of all processes, `own[i]` being
  /// this one's, [count], and maybe a view of whole[i]. All of a bucket are of one dtype, and all on one
  /// device. A collective, on a GPU of processes().on_device(), for which the compute queue waits; the
  /// buckets of the first items come first, and one is sent while the next is filled.
  ///
  /// A bucket of one tensor that fills it exactly, and of which own[i] is a view, is gathered in place; on a
  /// GPU, if that tensor is persistent (core/cuda/queue.h). Others go by way of memory of the bucket's size,
  /// which on a GPU is this object's own, and lasts: as much as is under way at a time, two buckets.
  void gather(std::span<const Tensor> own, std::span<const Tensor> whole) const;

  /// Starts gather() for one of buckets(). What it returns is to be called once: it waits, and completes the
  /// bucket's tensors, whose contents are undefined until then. This object and the communicator must outlive
  /// it.
  std::function<void()> start_gather(std::size_t bucket, std::span<const Tensor> own,
                                     std::span<const Tensor> whole) const;

 private:
  class RowMemory;
  struct Sent;

  Sent start(const Bucket& bucket, std::span<const Tensor> own, std::span<const Tensor> whole) const;
  void send(Sent& sent) const;
  bool is_in_place(const Bucket& bucket, std::span<const Tensor> own, std::span<const Tensor> whole) const;

  std::vector<BucketItem> items_;
  Communicator& processes_;
  std::vector<Bucket> buckets_;
  std::vector<Range> own_;
  std::unique_ptr<RowMemory> row_memory_;  // of a GPU
};

}  // namespace moh
