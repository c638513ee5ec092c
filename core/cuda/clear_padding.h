#pragma once

namespace moh::cuda {

/// Zeros in the bytes of `of` that no member has, where the compiler can do that: else a timer of launches
/// might take what was left there for the address of a tensor.
template <class T>
void clear_padding([[maybe_unused]] T& of) {
#if defined(__has_builtin)
#if __has_builtin(__builtin_clear_padding)
  __builtin_clear_padding(&of);
#endif
#endif
}

}  // namespace moh::cuda
