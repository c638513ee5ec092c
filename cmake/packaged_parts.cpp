// Parts of the packaged program and module that are not in Debian's archives (MohPackage.cmake).
#include <cstdio>

// fmt's compiled part, made from its headers: Debian has it as a shared library alone.
#include <fmt/format-inl.h>

// The archives' name for the C library's variable.
extern "C" {
extern FILE* moh_stderr;
[[gnu::visibility("hidden")]] FILE* moh_stderr = stderr;
}

FMT_BEGIN_NAMESPACE
namespace detail {

template auto dragonbox::to_decimal(float) noexcept -> dragonbox::decimal_fp<float>;
template auto dragonbox::to_decimal(double) noexcept -> dragonbox::decimal_fp<double>;
template auto locale_ref::get<std::locale>() const -> std::locale;
template auto thousands_sep_impl(locale_ref) -> thousands_sep_result<char>;
template auto decimal_point_impl(locale_ref) -> char;

}  // namespace detail
FMT_END_NAMESPACE
