#pragma once

namespace moh::config {

/// Facts about a field that do not depend on its value.
enum class FieldProperty {
  /// A run may set it differently from the checkpoint that it starts from.
  kDiffersFreely,
  /// Field of a model that concerns only its training or its storage: the same weights give the same results.
  kOfTraining,
  /// Affects results, and cannot be inferred from names and shapes of weights.
  kUnseenInWeights,
  /// Field of a model that a run which starts from weights without a configuration need not give: a wrong
  /// value would contradict the shapes of the weights, or concerns only training.
  kOptionalWithWeights,
  /// May change when a run resumes: affects logging, files or the length of the run, but not what a step
  /// computes.
  kHarmlessOnResume,
  /// Determines, with the others that have it, how the learning rate decays and where that ends. May change
  /// when
  /// a run resumes if the finished steps had the same rates.
  kEndsDecay,
};

/// The properties of a field, or of a section, whose fields have them unless they say otherwise. Each
/// function returns the object, so that calls can follow the declaration of a field:
///   s.field("dropout", c.dropout, from_below(0, 1), "...").differs_freely().of_training();
class FieldProperties {
 public:
  FieldProperties& differs_freely() { return with(FieldProperty::kDiffersFreely); }
  FieldProperties& of_training() { return with(FieldProperty::kOfTraining); }
  FieldProperties& unseen_in_weights() { return with(FieldProperty::kUnseenInWeights); }
  FieldProperties& optional_with_weights() { return with(FieldProperty::kOptionalWithWeights); }
  FieldProperties& harmless_on_resume() { return with(FieldProperty::kHarmlessOnResume); }
  FieldProperties& ends_decay() { return with(FieldProperty::kEndsDecay); }
  /// For a field whose section has the property.
  FieldProperties& without(FieldProperty property) {
    denied_ |= bit(property);
    given_ &= ~bit(property);
    return *this;
  }

  bool has(FieldProperty property) const { return (given_ & bit(property)) != 0; }

  /// The properties of a field, or of a section, that is part of `section`.
  FieldProperties within(const FieldProperties& section) const {
    FieldProperties all = *this;
    all.given_ |= section.given_ & ~denied_;
    all.denied_ |= section.denied_ & ~given_;
    return all;
  }

 private:
  static constexpr unsigned bit(FieldProperty property) { return 1U << static_cast<unsigned>(property); }

  FieldProperties& with(FieldProperty property) {
    given_ |= bit(property);
    denied_ &= ~bit(property);
    return *this;
  }

  unsigned given_ = 0, denied_ = 0;
};

}  // namespace moh::config
