#include "train/trainer/optim/parameter_shards.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <optional>
#include <utility>

#include "core/cuda/queue.h"
#include "core/error.h"
#include "train/comm/collective_memory.h"
#include "train/comm/device_collectives.h"

namespace moh {

namespace {

constexpr std::int64_t kAlignment = 16;  // elements: 64 bytes of float32, a cache line

std::int64_t padded(std::int64_t elements, std::int64_t unit) {
  return (elements + unit - 1) / unit * unit;
}

/// Copies `count` elements of one dtype, from number `from_begin` to number `to_begin`.
void copy_elements(const Tensor& to, std::int64_t to_begin, const Tensor& from, std::int64_t from_begin,
                   std::int64_t count) {
  MOH_CHECK(to.dtype() == from.dtype(), "gather: one dtype");
  const auto elements = [count](const Tensor& tensor, std::int64_t begin) {
    return tensor.reshape({tensor.numel()}).slice(begin, begin + count);
  };
  if (count > 0) elements(to, to_begin).copy_from(elements(from, from_begin));
}

/// Items that follow each other: [begin, end) of all.
struct Unit {
  std::size_t begin = 0, end = 0;
  std::int64_t elements = 0;
};

Unit unit_before(std::size_t end, std::span<const BucketItem> items) {
  Unit unit{end - 1, end, 0};
  while (unit.begin > 0 && items[unit.begin].follows) --unit.begin;
  for (std::size_t i = unit.begin; i < end; ++i) unit.elements += items[i].elements;
  return unit;
}

void append(Bucket& bucket, const Unit& unit, std::span<const BucketItem> items, std::int64_t begin) {
  for (std::size_t i = unit.begin; i < unit.end; ++i) {
    bucket.items.push_back(i);
    bucket.begins.push_back(begin);
    begin += items[i].elements;
  }
}

Bucket one_behind_the_other(std::span<const Unit> units, std::span<const BucketItem> items,
                            std::int64_t parts) {
  Bucket bucket;
  for (const Unit& unit : units) {
    append(bucket, unit, items, bucket.elements);
    bucket.elements += unit.elements;
  }
  if (parts > 1) bucket.elements = padded(bucket.elements, parts * kAlignment);
  return bucket;
}

/// The largest unit first, each in the part that has the fewest elements so far.
Bucket in_parts(std::span<const Unit> units, std::span<const BucketItem> items, std::int64_t parts) {
  std::vector<const Unit*> by_size;
  for (const Unit& unit : units) by_size.push_back(&unit);
  std::ranges::stable_sort(by_size, std::ranges::greater(), [](const Unit* unit) { return unit->elements; });
  std::vector<std::vector<const Unit*>> of_parts(static_cast<std::size_t>(parts));
  std::vector<std::int64_t> elements(of_parts.size());
  for (const Unit* unit : by_size) {
    const auto part = static_cast<std::size_t>(std::ranges::min_element(elements) - elements.begin());
    of_parts[part].push_back(unit);
    elements[part] += unit->elements;
  }
  const std::int64_t each = padded(std::ranges::max(elements), kAlignment);
  Bucket bucket;
  bucket.elements = each * parts;
  for (std::size_t part = 0; part < of_parts.size(); ++part) {
    std::int64_t begin = each * static_cast<std::int64_t>(part);
    for (const Unit* unit : of_parts[part]) {
      append(bucket, *unit, items, begin);
      begin += unit->elements;
    }
  }
  return bucket;
}

}  // namespace

std::vector<Bucket> bucket_layout(std::span<const BucketItem> items, std::size_t bytes, std::int64_t parts) {
  constexpr std::int64_t kUnitsOfPart = 8, kLeastFill = 8;  // an eighth may be empty
  const bool whole = parts > 1 && !items.empty() && items.front().whole;
  std::vector<Bucket> buckets;
  std::vector<Unit> units;
  std::int64_t elements = 0;  // of the units
  const auto bucket = [&] {
    return whole ? in_parts(units, items, parts) : one_behind_the_other(units, items, parts);
  };
  const auto close = [&] {
    if (!units.empty()) buckets.push_back(bucket());
    units.clear();
    elements = 0;
  };
  const auto is_full = [&] {
    if (static_cast<std::size_t>(elements) * dtype_size(DType::kFloat32) < bytes) return false;
    if (!whole || std::ssize(units) >= kUnitsOfPart * parts) return true;
    return bucket().elements * (kLeastFill - 1) <= elements * kLeastFill;
  };
  for (std::size_t end = items.size(); end > 0;) {
    const Unit unit = unit_before(end, items);
    if (!units.empty() && items[units.back().begin].dtype != items[unit.begin].dtype) close();
    units.push_back(unit);
    elements += unit.elements;
    end = unit.begin;
    if (is_full()) close();
  }
  close();
  return buckets;
}

/// Memory of a GPU for collectives: the rows of buckets, and the sums of squares.
class ParameterShards::RowMemory {
 public:
  /// Rows for a bucket, of those of the largest size, until it is given back.
  struct Rows {
    std::map<DType, CollectiveMemory> memory;
    bool is_taken = false;
  };
  Rows& take() {
    const auto is_free = [](const std::unique_ptr<Rows>& rows) { return !rows->is_taken; };
    auto found = std::ranges::find_if(rows_, is_free);
    if (found == rows_.end()) found = rows_.insert(found, std::make_unique<Rows>());
    (*found)->is_taken = true;
    return **found;
  }

