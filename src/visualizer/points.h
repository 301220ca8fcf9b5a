// Questions that every report asks about a Summary; answers only, no figure is made here.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "seqto/error.h"
#include "seqto/report.h"

namespace seqto::internal {

// Baseline, fully quantized, all trials and the front, each id once, as find_point() has it.
std::vector<const SummaryPoint*> points(const Summary& summary);
// The front's entry first: it knows more, as the files' names. Null: there is none.
const SummaryPoint* find_point(const Summary& summary, const std::string& id);
bool on_front(const Summary& summary, const std::string& id);
// Whether candidates were timed on a decoder's next step.
bool times_decoding(const Summary& summary);
// Times of this device say nothing of the target's, for which nobody can measure them here.
bool is_for_another_device(const Summary& summary);
// The same study as one of its other devices saw it.
Summary on_device(const Summary& summary, const DeviceFront& device);
// Layers whose scheme differs between the candidates selected on the study's devices.
std::vector<LayerId> where_choices_differ(const Summary& summary);

// 1, 2 or 3; 0: not among the top.
int rank(const Summary& summary, const std::string& id);

// The objective that the plots show against size: the first that is no cost, else "kl".
std::string loss_name(const std::vector<std::string>& objectives);
inline std::string loss_name(const Summary& summary) { return loss_name(summary.objectives); }
// As the reports call it: "kl", "accuracy drop".
std::string loss_label(const std::string& name);
// Whether what is measured has a first class to speak of: maps, boxes and values have none, unless labels say so.
bool has_classes(const Measurement& measurement, const std::string& loss);
// "'boxes' loses most of 13 outputs: nmse 0.31"; empty: there is one output.
std::string worst_output_text(const Measurement& measurement);
// Of a task metric its drop. NaN when the trial has failed or the name is not known to it.
double loss_of(const SummaryPoint& point, const std::string& name);
std::optional<Interval> loss_interval(const SummaryPoint& point, const std::string& name);

// How far a figure that candidates are judged by can be trusted: trusted_interval().
std::optional<Interval> judged_interval(const SummaryPoint& point, const std::string& figure);
// How many samples, none of which changed, show that at most `share` do.
int64_t samples_for(double share);

// Whether one of the two seems to be faster, and the runs do not tell.
bool is_doubtful(const Latency& latency, const Latency& of_float);
// "0.85 x float's (0.70 to 1.06)", "0.85 x float's in too few rounds"; without rounds in turn the spreads of both.
std::string format_doubt(const Latency& latency, const Latency& of_float);

// Whether any scheme makes codes of its values or of its weights, as of an LSTM's.
bool takes_codes(const Layer& layer);
// Layers that take codes and stay float32; -1 when the summary has no layers.
int64_t float_layers(const Summary& summary, const Plan& plan);

// The study's inputs were random numbers.
bool has_random_data(const Summary& summary);

// Whether what the fully quantized model saves is a measure for others: it saves a tenth of float's bytes or more.
bool tells_kept(const Summary& summary);

// Name of the model without folder and ending; of a model.onnx that of its folder.
std::string model_name(const Summary& summary);

}  // namespace seqto::internal
