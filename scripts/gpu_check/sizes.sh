# shellcheck shell=bash disable=SC2034,SC2154
# Sizes of the parts of gpu_check.sh. Sourced, not run; --sizes FILE is sourced after it and may override any of them.

# Part first: widths of attention's heads, the test that has a section for each, and limits in seconds of the part and of each
# attempt.
head_widths=(64 128 96 72 80 16 24 32 48)
width_test='device: attention of each head width*'
first_seconds=90
attempt_seconds=20

# Catch2's test specification for cuda_tests.
test_filter='[op_cases],[device]'
tests_seconds=400 # time limit of all tests
alone_seconds=150 # after a failure: of all tests that a call runs alone
test_seconds=30   # of one of them

# Attention alone, early, and each width's limit in seconds; then what the tools run for as long as it takes.
memcheck_widths=(24 72 128)
memcheck_seconds=40
sanitizer_filter='[device]device primitives*,[op_cases]*attention*,[op_cases]*route_heads*,[op_cases]*query_norm*,[device]*attention*,[device]*head lists*,[op_cases]*conv_glu*,[op_cases]*add_expert*,[op_cases]*position_bias*'

# Limit in seconds of one measurement, or one training run on a GPU.
piece_seconds=120

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

# Training of the language models, in bfloat16.
models=(llm_s moh_llm_s_75 moh_llm_s_50)
model_settings=(train.batch_size=8 train.accumulate=1)
train_steps=200
train_settings=(schedule.warmup_steps=20)

# Cases of parts step, step_images and kernels: configurations, and settings separated by blanks.
declare -A case_config case_settings
for case in llm_s moh_llm_s_75 moh_llm_s_50; do
  case_config[$case]=configs/llm/$case.yaml
  case_settings[$case]='train.batch_size=8 train.accumulate=1'
done
for case in llm_b moh_llm_b_50; do
  case_config[$case]=configs/llm/$case.yaml
  case_settings[$case]='train.batch_size=4 train.accumulate=1 model.recompute=none'
done
for case in dit_xl_2 moh_dit_xl_2_75; do
  case_config[$case]=configs/dit/paper.yaml
  case_settings[$case]="model.preset=$case train.batch_size=32 train.accumulate=1"
done
for case in deit_small transnext_small moh_vit_small_75 transnext_base moh_vit_base_50; do
  case_config[$case]=scripts/gpu_check/images/$case.yaml
  case_settings[$case]='train.batch_size=64'
done
step_cases=(llm_s moh_llm_s_50 llm_b moh_llm_b_50 dit_xl_2 moh_dit_xl_2_75 moh_llm_s_75)
image_cases=(deit_small transnext_small moh_vit_small_75 transnext_base moh_vit_base_50)
bench_steps=20
kernel_cases=(llm_b moh_llm_b_50 dit_xl_2 moh_dit_xl_2_75 deit_small moh_vit_small_75)
kernel_steps=5

# Aggregated attention of TransNeXt-Tiny at 224 pixels: tokens : images : heads of stages 1 to 3.
window_sizes=(3136:64:3 784:64:6 196:64:12)
window_shape=(--pooled 49 --head-dim 24 --repeats 15)

# Sequence length : batch size.
attention_lengths=(256:64 512:32 1024:16 2048:8 4096:4 8192:2 16384:1)
attention_shape=(--heads 16 --kv-heads 16 --head-dim 64)
attention_repeats=5 # more when the part is repeated
if $again; then attention_repeats=15; fi
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
  attention_repeats=5
  module_lengths=(2048:8)
  image_cases=(transnext_small moh_vit_small_75)
  kernel_cases=(llm_b moh_llm_b_50)
  window_sizes=(196:64:12)
  pytorch_cases=(llm_step attention)
  pytorch_options=(--rounds 2)
  ops_options=(--megabytes 256 --seconds 0.05 --only "rms_norm,swiglu,rope,cross_entropy,adamw,LLM-S")
fi
