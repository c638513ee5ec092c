#include "train/config/moh_fields.h"

#include "train/config/enum_names.h"
#include "train/config/limits.h"

namespace moh::config {

Section describe(MohConfig& c) {
  Section s("moh",
            "Mixture-of-Head attention (arXiv 2410.11842): of the heads that are not shared, each token "
            "keeps a few.");
  s.field("router", c.router,
          "`none`: every head is active, the plain model. `learned`: linear routers on the layer's input. "
          "`query_norm`: "
          "no parameters, the norms of the queries decide, and selected heads have weight 1 (MoH-LLaMA3).");
  s.field("num_shared", c.num_shared, at_least(0, "heads").capped(kMaxWidth),
          "Heads that are active for every token.");
  s.field(
      "shared_heads", HeadSetRef{&c.shared_heads, names_of(HeadRule())}, at_least(0).capped(kMaxWidth),
      "Which heads these are: the `first` ones, or lists of their numbers, counted from 0. With `init.from` "
      "they can be chosen in each layer by what they do on data: the heads of the largest mean output "
      "(`output_norm`), those without which the loss grows most (`loss_increase`), those that trained masks "
      "keep (`learned`); the lists replace the rule when the run begins.");
  s.field("top_k", c.top_k, at_least(0, "heads").capped(kMaxWidth),
          "Heads that each token keeps of the others (K of the Top-K).");
  s.field(
      "gate_scaling", c.gate_scaling,
      "Weights of the selected heads. `code`: as the released code, about 1 each. `paper`: as the paper's "
      "equations, with a sum of at most 1.");
  s.field("two_stage", c.two_stage,
          "Weigh shared against routed heads, token by token, by a router of their own.");
  s.field("straight_through", c.straight_through,
          "Which gradients reach the router of `query_norm`: those of the `selected` heads, of `all` heads "
          "(which training then computes), or `none` but the load-balance loss.");
  s.field(
      "balance_loss", c.balance_loss,
      "Form of the load-balance loss of a layer, with P_i the mean probability of routed head i and f_i its "
      "share of the tokens. `code`: E sum P_i f_i, which is `top_k` when balanced. `paper`: sum P_i f_i, "
      "`top_k` / E when balanced. With `gate_scaling` alone given, the loss has its form.");
  s.field("balance_weight", c.balance_weight, at_least(0),
          "Weight of the load-balance loss, a mean over the layers that route.");
  s.field("router_precision", c.router_precision,
          "What the matrices of `learned` routers are stored in: the `same` as the rest of the model, or "
          "`float32` in a bfloat16 run. Logits, gates and the choice are computed in float32 either way.");
  return s;
}

}  // namespace moh::config
