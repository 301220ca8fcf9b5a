// Flags that several words share, and the objects that they describe.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "commands.h"
#include "seqto/dialects.h"
#include "seqto/quantize.h"
#include "seqto/recipe.h"

namespace seqto::cli {

struct DataFlags {
  std::string path;
  DatasetOptions options;
};
void add_data_flags(Command word, DataFlags& flags, bool required);
// open_dataset() for the model of `file`, whose neighbours say what the flags do not.
std::unique_ptr<Dataset> open_data(const std::string& file, const Model& model, const DataFlags& data,
                                   const Context& context);
// A device for samples of `data`, whose recurrent states it carries.
std::unique_ptr<Runner> runner_for(const Model& model, const DataFlags& data, const std::string& device,
                                   const RunnerOptions& options, const Context& context);
// ONNX Runtime 1.31 ends the process on some graphs of float16, as a Transpose in front of a product.
bool may_end_process(const Model& model, const std::string& device);
// As runner_for(), in a process of its own where that may be.
std::unique_ptr<Runner> safe_runner_for(const Model& model, const DataFlags& data, const std::string& device,
                                        const RunnerOptions& options, const Context& context);
void add_dim_flag(Command word, std::map<std::string, int64_t>& dims);
void add_fix_input_flag(Command word, std::map<std::string, double>& inputs);

struct DeviceFlags {
  std::string device = "cpu";
  RunnerOptions options;
};
// `several`: takes the devices where more than one may be given.
void add_device_flags(Command word, DeviceFlags& flags, std::vector<std::string>* several = nullptr);

// Workers are this very program, whatever it is called.
void use_this_program(RunnerOptions& options);
void add_tvm_flags(Command word, DeviceFlags& flags);  // those of them that TVM alone takes

struct CalibrateFlags {
  CalibrateOptions options;
  std::string method, symmetric_ranges;  // empty: by default
  std::vector<std::string> tensor_methods;
  // The options with the methods parsed. Throws Error{kUsage}.
  CalibrateOptions parsed(const QuantizeOptions& quantize) const;
};
void add_calibrate_flags(Command word, CalibrateFlags& flags);

struct QuantizeFlags {
  QuantizeOptions options;
  std::optional<double> headroom_16_bits;
  std::optional<bool> unify_concat, float_unlike_concat;
  std::string activation_type = "int8", weight_type = "int8";
  std::string symmetric_weights, tensor_overrides, compat, weight_clipping = "none";
  std::vector<std::string> op_type_per_channel_axis;  // "MatMul=0"
  CalibrateFlags calibrate;
  std::string target;                    // goes before fast_on; empty: none
  std::vector<const char*> named_types;  // of kTypeFields, which a target leaves
  std::string fast_on;                   // the device that types are taken for which are fast there; empty: those above
  bool keeps_float16 = false;            // no widen_float16
  // The options with the types parsed. Throws Error{kUsage}.
  QuantizeOptions parsed() const;
  CalibrateOptions calibration() const { return calibrate.parsed(parsed()); }
  NamedOptions named() const {
    return {headroom_16_bits.has_value(), unify_concat.has_value(), float_unlike_concat.has_value()};
  }
};
// "--per-channel" of per_channel.
std::string flag_of(std::string_view field);
void add_quantize_flags(Command word, QuantizeFlags& flags);
void add_qdq_flags(Command word, QuantizeFlags& flags);  // the rarer half of them

// A plan in any dialect; an empty name: the one that the file is in. Says in the log what could not be taken over.
ForeignPlan load_plan(const std::string& path, const std::string& dialect, const Model& model, const Context& context);

// Layers that could be int8 and that the plan in this file leaves in float, float16 included.
std::vector<LayerId> float_layers(const std::string& path, const Model& model, const Context& context);

// Loads, names the nodes, infers shapes, and converts opsets that the quantizer cannot take; says so in the log.
// `planned`: as the plans of `tune` mean it.
Model load_for_quantizing(const std::string& path, const QuantizeOptions& options, const Env& env,
                          bool planned = false);

std::vector<int64_t> all_samples(const Dataset& data);

}  // namespace seqto::cli
