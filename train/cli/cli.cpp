#include "train/cli/cli.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <functional>
#include <string>
#include <vector>

#include "core/error.h"
#include "core/keep_freed_memory.h"
#include "train/cli/commands.h"
#include "train/cli/exit_code.h"
#include "train/config/suggest.h"
#include "train/io/printable.h"
#include "train/metrics/logging.h"

namespace moh::cli {

namespace {

/// The command that was chosen, to run once parsing is over.
using Action = std::function<int()>;

constexpr const char* kExitCodes =
    "Exit codes: 0 done, 2 configuration or command line, 3 data or checkpoint that cannot be read, 4 loss "
    "not finite,\n"
    "5 file that cannot be written, 75 stopped early with everything saved (start again with --resume).";

void add_config_arguments(CLI::App& command, std::string& config, std::vector<std::string>& overrides) {
  command.add_option("config", config, "Configuration file (YAML)")->type_name("CONFIG.yaml");
  command.add_option("overrides", overrides, "Settings that replace those of the file")
      ->type_name("key.path=value");
}

void add_checkpoint(CLI::App& command, std::string& checkpoint) {
  command.add_option("--checkpoint", checkpoint, "Run folder (its newest checkpoint), or one step's folder")
      ->required();
}

/// Of the commands that look at a checkpoint with some text.
template <class Args>
void add_checkpoint_and_text(CLI::App& command, Args& args) {
  add_checkpoint(command, args.checkpoint);
  command.add_option("overrides", args.overrides, "data=PATH, or any setting of the run")
      ->type_name("key.path=value");
}

void add_train(CLI::App& app, Action& action) {
  CLI::App& command = *app.add_subcommand("train", "Train a model from a configuration");
  const auto args = std::make_shared<TrainArgs>();
  add_config_arguments(command, args->config, args->overrides);
  command.get_option("config")->required();
  command.add_flag("--resume", args->resume,
                   "Go on from the newest checkpoint in output.dir, if there is one");
  CLI::Option* overwrite =
      command.add_flag("--overwrite", args->overwrite, "Remove the run in output.dir and start over");
  overwrite->excludes("--resume");
  command.add_flag("--allow-older", args->allow_older,
                   "Resume from an older checkpoint when the newest is damaged");
  command.add_flag("--allow-changes", args->allow_changes,
                   "Resume although the configuration changes the computation");
  command.add_option("--log-level", args->log_level, "trace, debug, info, warning, error or off");
  command.footer(
      "Examples:\n"
      "  moh train configs/llm/quickstart.yaml\n"
      "  moh train configs/llm/tiny_shakespeare_moh_50.yaml data.train=input.txt output.dir=runs/moh_50\n"
      "  moh train configs/llm/tiny_shakespeare_moh_50.yaml data.train=input.txt output.dir=runs/moh_50 "
      "--resume\n\n" +
      std::string(kExitCodes));
  command.callback([args, &action] { action = [args] { return train(*args); }; });
}

void add_eval(CLI::App& app, Action& action) {
  CLI::App& command =
      *app.add_subcommand("eval", "Evaluate a checkpoint on text: loss, perplexity, bits per byte");
  const auto args = std::make_shared<EvalArgs>();
  add_checkpoint_and_text(command, *args);
  command.footer(
      "Without data=PATH, the text that the run held out is used.\n\nExamples:\n"
      "  moh eval --checkpoint runs/quickstart\n"
      "  moh eval --checkpoint runs/quickstart/checkpoints/step_00000500 data=novel.txt "
      "eval.max_tokens=100000");
  command.callback([args, &action] { action = [args] { return eval(*args); }; });
}

void add_analyze(CLI::App& app, Action& action) {
  CLI::App& command = *app.add_subcommand(
      "analyze", "Show what the heads of a checkpoint do: load, gates, tokens, similarity, rank");
  const auto args = std::make_shared<AnalyzeArgs>();
  AnalyzeOptions& options = args->options;
  add_checkpoint_and_text(command, *args);
  command.add_option("--source", args->sources, "A text under a name of its own; once per text")
      ->type_name("NAME=PATH")
      ->allow_extra_args(false);
  command.add_option("--max-tokens", options.max_tokens, "Of each source, spread over all of it; 0: all")
      ->capture_default_str();
  command
      .add_option("--similarity-tokens", options.similarity_tokens,
                  "Of all sources together, for which heads are compared with each other")
      ->capture_default_str();
  command
      .add_option("--rank-tolerance", options.rank_tolerance,
                  "Smallest singular value that counts, over the largest")
      ->capture_default_str();
  command.add_option("--top-tokens", options.top_tokens, "Most frequent tokens in the table of tokens")
      ->capture_default_str();
  command.add_option("--token", options.tokens, "Text of a token to show instead; once per token")
      ->allow_extra_args(false);
  command.add_option("--text", options.text, "Show the heads of each token of this text as well");
  command.add_option("--out", args->out, "Write everything to this file")->type_name("FILE.json");
  command.footer(
      "Without data=PATH and --source, the text that the run held out is used. docs/analyze.md explains the "
      "numbers,\nscripts/plot_heads.py draws them. Ctrl-C ends it with exit code 130 and nothing written.\n\n"
      "Examples:\n"
      "  moh analyze --checkpoint runs/quickstart --out heads.json\n"
      "  moh analyze --checkpoint runs/quickstart --source code=train --source prose=docs --max-tokens "
      "20000\n"
      "  moh analyze --checkpoint runs/quickstart data=novel.txt threads=1 --text \"Give me a short "
      "introduction.\"");
  command.callback([args, &action] { action = [args] { return analyze(*args); }; });
}

void add_generate(CLI::App& app, Action& action) {
  CLI::App& command = *app.add_subcommand("generate", "Continue a text with a trained model");
  const auto args = std::make_shared<GenerateArgs>();
  add_checkpoint(command, args->checkpoint);
  command.add_option("--prompt", args->prompt, "Text to continue")->required();
  command.add_option("--tokens", args->tokens, "New tokens at most")->capture_default_str();
  command.add_option("--temperature", args->pick.temperature, "0: always the most probable token")
      ->capture_default_str();
  command.add_option("--top-k", args->pick.top_k, "Only the k most probable tokens; 0: all")
      ->capture_default_str();
  command.add_option("--top-p", args->pick.top_p, "Only the most probable tokens that hold this probability")
      ->capture_default_str();
  command.add_option("--seed", args->seed, "Of the random choice")->capture_default_str();
  command.add_option("--threads", args->threads, "0: all processors")->capture_default_str();
  command.add_option("--device", args->device, "cpu, cuda or cuda:N; by default that of the training run");
  command.footer(
      "Examples:\n"
      "  moh generate --checkpoint runs/quickstart --prompt \"The licence\"\n"
      "  moh generate --checkpoint runs/quickstart --prompt \"The\" --tokens 500 --temperature 0.8 --top-p "
      "0.95 --seed 7");
  command.callback([args, &action] { action = [args] { return generate(*args); }; });
}

void add_config(CLI::App& app, Action& action) {
  CLI::App& command =
      *app.add_subcommand("config", "Print a configuration with all defaults and includes resolved");
  const auto args = std::make_shared<ConfigArgs>();
  add_config_arguments(command, args->config, args->overrides);
  command.add_flag("--reference", args->reference, "Print the reference of all keys (Markdown) instead");
  command.footer(
      "Examples:\n"
      "  moh config configs/llm/moh_llm_s_50.yaml\n"
      "  moh config configs/llm/quickstart.yaml train.steps=10 > tiny.yaml\n"
      "  moh config --reference");
  command.callback([args, &action] { action = [args] { return config(*args); }; });
}

void add_plan(CLI::App& app, Action& action) {
  CLI::App& command =
      *app.add_subcommand("plan", "What a training run will take: memory, operations, time; runs nothing");
  const auto args = std::make_shared<PlanArgs>();
  PlanOptions& options = args->options;
  add_config_arguments(command, args->config, args->overrides);
  command.get_option("config")->required();
  command.add_option("--gpus", options.gpus, "Devices that train side by side, each with the whole model")
      ->capture_default_str();
  command.add_option("--gpu-memory", args->memory,
                     "Of each device: 141GB (decimal), 79.6GiB (binary), bytes");
  command
      .add_option("--mfu", options.mfu,
                  "Model FLOP utilisation: the share of the peak rate that the model gets")
      ->capture_default_str();
  command.add_option("--peak-tflops", args->peak,
                     "Peak rate of each device in TFLOP/s, or H100, H200, A100 (bfloat16, published)");
  command.add_flag("--json", args->json, "One JSON object instead of a table");
  command.footer(
      "No model is made and nothing is written; a GPU that the configuration names is not needed, nor is its "
      "text.\ndocs/plan.md explains the numbers.\n\n"
      "Examples:\n"
      "  moh plan configs/llm/tiny_shakespeare_moh_50.yaml\n"
      "  moh plan configs/llm/moh_llm_b_50.yaml device=cuda train.batch_size=4 --gpu-memory 80GB "
      "--peak-tflops H100\n"
      "  moh plan configs/llm/llm_s.yaml device=cuda --gpus 8 --gpu-memory 141GB --mfu 0.35 --peak-tflops "
      "989 "
      "--json");
  command.callback([args, &action] { action = [args] { return plan(*args); }; });
}

void add_data(CLI::App& app, Action& action) {
  CLI::App& command = *app.add_subcommand("data", "Prepare and inspect training data");
  command.require_subcommand(1);
  CLI::App& tokenize = *command.add_subcommand("tokenize", "Turn text files and folders into one token file");
  const auto tokenize_args = std::make_shared<TokenizeArgs>();
  tokenize
      .add_option("--input", tokenize_args->inputs,
                  "Files and folders; a token file of the earlier format is converted")
      ->required();
  tokenize.add_option("--output", tokenize_args->output, "Token file to write")->required();
  tokenize.add_option("--tokenizer", tokenize_args->tokenizer, "Tokenizer")->capture_default_str();
  tokenize.footer("Example:\n  moh data tokenize --input corpus/ notes.txt --output corpus.safetensors");
  tokenize.callback(
      [tokenize_args, &action] { action = [tokenize_args] { return data_tokenize(*tokenize_args); }; });

  CLI::App& info = *command.add_subcommand("info", "Print what a token file holds");
  const auto info_args = std::make_shared<DataInfoArgs>();
  info.add_option("file", info_args->file, "Token file")->required();
  info.add_flag("--verify", info_args->verify, "Read all of it and compare the checksum");
  info.footer("Example:\n  moh data info corpus.safetensors --verify");
  info.callback([info_args, &action] { action = [info_args] { return data_info(*info_args); }; });
}

void add_checkpoint_commands(CLI::App& app, Action& action) {
  CLI::App& command = *app.add_subcommand("checkpoint", "Inspect files of weights");
  command.require_subcommand(1);
  CLI::App& info = *command.add_subcommand("info", "Print what a file or folder of weights holds");
  const auto args = std::make_shared<CheckpointInfoArgs>();
  info.add_option(
          "path", args->path,
          "safetensors file, index of a sharded one, PyTorch file, Hugging Face folder, run folder, or one "
          "step's folder")
      ->required();
  info.add_option("--part", args->part, "Which model of a PyTorch file: model, ema, ...");
  info.add_flag("--hash", args->hash,
                "Read all of it and print the hash of names, types, shapes and elements");
  info.add_flag("--all", args->all, "One line per tensor, layers not folded");
  info.add_flag("--json", args->json, "One JSON object");
  info.footer(
      "The hash does not depend on the format: a converted file shows the same.\n\nExamples:\n"
      "  moh checkpoint info runs/quickstart\n"
      "  moh checkpoint info llama3-8b/ --hash\n"
      "  moh checkpoint info model.pth --part ema --json");
  info.callback([args, &action] { action = [args] { return checkpoint_info(*args); }; });
}

void add_convert(CLI::App& app, Action& action) {
  CLI::App& command = *app.add_subcommand("convert", "Convert weights between formats");
  const auto args = std::make_shared<ConvertArgs>();
  command.add_option("--from", args->from, "What `moh checkpoint info` reads: a file, a folder, a run")
      ->required();
  command.add_option("--to", args->to, "File or folder to write")->required();
  command
      .add_option(
          "--format", args->format,
          "hf: a folder for transformers; safetensors: one file, or with --shard-size a folder; moh: a "
          "checkpoint; by default safetensors when --to ends so")
      ->check(CLI::IsMember({"hf", "safetensors", "moh"}));
  command.add_option("--part", args->part, "Which model of a PyTorch file: model, ema, ...");
  command.add_option("--dtype", args->dtype, "Type of the elements")
      ->check(CLI::IsMember({"keep", "float32", "bfloat16", "float16"}))
      ->capture_default_str();
  command.add_option("--shard-size", args->shard_size, "Split into files of at most this size: 5GB, 500MiB");
  command.add_option("--config", args->config, "Describes the model, where nothing beside the tensors does")
      ->type_name("CONFIG.yaml");
  command.add_flag(
      "--allow-differences", args->allow_differences,
      "Go on although names or shapes are not the model's: tensors that hf and moh have no place for "
      "are left out");
  command.add_flag("--overwrite", args->overwrite, "Replace what an earlier conversion has written");
  command.footer(
      "Where the model is known, names and shapes are compared with it first. Memory does not depend on the "
      "size "
      "of the model.\n\nExamples:\n"
      "  moh convert --from runs/quickstart --to model.safetensors\n"
      "  moh convert --from llama3-8b/ --to llama3-8b-moh --format moh\n"
      "  moh convert --from runs/quickstart --to exported --format hf --dtype bfloat16 --shard-size 5GB\n"
      "  moh convert --from dit.pt --part ema --to dit.safetensors");
  command.callback([args, &action] { action = [args] { return convert(*args); }; });
}

/// Options that the benchmarks of attention and of its layer have in common.
template <class Args>
void add_attention_options(CLI::App& command, Args& args) {
  auto& options = args.options;
  command.add_option("--device", args.device, "cpu, cuda or cuda:N")->capture_default_str();
  command.add_option("--dtype", args.dtype, "Element type")
      ->check(CLI::IsMember({"f32", "bf16"}))
      ->capture_default_str();
  command.add_option("--batch", options.batch, "Sequences")->capture_default_str();
  command.add_option("--tokens", options.tokens, "Lengths, separated by commas")
      ->delimiter(',')
      ->capture_default_str();
  command.add_option("--heads", options.heads, "Query heads")->capture_default_str();
  command.add_option("--head-dim", options.head_dim, "Width of a head")->capture_default_str();
  command
      .add_option("--active", options.active,
                  "Shares of the heads that each token keeps, separated by commas")
      ->delimiter(',')
      ->capture_default_str();
  command.add_flag("--causal", args.causal, "Causal attention (default: full)");
  command.add_flag("--full", args.full, "Full attention, also beside --causal");
  command.add_option("--repeats", options.repeats, "Counted passes of each case")->capture_default_str();
  command.add_option("--threads", args.threads, "0: all processors")->capture_default_str();
  command.add_flag("--json", args.json, "One JSON object a line instead of a table");
}

void add_bench_attention(CLI::App& bench, Action& action) {
  CLI::App& command = *bench.add_subcommand("attention", "Head-sparse against dense attention");
  const auto args = std::make_shared<BenchAttentionArgs>();
  add_attention_options(command, *args);
  command.add_option("--kv-heads", args->options.kv_heads, "KV heads")->capture_default_str();
  command.add_flag("--listed", args->options.listed,
                   "Also all heads by way of lists: what the lists themselves cost");
  command.footer(
      "Examples:\n"
      "  moh bench attention\n"
      "  moh bench attention --tokens 1024,2048,4096 --heads 16 --kv-heads 16 --head-dim 64 --causal --full "
      "--active 1.0,0.75,0.5 --json\n"
      "  moh bench attention --device cuda --dtype bf16 --tokens 2048,8192 --causal --listed");
  command.callback([args, &action] { action = [args] { return bench_attention(*args); }; });
}

void add_bench_module(CLI::App& bench, Action& action) {
  CLI::App& command = *bench.add_subcommand(
      "module", "A whole attention layer, router to output projection: Mixture-of-Head against dense");
  const auto args = std::make_shared<BenchModuleArgs>();
  add_attention_options(command, *args);
  command.add_option("--width", args->options.width, "Width of the layer's input and output")
      ->capture_default_str();
  command.footer(
      "Examples:\n"
      "  moh bench module\n"
      "  moh bench module --width 2048 --heads 32 --tokens 512 --active 1.0,0.5 --causal --json");
  command.callback([args, &action] { action = [args] { return bench_module(*args); }; });
}

void add_bench_step(CLI::App& bench, Action& action) {
  CLI::App& command =
      *bench.add_subcommand("step", "Steps of a training run: time, memory, share of the machine's peak");
  const auto args = std::make_shared<BenchStepArgs>();
  StepBenchOptions& options = args->options;
  add_config_arguments(command, args->config, args->overrides);
  command.get_option("config")->required();
  command.add_option("--steps", options.steps, "Counted steps")->capture_default_str();
  command.add_option("--warmup", options.warmup, "Steps before them")->capture_default_str();
  command.add_flag("--random-data", options.random_data, "Random tokens instead of data.train");
  command.add_flag("--profile", options.profile, "After them as many steps with the time of each op");
  command.add_flag("--json", args->json, "One JSON object instead of a table");
  command.footer(
      "Nothing is written: no run folder, no checkpoint. Device and number of threads are the keys `device` "
      "and "
      "`threads`.\n\n"
      "Examples:\n"
      "  moh bench step configs/llm/tiny_shakespeare_moh_50.yaml --random-data\n"
      "  moh bench step configs/llm/moh_llm_s_50.yaml precision=float32 train.batch_size=1 "
      "train.accumulate=1 threads=2 --random-data --steps 20 --json\n"
      "  moh bench step configs/llm/llm_s.yaml device=cuda train.accumulate=1 --random-data --profile");
  command.callback([args, &action] { action = [args] { return bench_step(*args); }; });
}

void add_bench_decode(CLI::App& bench, Action& action) {
  CLI::App& command = *bench.add_subcommand(
      "decode", "Generating token by token behind a long context: Mixture-of-Head against dense");
  const auto args = std::make_shared<BenchDecodeArgs>();
  DecodeBenchOptions& options = args->options;
  add_config_arguments(command, args->config, args->overrides);
  command.add_option("--context", options.contexts, "Tokens before those generated, separated by commas")
      ->delimiter(',')
      ->capture_default_str();
  command
      .add_option("--active", options.active,
                  "Shares of the heads that each token keeps, separated by commas")
      ->delimiter(',')
      ->capture_default_str();
  command.add_option("--layers", args->layers, "Layers (6, or the configuration's)");
  command.add_option("--hidden", args->hidden, "Width of the model (768)");
  command.add_option("--heads", args->heads, "Query heads, and KV heads (12)");
  command.add_option("--kv-heads", args->kv_heads, "KV heads (as many as --heads)");
  command.add_option("--head-dim", args->head_dim, "Width of a head (64)");
  command.add_option("--batch", options.batch, "Sequences")->capture_default_str();
  command.add_option("--tokens", options.tokens, "Tokens that a pass generates")->capture_default_str();
  command.add_option("--repeats", options.repeats, "Counted passes of each case")->capture_default_str();
  command.add_option("--device", args->device, "cpu, cuda or cuda:N")->capture_default_str();
  command.add_option("--dtype", args->dtype, "Element type")
      ->check(CLI::IsMember({"f32", "bf16"}))
      ->capture_default_str();
  command.add_option("--threads", args->threads, "0: all processors")->capture_default_str();
  command.add_flag("--json", args->json, "One JSON object a line instead of a table");
  command.footer(
      "A configuration gives the sizes of the model alone; its weights here are random, its heads routed as "
      "--active says.\n\n"
      "Examples:\n"
      "  moh bench decode\n"
      "  moh bench decode --context 512,4096 --active 1.0,0.75,0.5 --threads 2 --json\n"
      "  moh bench decode configs/llm/llm_s.yaml --context 2048 --layers 4\n"
      "  moh bench decode --heads 32 --kv-heads 8 --head-dim 128 --hidden 4096 --layers 1 --dtype bf16");
  command.callback([args, &action] { action = [args] { return bench_decode(*args); }; });
}

void add_bench_ops(CLI::App& bench, Action& action) {
  CLI::App& command =
      *bench.add_subcommand("ops", "Each op beside what the machine can do: copying memory, multiply-adds");
  const auto args = std::make_shared<BenchOpsArgs>();
  OpBenchOptions& options = args->options;
  command.add_option("--device", args->device, "cpu, cuda or cuda:N")->capture_default_str();
  command.add_option("--dtype", args->dtype, "Element type")
      ->check(CLI::IsMember({"f32", "bf16"}))
      ->capture_default_str();
  command
      .add_option("--only", options.only, "Ops or models (matmul, LLM-S, DeiT-B, ...), separated by commas")
      ->delimiter(',');
  command
      .add_option("--megabytes", options.megabytes,
                  "Size of each large tensor of the ops that stream memory: larger than the caches")
      ->capture_default_str();
  command.add_option("--repeats", options.repeats, "Counted runs of each case at most")
      ->capture_default_str();
  command.add_option("--seconds", options.seconds, "No more runs of a case after that, but three at least")
      ->capture_default_str();
  command.add_option("--threads", args->threads, "0: all processors")->capture_default_str();
  command.add_flag("--json", args->json, "One JSON object a line instead of a table");
  command.footer(
      "Examples:\n"
      "  moh bench ops\n"
      "  moh bench ops --only rms_norm,swiglu,LLM-S --threads 1\n"
      "  moh bench ops --dtype bf16 --megabytes 128 --json\n"
      "  moh bench ops --device cuda --dtype bf16");
  command.callback([args, &action] { action = [args] { return bench_ops(*args); }; });
}

void add_bench(CLI::App& app, Action& action) {
  CLI::App& bench = *app.add_subcommand("bench", "Measure speed: medians of repeats, ratios within one run");
  bench.require_subcommand(1);
  add_bench_attention(bench, action);
  add_bench_module(bench, action);
  add_bench_decode(bench, action);
  add_bench_step(bench, action);
  add_bench_ops(bench, action);
}

/// Whether the first argument is a command that does not exist; the parser would say that none is given.
bool refuse_unknown_command(const CLI::App& app, int argc, char** argv) {
  if (argc < 2 || argv[1][0] == '-') return false;
  std::vector<std::string> names;
  for (const CLI::App* command : app.get_subcommands({})) names.push_back(command->get_name());
  const std::string found = argv[1];
  if (std::ranges::find(names, found) != names.end()) return false;
  std::string expected = "one of ";
  for (const std::string& name : names) expected += (name == names.front() ? "" : ", ") + name;
  const std::string nearest = config::nearest_name(found, names);
  log_error(error_message("moh", "command", expected, "'" + printable(found) + "'",
                          nearest.empty() ? "moh --help explains them" : "did you mean " + nearest + "?"));
  return true;
}

int run_action(const Action& action) {
  try {
    return action();
  } catch (const std::exception& error) {
    log_error(error.what());
    return exit_code_of(error);
  }
}

}  // namespace

int run(int argc, char** argv) {
  keep_freed_memory();
  CLI::App app("moh: trains transformers with Mixture-of-Head attention (arXiv 2410.11842)", "moh");
  app.set_version_flag("--version", MOH_VERSION);
  app.require_subcommand(1);
  app.footer(std::string("`moh COMMAND --help` explains a command, with examples.\n\n") + kExitCodes);
  Action action;
  add_train(app, action);
  add_eval(app, action);
  add_analyze(app, action);
  add_generate(app, action);
  add_config(app, action);
  add_plan(app, action);
  add_data(app, action);
  add_checkpoint_commands(app, action);
  add_convert(app, action);
  add_bench(app, action);
  if (refuse_unknown_command(app, argc, argv)) return kConfigError;
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    // --help and --version are "errors" of the parser, too, with code 0.
    return app.exit(error) == 0 ? kDone : kConfigError;
  }
  return run_action(action);
}

}  // namespace moh::cli
