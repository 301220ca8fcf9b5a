#include "runner/onnxruntime_observe.h"

#include <onnxruntime_cxx_api.h>

#include <algorithm>
#include <cstring>

#include "runner/insert_observers.h"

namespace seqto::internal {
namespace {

// Shows its input and passes it on. The output shares the input's memory (GetAliasMap) except where it is an output
// of the graph, whose memory the caller owns.
struct ObserveKernel {
  Observer* observer;
  size_t tensor;

  OrtStatusPtr ComputeV2(OrtKernelContext* raw) {
    try {
      Ort::KernelContext context(raw);
      Ort::ConstValue input = context.GetInput(0);
      auto info = input.GetTensorTypeAndShapeInfo();
      auto type = static_cast<DataType>(info.GetElementType());
      size_t size = info.GetElementCount() * element_bits(type) / 8;
      const void* values = input.GetTensorRawData();
      observer->observe(tensor, type, {static_cast<const std::byte*>(values), size});
      Ort::UnownedValue output = context.GetOutput(0, info.GetShape());
      if (void* target = output.GetTensorMutableRawData(); target != values) std::memcpy(target, values, size);
      return nullptr;
    } catch (const std::exception& error) {
      return Ort::GetApi().CreateStatus(ORT_FAIL, error.what());
    }
  }
};

struct ObserveOp : Ort::CustomOpBase<ObserveOp, ObserveKernel, true> {
  ObserveOp(Observer& o, ONNXTensorElementDataType t, uint32_t api_version) : observer(&o), type(t) {
    version = std::min<uint32_t>(version, api_version);
    GetAliasMap = [](int** input, int** output) {
      *input = new int(0);
      *output = new int(0);
      return size_t{1};
    };
    ReleaseAliasMap = [](int* input, int* output) {
      delete input;
      delete output;
    };
  }
  OrtStatusPtr CreateKernelV2(const OrtApi&, const OrtKernelInfo* info, void** kernel) const {
    int64_t tensor = 0;
    if (OrtStatusPtr status = Ort::GetApi().KernelInfoGetAttribute_int64(info, "tensor", &tensor)) return status;
    *kernel = new ObserveKernel{observer, static_cast<size_t>(tensor)};
    return nullptr;
  }
  const char* GetName() const { return "Observe"; }
  size_t GetInputTypeCount() const { return 1; }
  ONNXTensorElementDataType GetInputType(size_t) const { return type; }
  size_t GetOutputTypeCount() const { return 1; }
  ONNXTensorElementDataType GetOutputType(size_t) const { return type; }

  Observer* observer;
  ONNXTensorElementDataType type;
};

}  // namespace

struct ObserveDomain::Impl {
  Impl(Observer& observer, uint32_t version)
      : float32(observer, ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT, version),
        float16(observer, ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT16, version),
        domain(kObserveDomain) {
    domain.Add(&float32);
    domain.Add(&float16);
  }
  ObserveOp float32, float16;
  Ort::CustomOpDomain domain;
};

ObserveDomain::ObserveDomain(Observer& observer, uint32_t version)
    : impl_(std::make_unique<Impl>(observer, version)) {}
ObserveDomain::~ObserveDomain() = default;
OrtCustomOpDomain* ObserveDomain::get() const { return impl_->domain; }

}  // namespace seqto::internal
