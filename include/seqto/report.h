// Room: visualizer. A finished or growing study as text, JSON, SVG and one HTML page. Computes nothing itself: every
// figure comes in the Summary.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "seqto/explain.h"
#include "seqto/layer_view.h"
#include "seqto/runner.h"
#include "seqto/table.h"
#include "seqto/what_if.h"

namespace seqto {

// One point of the summary: a trial, named files relative to the study's folder.
struct SummaryPoint {
  Trial trial;
  std::string file, plan_file;  // empty: not written
  double size_reduction_kept = 0;
  // Of the front: the smallest other point of it whose loss the samples cannot tell from this one's (the 95 % interval
  // of the paired difference holds 0), so that nothing is known to be gained by being larger; empty: none.
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
  // Ids of those of the front that no candidate beats in size and loss alone, by size: the line of the plot. With a
  // third objective the front holds more.
  std::vector<std::string> outline;
  std::vector<std::string> top;      // ids, at most three
  std::string selected;              // an id
  std::vector<CheckedLimit> limits;  // that the user set, on the selected point; not all met: no point meets them
  double hypervolume = 0;            // of the front over objectives scaled by the float and fully quantized points
  std::vector<SummaryPoint> trials;  // all, in order
  // Where the runtime computes the nodes of the fully quantized model; empty: it does not tell, or all on one device.
  std::vector<NodePlacement> placement;
};

// All that the reports show; summary_to_json() is summary.json of the command line contract.
struct Summary : DeviceFront {  // of the first device, which the search follows
  StudyHeader header;
  std::vector<DeviceFront> elsewhere;   // the same candidates on the study's other devices
  std::vector<std::string> objectives;  // {"kl", "size"} ...
  Sensitivity sensitivity;              // may be empty
  std::vector<Layer> layers;
  // Of single layers; any of these may be empty, as in studies that were interrupted.
  std::vector<LayerTensors> wiring;                           // of every node, in graph order
  std::map<std::string, TensorValues> values;                 // by tensor, on the calibration's samples
  int64_t value_samples = 0;                                  // on so many of them
  std::map<std::string, std::vector<LayerReport>> explained;  // layers of the front's points, by the points' ids
  std::optional<WhatIf> what_if;                              // of strategies that search
  int64_t evaluations = 0;
  double wall_seconds = 0;
  std::vector<std::string> notes;
};
std::string summary_to_json(const Summary& summary);

// The terminal's table: baseline, fully quantized, front; top three marked, the selected point in a colour.
std::string summary_table(const Summary& summary, const TextStyle& style = {});

struct ReportOptions {
  // plots/*.svg, some half a second's work; false: those that are there are removed, the page has the same plots.
  bool plots = true;
};
// report.html (one file, no network), plots/front.svg, plots/sensitivity.svg, plots/exclusion.svg and, of several
// devices, plots/devices.svg below `dir`; each written to a temporary name, then renamed.
void write_report(const Summary& summary, const std::filesystem::path& dir, const ReportOptions& options = {});

// "13.97 MB", "3.21 ms", "0.0462": the only place where units become text.
std::string format_bytes(int64_t bytes);
std::string format_duration(int64_t ns);
// "1x3x?x?" with "x" between; sizes that are not known are -1.
std::string format_shape(const std::vector<int64_t>& shape, std::string_view between);

}  // namespace seqto
