#pragma once

#include "train/checkpoint/train_state.h"
#include "train/config/family_config.h"
#include "train/weights/locate_model.h"

namespace moh {

/// Base of a family's configuration whose descriptions in other formats may say what training found out.
class KeepsIdentity {
 public:
  /// What remember() would have to be told.
  virtual TrainedIdentity identity() const = 0;

 protected:
  ~KeepsIdentity() = default;
};

/// What training found out about a stored model: what its checkpoint says, or, for a model in another format,
/// what `config`, which was read from it, does. Throws CheckpointError.
TrainedIdentity trained_identity(const ModelLocation& source, const FamilyConfig& config);

}  // namespace moh
