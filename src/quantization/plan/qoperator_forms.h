// Room: quantization/plan. Layers in QOperator form: which input of the operator is what.
#pragma once

#include <optional>
#include <string_view>

#include "quantization/plan/layer_names.h"
#include "seqto/model.h"

namespace seqto::internal {

// Before the weight, at 3, stand the activation's codes, scale and zero point; behind it its scale and zero point.
struct QoperatorForm {
  std::string_view op_type, layer_type;  // of the operator, and of the layer that it was
  size_t bias = 0;                       // the input with the bias; 0: it has none
  size_t output_scale = 0;               // the input with the output's scale; behind it the zero point

  static constexpr size_t kInput = 0, kInputScale = 1, kWeight = 3, kWeightScale = 4;
};

// Nothing for other operators. The domain tells an operator of ONNX from one of the runtime.
inline std::optional<QoperatorForm> qoperator_form(const Node& node) {
  constexpr QoperatorForm kForms[] = {
      {"QLinearConv", "Conv", 8, 6}, {"QLinearMatMul", "MatMul", 0, 6}, {"QGemm", "Gemm", 6, 7}};
  for (const QoperatorForm& form : kForms)
    if (node.op_type == form.op_type && node.domain == (form.op_type == "QGemm" ? "com.microsoft" : "")) return form;
  return {};
}

}  // namespace seqto::internal
