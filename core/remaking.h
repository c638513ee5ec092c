#pragma once

namespace moh {

/// Whether this thread makes a released tensor again (Tensor::release_until_read), which whoever reads it
/// waits for.
bool remaking();

}  // namespace moh
