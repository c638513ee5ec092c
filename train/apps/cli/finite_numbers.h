#pragma once

namespace CLI {  // NOLINT(readability-identifier-naming): the name of the library's
class App;
}

namespace moh::cli {

/// Lets no option of `app` and its commands whose values are floating-point numbers take nan or inf, which
/// the library reads and its ranges let pass: NaN is neither below nor above a bound. Call after all options
/// are added.
void require_finite_numbers(CLI::App& app);

}  // namespace moh::cli
