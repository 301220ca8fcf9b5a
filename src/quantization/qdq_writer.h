// Room: quantization. From marks to a model in QDQ form.
#pragma once

#include <functional>
#include <string>
#include <unordered_map>
#include <vector>

#include "quantization/arithmetic.h"
#include "quantization/marks.h"
#include "quantization/overrides.h"

namespace seqto::internal {

// Quantized weights by everything that shapes them; shared by all candidates of one model.
class WeightCache {
 public:
  const QuantParams& params(const std::string& name, const Tensor& weight, const WeightRule& rule);
  Tensor quantized(const std::string& name, const Tensor& weight, const QuantParams& params);
  // What `make` returns, made once for each key.
  const std::vector<Tensor>& tensors(const std::string& key, const std::function<std::vector<Tensor>()>& make);
  // The same with the last two dimensions exchanged; `dims`: the shape of the codes before that.
  Tensor transposed(const std::string& name, const Tensor& weight, const QuantParams& params,
                    const std::vector<int64_t>& dims);

 private:
  static std::string key(const std::string& name, const QuantParams& params);

  std::unordered_map<std::string, QuantParams> params_;
  std::unordered_map<std::string, Tensor> quantized_;
  std::unordered_map<std::string, std::vector<Tensor>> tensors_;
};

// A candidate's view of the ranges: those of the calibration, adjusted for the nodes that it quantizes.
class RangeView {
 public:
  RangeView(const Model& model, const GraphIndex& index, const Ranges& ranges, const std::vector<bool>& selected,
            bool unify_concat);
  const Range* find(const std::string& tensor) const;
  // The tensor's range, `times` as wide, but no wider than what can come out of a Relu, Clip or Softmax.
  Range widened(const std::string& tensor, double times) const;

 private:
  void unify_concat(const Model& model, const GraphIndex& index, const std::vector<bool>& selected);

  const Ranges& ranges_;
  std::unordered_map<std::string, Range> adjusted_;
  std::unordered_map<std::string, std::pair<double, double>> bounds_;
};

// A quantizer's scales as a tensor of the tensor's own float type, and its zero points as one of the quantized type.
Tensor scale_tensor(const std::vector<float>& values, std::vector<int64_t> dims, DataType type = DataType::kFloat);
Tensor zero_point_tensor(const QuantParams& params, const std::vector<int64_t>& dims);

// Parameters of an activation with this range, as an override wants them where there is one.
QuantParams activation_params(const Range& range, const QuantizeOptions& options,
                              DataType float_type = DataType::kFloat, const ParamsOverride* set = nullptr);

// Parameters of activations, from their ranges and overrides; nothing where there is no range.
class ActivationParams {
 public:
  ActivationParams(const RangeView& ranges, const GraphIndex& index, const QuantizeOptions& options)
      : ranges_(ranges), index_(index), options_(options) {}

  std::optional<QuantParams> original(const std::string& tensor) const;
  // The second form, of tensors that are converted for some of their readers.
  std::optional<QuantParams> converted(const std::string& tensor) const;
  // The form that this node reads.
  std::optional<QuantParams> read_by(const std::string& tensor, const LayerId& node) const;
  DataType float_type(const std::string& tensor) const;

 private:
  QuantParams params(const std::string& tensor, const ParamsOverride* set) const;

  const RangeView& ranges_;
  const GraphIndex& index_;
  const QuantizeOptions& options_;
};

// Throws Error{kInvalidInput} naming the tensor where a range is missing. Ids of deviations are added to
// marks.deviations.
Model write_qdq(const Model& model, const GraphIndex& index, Marks& marks, const ActivationParams& activations,
                const QuantizeOptions& options, WeightCache& cache);

}  // namespace seqto::internal
