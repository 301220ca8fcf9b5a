// Room: orchestrator. The main job, of one model and of many; configuration files; results of the published tool.
#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "seqto/hub.h"
#include "seqto/improve.h"
#include "seqto/metrics.h"
#include "seqto/plan.h"
#include "seqto/report.h"
#include "seqto/search.h"

namespace seqto {

// --- The main job: model and data in, a folder with the front out

// What the caller brings along. It is called in this process, from the threads of the run, wherever candidates run. Its
// names, and the fingerprint of the data, are the study's: one that goes on has to have them again. An Error makes the
// candidate at hand a failed trial, as elsewhere; any other exception ends the run as it is, and the study keeps what
// is finished.
struct OwnParts {
  // In place of TuneOptions::data; a sample is read each time that it is needed. What `dataset` says of files, of
  // samples to take and of states is not for it.
  std::shared_ptr<const Dataset> data;
  // Beside those of TuneOptions::metrics: they may be objectives, and are reported.
  Metrics metrics;
  // Devices by the names that TuneOptions::devices has for them. Candidates go there one after the other unless `jobs`
  // says more, whole: without what they share with the float model at their beginning.
  std::map<std::string, std::function<std::unique_ptr<Runner>(const Env&)>> devices;
  // What TuneOptions::strategy is the name of: a Strategy, or one that follows a Proposer (search.h). A task metric
  // that is an objective is measured on its search samples too.
  std::function<std::unique_ptr<Strategy>(const SearchSpace&, const StrategyOptions&)> strategy;
};

struct TuneOptions {
  // --- input
  std::filesystem::path model;
  std::filesystem::path data;
  // Other samples for the ranges and for the error analysis; empty: the first ones of `data`. With the former all of
  // `data` is the evaluation's; dataset.labels, samples and random_samples are about `data` alone.
  std::filesystem::path calibration_data, ranking_data;
  DatasetOptions dataset;
  // --- search
  std::string strategy = "chain";
  // To choose from; float32 is always one. Empty: those that are worth it for the strategy and its objectives.
  std::vector<std::string> schemes;
  // What StrategyOptions says, but for what the study itself sets: seed (dataset.seed), time_spent and the bounds
  // (max_time_seconds, limits). Empty objectives: kl, size and latency; kl and size for incremental.
  StrategyOptions search{.objectives = {}};
  // Choose the selected point of the front, and whether there is one that will do; the search itself looks for the
  // front.
  std::vector<Limit> limits;
  // How much worse than float the selected point may be, without limits. It is a share of changed answers, the drop of
  // a task metric that is an objective, or the loss where outputs have no classes.
  double tolerance = 0.01;
  // Beside those that labels bring by themselves.
  MetricOptions metrics;
  // Samples of the evaluation on which the selected point is audited (validate.h), as `target` computes where its table
  // says how; what it found is a note. 0: none, or 8 where sums of the target have fewer than 32 bits.
  int64_t audit_samples = 0;
  // Schemes whose answers depend on what else is in the batch are left out, or refused where they are asked for.
  bool invariant = false;
  GroupOptions groups;               // layers to keep together, beside those that must be
  int64_t max_evaluations = 0;       // trials of any kind; 0: no limit
  double max_time_seconds = 0;       // of the whole run; what it left out is among the notes; 0: no limit
  std::vector<std::string> exclude;  // globs on node names or "op:Conv": float in every candidate
  // Where `model` is take_pair()'s: other files of its decoder, with a cache (decoder_with_past_model.onnx, or both in
  // one, decoder_model_merged.onnx). The selected plan is carried over to them, layer by layer of the same weights;
  // they are written beside the selected halves and measured behind them, which the notes tell. Where latency is an
  // objective, all points' decode_latency is timed with the first.
  std::vector<std::filesystem::path> cached_decoders;
  // --- samples, never overlapping. Fewer than asked for are divided in the same manner, down to eight.
  // Strategies other than incremental take them in SampleOrder::kMixed, whatever `dataset` says; a study that was begun
  // in the data set's own order goes on in it. Not with quantize.compat_onnxruntime.
  std::optional<int64_t> calibration_samples;  // unset: 50, or half of the data if that is less
  // Half of them to search on, half to confirm on; unset: 64, or a third of what calibration leaves if that is less;
  // none for strategy incremental, which decides on the evaluation's samples.
  std::optional<int64_t> search_samples;
  int64_t evaluation_samples = 0;  // 0: all that is left
  // Samples that go to a device behind a link in one message, and are repeated together when it breaks.
  int64_t message_samples = 1;
  int64_t ranking_samples = 10;  // of the calibration samples, for the error analysis
  // --- quantizer; the published settings
  QuantizeOptions quantize;
  // Strategies other than incremental write static layers in the types that are fast on the device, whatever `quantize`
  // says of types and granularity. On x86 these are uint8 activations and int8 weights, per channel, in 7 bits where
  // the processor lacks VNNI instructions.
  bool fast_types = true;
  CalibrateOptions calibrate;  // strategy incremental takes exact ranges whatever this says
  bool names_method = false;   // calibrate.method stays; else it is mse where scales are powers of two
  // Found once for each scheme, on the calibration samples with every layer in it, and applied to every candidate; the
  // published reference goes without. A resumed run takes them from the folder: corrections.npz, and the study's
  // ranges.
  ImproveOptions improvers;
  // Strategies other than incremental also learn the rounding of int8_weights, and correct the biases of int4_weights
  // and of layers too wide to learn, whatever `improvers` says. With max_time_seconds below 300 biases alone; not with
  // random or recurrent data.
  bool correct_weights = true;
  // --- device
  // A name or a file of load_target(): types, layers and schemes are those that it takes, and a candidate with a node
  // that it refuses is a failed trial. Its types go before fast_types; with fast_types false those of `quantize` stay.
  // Without objectives latency is one only where the first device is the target's; without schemes those whose gain
  // nobody can measure here (in weights alone) are left out then. Not with strategy incremental.
  std::string target;
  // Every candidate is measured on each; the search follows the first. Losses are against the float model on the same
  // device. Ranges and error analysis come from the CPU.
  std::vector<std::string> devices{"cpu"};
  // With runner.isolated candidates run in a worker process, as the command line has it: one that crashes, hangs or
  // eats memory is a failed trial. Calibration and error analysis stay in this process.
  RunnerOptions runner;
  int jobs = 0;  // candidates that the search measures side by side; 0: as many as there are cores for
  // Who measures on search and acceptance samples instead: "ray" or "ray:ADDRESS", or a command that speaks the lines
  // of `seqto eval DIR -`. Empty: this process.
  std::string workers;
  // --- parts of the caller's own: data, metrics, devices, the strategy
  OwnParts own;
  // --- output
  std::filesystem::path output;
  bool resume = true;
  std::string config;  // what says all this, as a configuration file: kept as tune.toml; empty: nothing does
};

// TuneOptions::config, in the folder of the study.
inline constexpr const char* kConfigFile = "tune.toml";

// Whether the strategy looks for plans on samples of their own; the published one measures for the report alone.
bool searches(const TuneOptions& options);

// Whether candidates are worth improving where nobody says: activations are quantized, by values that mean something,
// and the search is free to.
bool improves_unasked(const TuneOptions& options);

// Writes study.jsonl, summary.json, report.html, plots/, models/, plans/ below options.output and returns the summary.
// Resumes a study of the same inputs. Throws Error as the verbs it calls; on cancel the study is left as it is
// after the last finished trial, with a report of it, and Error{kInterrupted} is thrown.
Summary tune(const TuneOptions& options, const Env& = {});

// Of DIR/study.jsonl and DIR/plans as they are; writes nothing.
Summary read_summary(const std::filesystem::path& dir);

// Redraws everything from these, without any runtime.
Summary report(const std::filesystem::path& dir);

// What studies of one model, or of several, have found beside each other; write_comparison() draws it. Throws
// Error{kInvalidInput} where a folder holds no finished study, Error{kUsage} for fewer than two or one given twice.
Comparison compare_studies(const std::vector<std::filesystem::path>& dirs);

// --- Many models in one run: a study each, one table and one page of all

struct TuneAllOptions {
  TuneOptions tune;  // the same for all; `model` and `output` are set for each
  HubOptions hub;
  int64_t hub_first = 0, hub_last = -1;  // positions in the hub's list that a glob may find; last -1: the end
  // Each model goes through preprocess() first; what comes of it is the float model of the study, prepared.onnx.
  bool prepare_models = false;
  // Names of nodes that stay in float in the models that have them.
  std::vector<std::string> exclude_if_present;
};

// A path, "hub:NAME", "hub:NAME@OPSET", a glob "hub:*net*@12", or a folder: its .onnx files by name, less those with
// "_quant" in it. `name` is the folder of its results.
struct ModelSource {
  std::string name;
  std::string location;                           // a path, or hub:NAME@OPSET
  std::vector<std::filesystem::path> decoders{};  // of an encoder, which `location` then is: take_pair(); empty: none
};
// One for a path or name, any number for folders and globs. Throws Error{kInvalidInput} where there is none, and as
// list_hub().
std::vector<ModelSource> find_models(const std::string& asked, const TuneAllOptions& options, const Env& = {});

// True where `asked` may stand for several models: their studies then lie in folders of their own.
bool names_several(const std::string& asked);

// tune() for each below options.tune.output/<name>. A model that fails ends only its own study; its entry has the
// reason. After each, index.html and overview.json of those so far are written. Throws Error{kInterrupted} on cancel,
// and the error of the first when all have failed.
std::vector<OverviewEntry> tune_all(const std::vector<ModelSource>& models, const TuneAllOptions& options,
                                    const Env& = {});

// What is asked of tune() for one of them: its model is fetched, and prepared where that is asked for.
TuneOptions options_for(const ModelSource& model, const TuneAllOptions& options, const Env& env = {});

// The same for the one model of a study.
Summary tune_one(const ModelSource& model, const TuneAllOptions& options, const Env& = {});

// --- An encoder and its decoder, as of speech and of translation

// Sets options.model to both as one, StudyFolder::pair() of options.output: tune() takes it as any other, and writes
// the halves of the selected model into models/selected/, under the names of their files. `decoders`: the one without a
// cache, then TuneOptions::cached_decoders; or a merged one alone, which is both. Data without tokens for the decoder
// are filled with those that the float models write for each sample, greedily; what they begin and end with is read
// here from generation_config.json, else config.json, beside the decoder. Throws Error{kInvalidInput} where the decoder
// reads nothing that the encoder gives, or leaves something over.
void take_pair(TuneOptions& options, const std::filesystem::path& encoder,
               std::span<const std::filesystem::path> decoders, const Env& env = plain_env());

// --- Configuration files: the flags of a command, by their names, in TOML

// One key of a configuration file: `max-evaluations = 20`, `schemes = ["int8", "float32"]`.
struct Setting {
  enum class Kind { kBool, kInteger, kFloat, kText };
  struct Value {
    Kind kind = Kind::kText;
    std::string text;  // as a flag would take it: "true", "20", "0.5", "imagenet"
  };
  std::string name;           // the flag's without its dashes, or the argument's: "model"
  std::vector<Value> values;  // one, or those of a list
  bool list = false;
  std::string where;  // "tune.toml:3", for messages
};

// The settings of a TOML file, in its order. Throws Error{kInvalidInput} with file and line for what is no TOML, for
// tables and for values that no flag takes (dates, lists of lists).
std::vector<Setting> read_config(const std::filesystem::path& path);

// The same as text; read_config() gives equal settings back (but for `where`).
std::string config_to_toml(std::span<const Setting> settings);

// The published tool's config.json (https://github.com/luludak/SeQTO) as settings of `tune`, with paths relative to the
// file; warnings name the keys that mean nothing here. docs/reference/config.md has the table.
struct PublishedConfig {
  std::vector<Setting> settings;
  std::vector<std::string> warnings;
};
bool is_published_config(const std::filesystem::path& path);  // it begins as a JSON object
// Throws Error{kInvalidInput} naming the key.
PublishedConfig read_published_config(const std::filesystem::path& path);

// "[config] tune.toml:3: 'calibration-sampels' found; ..." with the nearest of the known names.
std::string unknown_setting(const Setting& setting, std::span<const std::string> known);

// --- Results of the published tool, https://github.com/luludak/SeQTO, drawn as studies are

// The published tool's *_out.json files: `path` itself, or those in the folder; empty where there are none.
std::vector<std::filesystem::path> published_results(const std::filesystem::path& path);

// Reads one of them, finds the front of dissimilarity and size, and writes summary.json, report.html and plots/ below
// `dir`. Losses that the file does not hold are absent (NaN in the Summary). Throws Error{kInvalidInput} naming the
// key.
Summary report_published(const std::filesystem::path& file, const std::filesystem::path& dir);

}  // namespace seqto
