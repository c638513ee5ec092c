#pragma once

#include "train/config/value.h"

namespace moh::config {

/// Removes from a layer the keys that are no options any more, where their value is the one that has become a
/// constant: the resolved configuration of earlier checkpoints contains each key, and such a run goes on with
/// the same bits. With another value the key stays, and is refused as an unknown one.
void drop_constant_keys(Value& layer);

}  // namespace moh::config
