#pragma once

#include "train/trainer/config/family_config.h"
#include "train/weights/checkpoint/train_state.h"
#include "train/weights/locate_model.h"

namespace moh {

/// Base of a family's configuration whose descriptions in other formats may say what training found out.
class KeepsIdentity {
 public:
  /// The identity that remember() would have to be given.
  virtual TrainedIdentity identity() const = 0;

 protected:
  ~KeepsIdentity() = default;
};

/// The facts that training found out about a stored model: those of its checkpoint, or, for a model in
/// another format, of `config`, which was read from it. Throws CheckpointError.
TrainedIdentity trained_identity(const ModelLocation& source, const FamilyConfig& config);

}  // namespace moh
