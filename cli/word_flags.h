// What the words about one model and its data share: calibrate, quantize, analyze, run.
#pragma once

#include <string>
#include <vector>

#include "config_flags.h"
#include "flags.h"
#include "hub_flags.h"
#include "improve_flags.h"
#include "weight_flags.h"

namespace seqto::cli {

struct WordFlags {
  std::string model, output, ranges, plan, quantized, mode = "static", format = "qdq", target;
  std::vector<std::string> exclude;
  bool prepare = false, explain = false, channels = false, print_encoding = false, verify = false;
  DataFlags data;
  DeviceFlags device;
  QuantizeFlags quantize;
  WeightFlags weights;
  bool weight_type_given = false;
  std::string given_for_tune;  // of these flags, as they are typed
  bool best = false;           // nobody named types or forms; BatchNormalization is folded then, as in a search
  ImproveFlags improve;
  HubOptions hub;
};
Command add_word(Command app, const char* name, const char* help, WordFlags& f, bool needs_data);
void add_quantizer(Command word, WordFlags& f);

// Its model, made fit for the quantizer; from the hub, if it is named so.
Model load_model_of(const WordFlags& f, const Context& context);

// What a word measures with, opened once.
struct Workbench {
  std::unique_ptr<Dataset> data;
  std::vector<int64_t> samples;  // all of them
  std::unique_ptr<Runner> runner;
};
// `asked_by`: the flag, or the work, that needs it. Throws Error{kUsage} without --data. `once`: every sample is read
// only once or twice, so none is kept and memory stays flat.
Workbench open_workbench(const WordFlags& f, const Model& model, const std::string& asked_by, bool once,
                         const Context& context);
// From --ranges; without, by calibration.
Ranges ranges_of(const WordFlags& f, const Model& model, const Workbench& bench, const Context& context);
std::string read_text(const std::string& path);
// To stdout where the path is empty or "-".
void write_text(const std::string& path, const std::string& text);

}  // namespace seqto::cli
