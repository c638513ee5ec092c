#include "train/trainer/task/trained_identity.h"

#include "train/weights/checkpoint/stored_checkpoint.h"

namespace moh {

TrainedIdentity trained_identity(const ModelLocation& source, const FamilyConfig& config) {
  if (source.is_checkpoint) return trained_identity(StoredCheckpoint(source.weights, LoadScope::kModelOnly));
  const auto* const keeps = dynamic_cast<const KeepsIdentity*>(&config);
  return keeps != nullptr ? keeps->identity() : TrainedIdentity();
}

}  // namespace moh
