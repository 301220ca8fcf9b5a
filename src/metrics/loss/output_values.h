// Room: metrics/loss. What losses are made of.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "seqto/metrics.h"
#include "seqto/model.h"

namespace seqto::internal {

bool is_integer(DataType type);  // bool as well

// Whether the tensor is one of positions, [1, positions, ...], some of which are not counted (Sample::counted).
bool hides_positions(const Tensor& tensor, std::span<const char> counted);

// A row more: the values of a tensor of numbers as float32, and its dims. Of an output of positions, [1, positions,
// ...], the counted ones alone (Sample::counted; empty: all). Rows may differ in length: where the classes of a place
// do, too, Outputs::dims are empty and a row is one set of values.
void append_values(Outputs& outputs, const Tensor& tensor, std::span<const char> counted = {});

// The same for a tensor of a list, whose dims may differ from row to row.
void append_list(Outputs& outputs, const Tensor& tensor);

// A row more: the values of a model's first output of a float type as float32, and of its other float outputs, as long
// as these have the dims of the rows before; labels before them are passed over. Where all outputs are integers the
// same of these, which sets Outputs::labels. Throws Error{kInvalidInput} where none is either, which begins with
// `asked_by`, as in "[evaluate]".
// Hidden positions leave the first output, not the others. With Outputs::pooling the row is the sample's vector, with
// Outputs::maker what that makes of all outputs, with Outputs::classes_second a map whose classes are last.
void append_outputs(Outputs& outputs, std::span<const Tensor> tensors, const char* asked_by,
                    std::span<const char> counted = {});

// Those of a model's outputs that are answers, and their names: what is remembered for the next run (is_memory) grows
// with the sample, and is more than memory holds of a large model.
std::vector<Tensor> answers_among(std::span<const Tensor> outputs, const std::vector<std::string>& names);
std::vector<std::string> answer_names(std::vector<std::string> names);

}  // namespace seqto::internal
