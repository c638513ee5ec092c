"""The mutations of scripts/mutate.sh. Each is (name, file, text, its replacement, test program, pattern of its tests). The
text occurs in the file exactly once."""

from typing import NamedTuple


class Mutation(NamedTuple):
    name: str
    file: str
    text: str
    instead: str
    target: str  # CMake target: a test program, or moh
    tests: str  # a regular expression for ctest


MUTATIONS = [
    # Gradients of ops.
    Mutation("a sign in the backward pass of RMS norm", "ops/norm/rms_norm_cpu.cpp",
             "if (dsum == nullptr) {\n#pragma omp simd\n"
             "      for (std::int64_t j = 0; j < width; ++j) dxi[j] = ri * (A(dyi[j]) * A(w[j]) - A(xi[j]) * shrink);",
             "if (dsum == nullptr) {\n#pragma omp simd\n"
             "      for (std::int64_t j = 0; j < width; ++j) dxi[j] = ri * (A(dyi[j]) * A(w[j]) + A(xi[j]) * shrink);",
             "ops_tests", "rms_norm"),
    Mutation("SwiGLU's gradient without the slope of the logistic function", "ops/activation/swiglu_cpu.cpp",
             "part * upi * (A(1) + g * s.rest)", "part * upi", "ops_tests", "swiglu"),
    Mutation("rotary embedding turns the other way", "ops/rope/rope_cpu.cpp",
             "to[i] = first * c[i] - second * sine;", "to[i] = first * c[i] + second * sine;", "ops_tests", "rope"),
    Mutation("cross entropy's gradient at the target lacks the -1", "ops/loss/cross_entropy_cpu.cpp",
             " - static_cast<A>(factor);", ";", "ops_tests", "cross_entropy"),
    Mutation("an ignored target is counted", "ops/loss/cross_entropy_cpu.cpp",
             "if (targets[i] == kIgnoredTarget) continue;", "", "ops_tests", "cross_entropy"),
    Mutation("the embedding's gradient sums one place too few", "ops/embedding/embedding_cpu.cpp",
             "for (std::int64_t k = begin; k < end; ++k) {", "for (std::int64_t k = begin; k + 1 < end; ++k) {",
             "ops_tests", "embedding"),
    Mutation("query norms divided by N, not N - 1", "ops/moh/query_norm_cpu.cpp",
             "std::sqrt(squares / A(n - 1))", "std::sqrt(squares / A(n))", "ops_tests", "query_norm"),
    # The router.
    Mutation("top-k takes the smaller of two logits", "ops/moh/head_router_tile_cpu.h",
             "key > keys[lower]", "key < keys[lower]", "ops_tests", "route|router"),
    Mutation("gates of shared and routed heads are swapped", "ops/moh/head_router_tile_cpu.h",
             "TypeWeights<A>{2 * w[0], 2 * w[1]}", "TypeWeights<A>{2 * w[1], 2 * w[0]}",
             "ops_tests", "route|router"),
    Mutation("routed gates are not normalised", "ops/moh/head_router_tile_cpu.h",
             "(sum > least ? sum : splat(least))", "(sum > least ? splat(A(1)) : splat(least))", "ops_tests", "route|router"),
    Mutation("the balance loss without the number of experts", "ops/moh/head_router_cpu.cpp",
             "sum : static_cast<double>(experts) * sum", "sum : sum", "ops_tests", "route|router"),
    Mutation("the balance loss has no gradient", "ops/moh/head_router_cpu.cpp",
             "splat(balance * args.load[e])", "splat(0 * balance * args.load[e])", "ops_tests", "route|router"),
    Mutation("straight-through gradients vanish", "ops/moh/head_router_cpu.cpp",
             "binary ? d_gate : ", "binary ? Vec<A>{} : ", "ops_tests", "straight"),
    # Attention.
    Mutation("a head list begins one row late", "ops/attention/head_lists.cpp",
             "lists.rows.data<std::int32_t>() + offsets[l]);\n",
             "lists.rows.data<std::int32_t>() + offsets[l] + (l == 1 && offsets[2] > offsets[1] ? 1 : 0));\n",
             "ops_tests", "head_lists|head lists|attention"),
    Mutation("the online softmax forgets to rescale what it summed", "ops/attention/softmax_cpu.h",
             "store(sum, load(sum) * shrink);", "", "ops_tests", "attention"),
    Mutation("a key behind the causal limit is seen", "ops/attention/softmax_cpu.h",
             "seen, j, -kInfinity", "seen + 1, j, -kInfinity", "ops_tests", "attention"),
    Mutation("a stale row in the KV cache", "models/llm/kv_cache.cpp",
             "length += new_k.dim(1);", "length += new_k.dim(1) > 1 ? new_k.dim(1) - 1 : 1;", "models_tests",
             "decoding"),
    Mutation("a barrier is missing in a CUDA kernel", "ops/norm/rms_norm_cuda.cu",
             "device::sync_block();  // before the next row writes into the space", "", "sim_tests", "sim/.*rms_norm"),
    # Optimiser, schedule, the step.
    Mutation("weight decay for every parameter", "train/optim/adamw.cpp",
             "decays(parameter) ? options_.weight_decay : 0.0", "options_.weight_decay", "trainer_tests", "adamw|optim"),
    Mutation("AdamW's second moment of the unscaled gradient", "ops/optim/adamw_cpu.cpp",
             "c.one_minus_beta2 * (g * g)", "c.one_minus_beta2 * (at.load(of.grad) * at.load(of.grad))", "ops_tests", "adamw"),
    Mutation("bfloat16 weights forget their master copy", "ops/optim/adamw_cpu.cpp",
             "at.load(of.master) * kept - move", "at.load(of.value) * kept - move", "ops_tests", "adamw"),
    Mutation("the cosine begins a step late", "train/optim/lr_schedule.h",
             "static_cast<double>(t - start)", "static_cast<double>(t - start - (t > start ? 1 : 0))", "trainer_tests",
             "optim: "),
    Mutation("gradients of the step before are kept", "train/run/train_step.cpp",
             "  optimizer_.zero_grad();\n  std::vector<Tensor> losses, numbers;",
             "  std::vector<Tensor> losses, numbers;", "moh", "cli\\.(accumulation|resume|kill)"),
    Mutation("recomputation draws other random numbers", "autograd/recompute.cpp",
             "    if (generator_) generator_->restore(state);\n", "", "ops_tests", "recompute|autograd"),
    # Data and files.
    Mutation("a label of a file that is no class is believed", "train/tasks/images/data/checked_source.cpp",
             "if (label >= 0 && label < classes) continue;", "if (label < classes) continue;", "pictures_tests",
             "checked sources"),
    Mutation("smoothed targets are written wherever a label says", "train/augment/mixing.cpp",
             "if (label < 0 || label >= classes)", "if (label > classes + (std::int64_t{1} << 50))", "pictures_tests",
             "labels that are no class"),
    Mutation("a second picture of a WebDataset key is taken", "train/tasks/images/data/archive_samples.cpp",
             "if (key.picture != nullptr)\n        fail(member, \"one picture for each key\"",
             "if (key.picture == &member)\n        fail(member, \"one picture for each key\"", "pictures_tests", "webdataset"),
    Mutation("two windows of an epoch are the same", "train/tasks/data/index_permutation.cpp",
             "} while (value >= size_);", "  value = value >= size_ ? value % size_ : value;\n  } while (false);",
             "data_tests", "permutation|sampler"),
    Mutation("a checkpoint's file is not synced", "train/io/durable_file.cpp",
             "  sync_file(fd_, path_);\n  // Network", "  // Network", "io_tests", "crash|durable"),
    Mutation("a flipped bit in a tensor is not seen", "train/checkpoint/stored_checkpoint.cpp",
             "if (actual != expected) fail_damaged", "if (actual.size() != expected.size()) fail_damaged", "io_tests",
             "checkpoint"),
    Mutation("a resumed run reads its data from the beginning", "train/checkpoint/train_state.cpp",
             'state.samples = count_at(json, "samples");', "state.samples = 0;", "moh", "cli\\.(resume|kill)"),
    # What moh writes for others, and for its own commands.
    Mutation("an export loses the cache that transformers 5.24 hands over", "train/tasks/language/hf/python/modeling_moh_llama.py",
             "one_cache(past_key_values=past_key_values, cache=cache, past_key_value=past_key_value)", "past_key_values", "moh",
             "moh_llama_call"),
    Mutation("an export passes arguments over", "train/tasks/language/hf/python/modeling_moh_llama.py",
             "        refuse_unknown(kwargs)\n", "", "moh", "moh_llama_call"),
    Mutation("a converted run with a moving average does not open", "train/tasks/evaluated_part.cpp",
             "if (is_model_only(checkpoint) && !mention_average(overrides)) return {};", "", "moh", "cli\\.conversion_pairs"),
    Mutation("a conversion loses the names of classes", "train/tools/convert/write_model_checkpoint.cpp",
             "model_only_json(trained_identity(source, model))", "model_only_json({})", "moh", "cli\\.conversion_pairs"),
    Mutation("processes do not compare what they train on", "train/cli/several_processes.cpp",
             "  require_same(facts, processes);\n  return data;", "  return data;", "moh", "cli\\.shared_facts"),
]
