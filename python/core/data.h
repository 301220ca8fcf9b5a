// Data from Python: arrays, dicts, iterables of batches, calibration readers.
#pragma once

#include <memory>
#include <span>

#include "seqto/dataset.h"
#include "values.h"

namespace seqto::python {

// A path or "random", opened under `options`, or
//   an array                       samples along its first axis, for the only input
//   a dict of arrays               one for each input; "y", where that is no input: labels
//   a sequence: a torch Dataset, or what has __len__ and __getitem__ and is no list or tuple
//                                  samples that are read one by one, each time they are needed (own_parts.h)
//   an iterable, or what has get_next()
//                                  of dicts, arrays, tuples in the order of the inputs, with labels behind them:
//                                  batches
// Arrays share their values with the data set, those of iterables are copied. Throws Error{kInvalidInput} naming the
// input where something is missing or has another shape. `source`: what the model was given as; where that is a path,
// with_files_beside() it.
std::unique_ptr<Dataset> dataset_of(nb::handle given, const Model& model, const DatasetOptions& options,
                                    nb::handle source);
// Batches as a list that serves several dataset_of(): what gives them may do so only once, or in another order each
// time. All else as it is.
nb::object read_once(nb::handle given);
// A dict, array or tuple as one run of the model; its values are copied.
Sample batch_of(nb::handle given, std::span<const ValueInfo> inputs);

// Data that a verb reads from a file: the path that was given, or one that the samples, of `inputs`, are written to.
std::filesystem::path data_file(nb::handle given, std::span<const ValueInfo> inputs,
                                const std::filesystem::path& otherwise);

// One sample, without its name: an array, a dict or a tuple of arrays with an axis of 1 for the batch or without, and
// label or target behind them or as "y". Its values are copied.
Sample sample_of(nb::handle item, std::span<const ValueInfo> inputs);

// Whether such a sample has a label, be it -1: not known.
bool gives_label(nb::handle item, std::span<const ValueInfo> inputs);

// Throws Error{kInvalidInput} for a negative number of them.
void require_number_of_samples(const DatasetOptions& options);
std::vector<int64_t> all_samples(const Dataset& data);

}  // namespace seqto::python
