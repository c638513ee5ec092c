#pragma once

#include <string>
#include <vector>

#include "models/layers/moh_config.h"
#include "train/config/problems.h"

namespace moh::config {

/// Derives moh.top_k from moh.active, if the user gave it: active heads minus shared ones. Lists whose
/// lengths differ are left to the check of the model, which reports them. Refuses both keys together.
void settle_active_heads(MohConfig& moh, const GivenKeys& given, Rules& rules);

/// A line for what users are surprised by: a share for top_k, which does not count the shared heads, and
/// tokens that keep all routed heads of all layers, so that nothing is routed. `moh` is settled and checked;
/// `heads` are those of FamilyConfig::heads().
std::vector<std::string> routing_notes(const MohConfig& moh, const PerLayer& heads, const GivenKeys& given);

/// A line for layers whose tokens keep all routed heads, if not all layers are so; empty if there is none.
/// The paper has such models, too (the first stage of MoH-ViT-B-50).
std::string note_of_some_layers(const MohConfig& moh, const PerLayer& heads);

}  // namespace moh::config
