# shellcheck shell=bash disable=SC2034,SC2154
# Sizes of the parts of gpu_check.sh. Sourced, not run; --sizes FILE is sourced after it and may override any of them.

# Catch2's test specification for cuda_tests: all but the op whose cases a GPU refuses.
test_filter='[op_cases]~"ops: sparse_aggregated_attention",[device]'
tests_seconds=400 # time limit of all tests
test_seconds=120  # time limit of a single test that is run alone, after a failure
sanitizer_filter='[device]device primitives*,[op_cases]*attention*,[op_cases]*route_heads*,[op_cases]*query_norm*,[device]*attention*,[device]*head lists*,[op_cases]*conv_glu*,[op_cases]*add_expert*,[op_cases]*position_bias*'

# Where CUDA toolkits are installed.
toolkits=(/usr/local/cuda*)

# Part modes: steps, and the tolerance of losses (relative) where results may differ by rounding: TF32 against float32, GEMM
# algorithms of a search against cuBLAS's first choice. For comparison: bfloat16 has three mantissa bits less than TF32; on a
# CPU, losses in bfloat16 differ from float32's by up to 0.0063 in these steps.
mode_steps=30
mode_settings=(schedule.warmup_steps=10)
mode_tolerance=0.01

# Part losses: configurations, steps, further settings. Tolerances are relative: one for the losses of the first steps, in
# which few rounding differences have accumulated, and one for the final validation loss. For comparison: on a CPU bfloat16
# differs from float32 by up to 0.0019 in the first 20 steps of tiny_shakespeare_moh_50, by up to 0.017 in the next 180, and by
# 0.007 in the final validation loss.
loss_models=(tiny_shakespeare_dense tiny_shakespeare_moh_75 tiny_shakespeare_moh_50)
loss_steps=520
loss_settings=()
early_steps=20
early_tolerance_float32=0.002
early_tolerance_bfloat16=0.01
final_tolerance_float32=0.02
final_tolerance_bfloat16=0.02

# Steps and training of the language models, in bfloat16.
models=(llm_s moh_llm_s_75 moh_llm_s_50)
model_settings=(train.batch_size=8 train.accumulate=1)
bench_steps=20
train_steps=200
train_settings=(schedule.warmup_steps=20)

# Steps of image classifiers (scripts/gpu_check/images).
image_models=(deit_small transnext_small moh_vit_small_75 transnext_base moh_vit_base_50)
image_settings=(train.batch_size=64)

# Aggregated attention of TransNeXt-Tiny at 224 pixels: tokens : images : heads of stages 1 to 3.
window_sizes=(3136:64:3 784:64:6 196:64:12)
window_shape=(--pooled 49 --head-dim 24 --repeats 15)

# Sequence length : batch size.
attention_lengths=(256:64 512:32 1024:16 2048:8 4096:4 8192:2 16384:1)
attention_shape=(--heads 16 --kv-heads 16 --head-dim 64 --repeats 15)
module_lengths=(256:64 1024:16 2048:8 4096:4)
module_shape=(--width 768 --heads 12 --head-dim 64 --repeats 15)
shares=1.0,0.9,0.75,0.5
ops_options=(--megabytes 256 --seconds 0.2)

# --cases of scripts/bench_pytorch.py.
pytorch_cases=(llm_step attention moh_step moh_module llama_step gpt2_step)
pytorch_options=()

if $quick; then
  loss_models=(tiny_shakespeare_dense tiny_shakespeare_moh_50)
  loss_steps=60
  train_steps=40
  attention_lengths=(256:64 2048:8 8192:2)
  attention_shape=(--heads 16 --kv-heads 16 --head-dim 64 --repeats 5)
  module_lengths=(2048:8)
  image_models=(transnext_small moh_vit_small_75)
  window_sizes=(196:64:12)
  pytorch_cases=(llm_step attention)
  pytorch_options=(--rounds 2)
  ops_options=(--megabytes 256 --seconds 0.05 --only "rms_norm,swiglu,rope,cross_entropy,adamw,LLM-S")
fi
