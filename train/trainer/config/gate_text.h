#pragma once

#include <string>

#include "models/layers/attention_gate.h"
#include "train/trainer/config/enum_names.h"

namespace moh {

/// ", gates per head" or its like in the description of a model; empty without gates.
inline std::string gate_text(AttentionGate gate) {
  return gate == AttentionGate::kNone ? "" : ", gates per " + std::string(name_of(gate));
}

}  // namespace moh