  Tensor squares_of_all(const Tensor& own, Communicator& processes) {
    const Tensor rows = squares_.of({processes.size(), own.numel()}, own.dtype(), own.device());
    const Tensor mine = rows.select(processes.rank());
    mine.copy_from(own);
    processes.on_device().all_gather_in_line(mine, rows);
    return rows.reshape({rows.numel()});
  }

 private:
  std::vector<std::unique_ptr<Rows>> rows_;
  CollectiveMemory squares_;
};

/// A bucket whose parts are under way.
struct ParameterShards::Sent {
  Communicator* processes;
  Tensor rows;
  std::vector<Tensor> whole = {};  // of the bucket's items; none where they are the rows
  std::vector<std::int64_t> begins = {};
  RowMemory::Rows* taken = nullptr;    // the rows' memory, which is given back with the end
  Communicator::Pending pending = {};  // of main memory

  void finish() {
    if (rows.device() == kCpu)
      processes->finish(pending);
    else
      cuda::wait_for(cuda::Queue::kCompute, cuda::Queue::kCommunication);
    for (std::size_t i = 0; i < whole.size(); ++i)
      copy_elements(whole[i], 0, rows, begins[i], whole[i].numel());
    if (taken != nullptr) taken->is_taken = false;
  }
};

ParameterShards::ParameterShards(std::vector<BucketItem> items, std::size_t bucket_bytes,
                                 Communicator& processes)
    : items_(std::move(items)),
      processes_(processes),
      buckets_(bucket_layout(items_, bucket_bytes, processes.size())),
      own_(items_.size()),
      row_memory_(std::make_unique<RowMemory>()) {
  for (const Bucket& bucket : buckets_) {
    const std::int64_t part = bucket.elements / processes.size(), first = part * processes.rank();
    for (std::size_t k = 0; k < bucket.items.size(); ++k) {
      const std::int64_t begin = bucket.begins[k], elements = items_[bucket.items[k]].elements;
      own_[bucket.items[k]] = {std::clamp<std::int64_t>(first - begin, 0, elements),
                               std::clamp<std::int64_t>(first + part - begin, 0, elements)};
    }
  }
}

ParameterShards::~ParameterShards() = default;

Tensor ParameterShards::own_part(std::size_t index, const Tensor& whole) const {
  if (!divided() || (items_[index].whole && own_[index].count() == whole.numel())) return whole;
  return whole.reshape({whole.numel()}).slice(own_[index].begin, own_[index].end);
}

std::vector<Tensor> ParameterShards::own_parts(std::span<const Tensor> of_buckets) const {
  std::vector<Tensor> parts(items_.size());
  for (std::size_t b = 0; b < buckets_.size(); ++b) {
    std::vector<Tensor> of_items = own_parts(b, of_buckets[b]);
    for (std::size_t k = 0; k < of_items.size(); ++k) parts[buckets_[b].items[k]] = std::move(of_items[k]);
  }
  return parts;
}

std::vector<Tensor> ParameterShards::own_parts(std::size_t bucket, const Tensor& part) const {
  std::vector<Tensor> parts;
  std::int64_t begin = 0;
  for (const std::size_t i : buckets_[bucket].items) {
    parts.push_back(part.slice(begin, begin + own_[i].count()));
    begin += own_[i].count();
  }
  return parts;
}

double ParameterShards::norm_of_all(double own) const {
  if (!divided()) return own;
  const Tensor squares = tensor_of<double>({1}, {own * own});
  processes_.all_reduce(squares, ReduceOp::kSum);
  return std::sqrt(squares.item());
}

std::function<Tensor(const Tensor& own)> ParameterShards::squares_of_all() const {
  if (!divided()) return {};
  return [this](const Tensor& own) { return row_memory_->squares_of_all(own, processes_); };
}

bool ParameterShards::is_in_place(const Bucket& bucket, std::span<const Tensor> own,
                                  std::span<const Tensor> whole) const {
  const std::size_t i = bucket.items.front();
  const Tensor& tensor = whole[i];
  if (bucket.items.size() > 1 || tensor.numel() != bucket.elements) return false;
  if (own_part(i, tensor).raw() != own[i].raw()) return false;
  return tensor.device() == kCpu || cuda::is_persistent(tensor.raw(), tensor.bytes());
}

ParameterShards::Sent ParameterShards::start(const Bucket& bucket, std::span<const Tensor> own,
                                             std::span<const Tensor> whole) const {
  const Tensor& first = own[bucket.items.front()];
  const Shape shape = {processes_.size(), bucket.elements / processes_.size()};
  Sent sent{&processes_, {}};
  if (is_in_place(bucket, own, whole)) {
    sent.rows = whole[bucket.items.front()].reshape(shape);
    send(sent);
    return sent;
  }
  if (first.device() == kCpu) {
    const MemoryPurposeScope purpose(MemoryPurpose::kWorkspace);
    sent.rows = empty(shape, first.dtype());
  } else {
    sent.taken = &row_memory_->take();
    const std::int64_t most = std::ranges::max_element(buckets_, {}, &Bucket::elements)->elements;
    const Tensor memory = sent.taken->memory[first.dtype()].of({most}, first.dtype(), first.device());
    sent.rows = memory.slice(0, bucket.elements).reshape(shape);
  }
  sent.begins = bucket.begins;
  const Tensor mine = sent.rows.select(processes_.rank());
  std::int64_t place = 0;
  for (const std::size_t i : bucket.items) {
    copy_elements(mine, place, own[i], 0, own_[i].count());
    place += own_[i].count();
    sent.whole.push_back(whole[i]);
  }
  mine.slice(place, mine.numel()).fill(0);
  send(sent);
  return sent;
}

void ParameterShards::send(Sent& sent) const {
  const Tensor mine = sent.rows.select(processes_.rank());
  if (sent.rows.device() == kCpu) {
    sent.pending = processes_.start_all_gather(mine, sent.rows);
  } else {
    cuda::wait_for(cuda::Queue::kCommunication, cuda::Queue::kCompute);
    processes_.on_device().all_gather(mine, sent.rows);
  }
}

void ParameterShards::gather(std::span<const Tensor> own, std::span<const Tensor> whole) const {
  std::optional<Sent> before;
  for (auto bucket = buckets_.rbegin(); bucket != buckets_.rend(); ++bucket) {
    Sent next = start(*bucket, own, whole);
    if (before) before->finish();
    before.emplace(std::move(next));
  }
  if (before) before->finish();
}

std::function<void()> ParameterShards::start_gather(std::size_t bucket, std::span<const Tensor> own,
                                                    std::span<const Tensor> whole) const {
  const auto sent = std::make_shared<Sent>(start(buckets_[bucket], own, whole));
  return [sent] { sent->finish(); };
}

}  // namespace moh
