// Room: visualizer. Reports: what they are drawn from, and as tables, JSON, pages and files.
#pragma once

#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "seqto/bench.h"
#include "seqto/explain.h"
#include "seqto/gate.h"
#include "seqto/runner.h"
#include "seqto/runtimes.h"
#include "seqto/search.h"
#include "seqto/validate.h"

namespace seqto {

// --- Tables of text: as wide as their cells, or made to fit a terminal

// Where text goes to. A file or another program: the default.
struct TextStyle {
  int columns = 0;       // the most that a line of a table may have; 0: any
  bool colours = false;  // escape sequences, for a terminal
};

enum class Colour { kGood, kBad, kChosen };
// As it is without colours.
std::string painted(const std::string& text, Colour colour, const TextStyle& style);

struct TableColumn {
  std::string title;
  // Names are cut at their beginning, texts at their end; figures stand to the right and are never cut, values stand
  // there and are. Verdicts are never cut; "ok" is good and "FAILED" bad.
  enum Kind { kName, kText, kFigure, kValue, kVerdict } kind = kText;
  int leaves = 0;  // where there is no room columns go, 1 first; 0: never
};
using TableRow = std::vector<std::string>;  // a cell for each column

// The titles and each row, without line ends. Where `style.columns` are too few long texts are cut, then columns leave,
// then texts are cut to a few letters, at last lines.
std::vector<std::string> table_lines(std::vector<TableColumn> columns, std::vector<TableRow> rows,
                                     const TextStyle& style = {});

// --- A finished or growing study as text, JSON, SVG and one HTML page. Computes nothing itself: every
// figure comes in the Summary.

// One point of the summary: a trial, named files relative to the study's folder.
struct SummaryPoint {
  Trial trial;
  // What people call it, taken wherever an id is: "float", "int8", "ort-int8", of the front "1", "2", "3" ... from the
  // smallest file up.
  std::string name;
  std::string file, plan_file;  // empty: not written
  double size_reduction_kept = 0;
  // Of the front: its smallest other point whose loss the samples cannot tell from this one's (the 95 % interval of the
  // paired difference holds 0). Nothing is known to be gained by being larger. Empty: none.
  std::string alike;
  // How much worse each task metric is than the float model's on the same samples, whichever direction is worse. Of the
  // fully quantized model and the front with the interval of the paired difference, where something pairs them.
  std::map<std::string, Figure> drops;
  // McNemar's test on the labels against the float model: small where one of them is right more often than chance
  // explains. Nothing without labels.
  std::optional<double> mcnemar;
};

// What a study found on one device.
struct DeviceFront {
  std::string device;
  SummaryPoint baseline, fully_quantized;
  std::vector<SummaryPoint> front;  // by size, ascending
  // Ids of the front's points that no candidate beats in size and loss alone, by size: the line of the plot. With a
  // third objective the front holds more.
  std::vector<std::string> outline;
  std::vector<std::string> top;  // ids, at most three
  // An id: what to use. Where no limits were set, the cheapest of the front that is as good as float: `judged_by`, by
  // the upper end of its 95 % interval, is at most `tolerance`, and average precisions fall by no more. Cheapest: the
  // least product of size and latency, where they are objectives, as shares of float's. None as good: what loses least.
  std::string selected;
  std::string judged_by;  // top1_disagreement where outputs have classes, a task metric (its drop), or a loss
  double tolerance = 0;
  bool as_good_as_float = false;
  std::vector<CheckedLimit> limits;  // that the user set, on the selected point; not all met: no point meets them
  double hypervolume = 0;            // of the front over objectives scaled by the float and fully quantized points
  std::vector<SummaryPoint> trials;  // all, in order
  // Where the runtime computes the nodes of the fully quantized model; empty: it does not tell, or all on one device.
  std::vector<NodePlacement> placement;
};

// A position of a text behind which the selected model's likeliest token is another than the float model's.
struct ChangedToken {
  std::string sample;                               // its name
  int64_t position = 0;                             // of the token that is foretold, from 0
  std::string before;                               // the end of the text in front of it
  std::string reference, candidate;                 // the float model's token, and the selected one's
  double reference_share = 0, candidate_share = 0;  // the probabilities that the float model gives them
};
struct ChangedTokens {
  int64_t samples = 0, changed = 0;  // that were looked at; with such a position
  // Of a sample the first; at most eight, those on top whose two tokens the float model tells apart most.
  std::vector<ChangedToken> examples;
};

// All that the reports show; summary_to_json() is summary.json of the command line contract.
struct Summary : DeviceFront {  // of the first device, which the search follows
  StudyHeader header;
  std::vector<DeviceFront> elsewhere;   // the same candidates on the study's other devices
  std::string task;                     // what the model is for (task.h); empty: of a study that did not say
  std::vector<std::string> objectives;  // {"kl", "size"} ...
  Sensitivity sensitivity;              // may be empty
  std::vector<Layer> layers;
  // Of single layers; any of these may be empty, as in studies that were interrupted.
  std::vector<LayerTensors> wiring;                           // of every node, in graph order
  std::map<std::string, TensorValues> values;                 // by tensor, on the calibration's samples
  int64_t value_samples = 0;                                  // on so many of them
  std::map<std::string, std::vector<LayerReport>> explained;  // layers of the front's points, by the points' ids
  std::optional<WhatIf> what_if;                              // of strategies that search
  std::optional<ChangedTokens> changed_tokens;                // of language models whose data name a tokenizer
  // The flag that left samples out of those that candidates are judged on: "--max-time" or "--evaluation-samples";
  // empty: all that the data have were taken.
  std::string fewer_samples_by;
  int64_t items_in_sample = 1;  // of the data: more where the model's batch is fixed
  std::string size_note;      // of `notes`: what of float's size no candidate has, whatever its scheme; empty: nothing
  std::string selected_file;  // the selected model by a name that stays: models/selected.onnx; empty: not written
  int64_t evaluations = 0;
  double wall_seconds = 0;
  std::vector<std::string> notes;
};
std::string summary_to_json(const Summary& summary);

// What to use, in a sentence: "Use models/1f.onnx: 3.9 x smaller, 1.7 x faster, 0.8 % of the answers change (0.3 to
// 1.9 %)." Empty where nothing was measured.
std::string answer(const Summary& summary);

// The terminal's table: baseline, fully quantized, front; top three marked, the selected point in a colour.
std::string summary_table(const Summary& summary, const TextStyle& style = {});

struct ReportOptions {
  // plots/*.svg, some half a second's work; false: those that are there are removed, the page has the same plots.
  bool plots = true;
};
// report.html (one file, no network) and below plots/ front.svg, latency.svg, layer_losses.svg, sensitivity.svg,
// exclusion.svg and devices.svg, where the study has something to show in them. Each is written to a temporary name,
// then renamed.
void write_report(const Summary& summary, const std::filesystem::path& dir, const ReportOptions& options = {});

// "13.97 MB", "3.21 ms", "0.0462": the only place where units become text.
std::string format_bytes(int64_t bytes);
std::string format_duration(int64_t ns);
// "1x3x?x?" with "x" between; sizes that are not known are -1.
std::string format_shape(const std::vector<int64_t>& shape, std::string_view between);

// --- Several models beside each other: one table, overview.json and index.html. Computes nothing itself

// One model of a run. Its reports lie in the folder `name` below the run's.
struct OverviewEntry {
  std::string name;
  std::optional<Summary> summary;  // absent: not tuned
  std::string failure;             // why
};

// The terminal's table: a row a model; reasons of failures in full below it.
std::string overview_table(std::span<const OverviewEntry> entries, const TextStyle& style = {});

std::string overview_to_json(std::span<const OverviewEntry> entries);

// index.html (one file, links to every report) and overview.json below `dir`, each written to a temporary name, then
// renamed.
void write_overview(std::span<const OverviewEntry> entries, const std::filesystem::path& dir);

// --- Several studies beside each other: as text, JSON and one HTML page. Computes nothing itself

struct ComparedStudy {
  std::string name;  // of its folder, or the whole path where two folders are called alike
  Summary summary;
  // Of its front on its first device: ids of the points that no point of another study beats in everything compared.
  std::vector<std::string> leading;
};

struct Comparison {
  std::vector<ComparedStudy> studies;  // at least two
  std::vector<std::string>
      objectives;  // what `leading` compares: a loss, size, and latency where all studies searched it
  // Why figures of the studies cannot be held against each other, one sentence each; empty: they can.
  std::vector<std::string> warnings;
  // What is not the same everywhere; `values` by study, empty: absent there.
  struct Difference {
    std::string key;
    std::vector<std::string> values;
  };
  std::vector<Difference> options, environment;
  // Layers whose scheme differs between the selected points.
  struct LayerSchemes {
    LayerId layer;
    std::vector<std::string> schemes;  // by study; empty: it has no such layer
  };
  std::vector<LayerSchemes> layers;
};

std::string comparison_to_json(const Comparison& comparison);                            // docs/reference/formats.md
std::string comparison_text(const Comparison& comparison, const TextStyle& style = {});  // for a terminal
// comparison.html (one file, no network), comparison.json and plots/fronts.svg below `dir`.
void write_comparison(const Comparison& comparison, const std::filesystem::path& dir);

// --- What `validate`, `bench`, `check`, `run` and `audit` found: as text, as JSON and as files

// Throws Error{kUsage} where a report's name ends in none of .html, .md and .json: to be asked before long work.
void require_report_name(const std::filesystem::path& file);

// --- validate
std::string parity_to_json(const Parity& parity);
std::string parity_text(const Parity& parity, const TextStyle& style = {});
// "output 'y': max difference 0.11 at ...; at most 0.06 allowed"; empty where it passed.
std::vector<std::string> parity_failures(const Parity& parity);
// An .html page, .md or .json, by the file's ending; written whole or not at all.
void write_parity(const Parity& parity, const std::filesystem::path& file);

std::string invariance_to_json(const Invariance& invariance);
std::string invariance_text(const Invariance& invariance, const TextStyle& style = {});
void write_invariance(const Invariance& invariance, const std::filesystem::path& file);

std::string runtimes_to_json(const RuntimeMatrix& matrix);
std::string runtimes_text(const RuntimeMatrix& matrix, const TextStyle& style = {});
void write_runtimes(const RuntimeMatrix& matrix, const std::filesystem::path& file);

// --- bench
std::string bench_to_json(const BenchResult& result);
std::string bench_text(const BenchResult& result, const TextStyle& style = {});
void write_bench(const BenchResult& result, const std::filesystem::path& file);

// --- check
std::string gate_to_json(const GateResult& result);
std::string gate_text(const GateResult& result, const TextStyle& style = {});
// "size_bytes: 49.50 kB found; at most 40.00 kB allowed by --max-size; 9.50 kB too much", for each limit not met.
std::vector<std::string> gate_failures(const GateResult& result);
void write_gate(const GateResult& result, const std::filesystem::path& file);
void write_gate_markdown(const GateResult& result, const std::filesystem::path& file);
void write_gate_junit(const GateResult& result, const std::filesystem::path& file);  // a test case for each limit

// --- run --metric
std::string task_metrics_text(const Measurement& measurement);  // a line each

// --- audit
std::string audit_to_json(const Audit& audit);
std::string float16_audit_to_json(const Float16Audit& audit);
std::string float16_audit_text(const Float16Audit& audit, const TextStyle& style = {});
std::string audit_text(const Audit& audit, const TextStyle& style = {});
void write_proposal(const Audit& audit, const std::filesystem::path& plan);

}  // namespace seqto
