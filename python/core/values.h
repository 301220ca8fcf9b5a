// Python's values as ours and back: models, enums by their names, JSON.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/stl/filesystem.h>
#include <nanobind/stl/map.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <string>
#include <type_traits>

#include "seqto/model.h"
#include "seqto/tune.h"

namespace seqto::python {

namespace nb = nanobind;

// A Model; a path; the bytes of a ModelProto; an onnx.ModelProto. TypeError for anything else.
Model model_of(nb::handle given);
bool is_path(nb::handle given);
// Throws Error{kInvalidInput} where a file that weights are mapped from was written again in place: they may be others
// by now, or end the process when they are read. `model` came from model_of(), or was made of one that did.
void require_as_loaded(const Model& model);
// save_model() of such a model, without the interpreter's lock.
void save_as_loaded(const Model& model, const std::filesystem::path& path);
bool is_model(nb::handle given);
std::filesystem::path path_of(nb::handle given);

// json.loads() and json.dumps().
nb::object from_json(const std::string& text);
std::string to_json(nb::handle value);

// The values of a tensor as a read-only numpy array that shares them. Throws Error{kInvalidInput} for types that numpy
// does not have.
nb::object to_numpy(const Tensor& tensor);
// An array, or what numpy makes one of, as a tensor of this type, which shares its values where it can; `copy`: they
// may change afterwards. `use` says in errors what it is for: "the input 'x'". Throws Error{kInvalidInput} for what
// holds no numbers, and where fractions would be lost.
Tensor tensor_of(nb::handle array, DataType type, bool copy, const std::string& use);

// `given` to go through. TypeError for what is no list: a string's items are letters, and a path has none. `what`: the
// text before it, "devices: ".
nb::iterable list_of(nb::handle given, const std::string& what = "");

// --- enums are strings in Python

inline void parse_enum(DataType& e, const std::string& name) { e = parse_data_type(name); }
inline void parse_enum(QuantFormat& e, const std::string& name) { e = parse_quant_format(name); }
inline void parse_enum(WeightClipping& e, const std::string& name) { e = parse_weight_clipping(name); }
inline void parse_enum(Int4Format& e, const std::string& name) { e = parse_int4_format(name); }
inline void parse_enum(SampleOrder& e, const std::string& name) { e = parse_sample_order(name); }
inline void parse_enum(CalibrationMethod& e, const std::string& name) { e = parse_calibration_method(name); }
inline void parse_enum(BiasCorrection& e, const std::string& name) { e = parse_bias_correction(name); }

}  // namespace seqto::python
