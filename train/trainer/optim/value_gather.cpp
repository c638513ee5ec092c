#include "train/trainer/optim/value_gather.h"

#include <algorithm>
#include <utility>

#include "autograd/pending_value.h"

namespace moh {

namespace {

/// Buckets that are under way beyond the one that is waited for: memory of so many. A GPU waits for all that
/// are under way.
constexpr std::size_t kAhead = 4, kAheadOnDevice = 1;

}  // namespace

/// Buckets are started in the order in which a forward pass needs them: the last one first.
struct ValueGather::State {
  std::shared_ptr<const ParameterShards> shards;
  std::vector<Tensor> own, whole;
  std::size_t started = 0;
  bool forgotten = false;
  std::vector<std::function<void()>> under_way = {};  // by bucket

  std::size_t ahead() const { return own.empty() || own[0].device() == kCpu ? kAhead : kAheadOnDevice; }
  std::size_t count() const { return shards->buckets().size(); }
  void start_first(std::size_t number) {
    under_way.resize(count());
    for (; started < std::min(number, count()); ++started) {
      const std::size_t bucket = count() - 1 - started;
      under_way[bucket] = shards->start_gather(bucket, own, whole);
    }
  }
  void complete(std::size_t bucket) {
    if (forgotten) return;
    const std::size_t number = count() - bucket;
    start_first(number);
    std::exchange(under_way[bucket], {})();
    start_first(number + ahead());
  }
};

ValueGather::ValueGather(std::shared_ptr<const ParameterShards> shards, std::span<const Tensor> own,
                         std::span<const Variable> leaves)
    : state_(std::make_shared<State>(State{std::move(shards), {own.begin(), own.end()}, {}})),
      leaves_(leaves.begin(), leaves.end()) {
  for (const Variable& leaf : leaves) state_->whole.push_back(leaf.value());
  const std::vector<Bucket>& buckets = state_->shards->buckets();
  for (std::size_t b = 0; b < buckets.size(); ++b) {
    const auto values = std::make_shared<PendingValue>([state = state_, b] { state->complete(b); });
    for (const std::size_t i : buckets[b].items) values->belongs_to(leaves_[i]);
  }
}

void ValueGather::start() const {
  state_->start_first(state_->ahead());
}

void ValueGather::finish() const {
  start();
  for (const Variable& leaf : leaves_) static_cast<void>(leaf.value());
}

void ValueGather::forget() const {
  state_->forgotten = true;
}

}  // namespace moh
