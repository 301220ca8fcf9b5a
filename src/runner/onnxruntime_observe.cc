#include "runner/onnxruntime_observe.h"

#include <onnxruntime_cxx_api.h>

#include <algorithm>
#include <cstring>

#include "base/extremes.h"
#include "runner/insert_observers.h"

namespace seqto::internal {
namespace {

// Values of one channel block that are looked at, and clipped, while they are in the nearest cache.
constexpr size_t kTile = 8192;

int64_t int_of(const OrtKernelInfo* info, const char* name) {
  int64_t value = 0;
  Ort::ThrowOnError(Ort::GetApi().KernelInfoGetAttribute_int64(info, name, &value));
  return value;
}

float float_of(const OrtKernelInfo* info, const char* name) {
  float value = 0;
  Ort::ThrowOnError(Ort::GetApi().KernelInfoGetAttribute_float(info, name, &value));
  return value;
}

// Which elements of a tensor are shown: all, or those of the real channels of a blocked layout.
class View {
 public:
  View(int64_t channels, int64_t block) : channels_(channels), block_(block) {}

  // f(values, count, step): in runs that lie together, real values only where `step` lanes of `block` are real.
  template <class F>
  void for_each_run(const float* values, size_t count, const std::vector<int64_t>& dims, F f) const {
    if (channels_ == 0 || dims.size() < 2 || dims[1] == channels_) {
      f(values, count, size_t{0});
      return;
    }
    const size_t image = dims[0] == 0 ? 0 : count / static_cast<size_t>(dims[0]);
    const size_t block_size = image / static_cast<size_t>(dims[1] / block_);
    const size_t full = static_cast<size_t>(channels_ / block_), lanes = static_cast<size_t>(channels_ % block_);
    for (int64_t n = 0; n < dims[0]; ++n) {
      const float* start = values + static_cast<size_t>(n) * image;
      if (full > 0) f(start, full * block_size, size_t{0});
      if (lanes > 0) f(start + full * block_size, block_size, lanes);
    }
  }
  size_t block() const { return static_cast<size_t>(block_); }

 private:
  int64_t channels_, block_;
};

class Shower {
 public:
  Shower(Observer& observer, size_t block) : observer_(observer), block_(block) {}
  void show(int64_t tensor, const float* values, size_t count, size_t lanes) {
    if (tensor < 0) return;
    observer_.observe(static_cast<size_t>(tensor), DataType::kFloat, std::as_bytes(real(values, count, lanes)));
  }
  void show_clipped(ClippedValues clipped, const float* values, size_t count, size_t lanes) {
    clipped.values = real(values, count, lanes);
    observer_.observe_clipped(clipped);
  }

 private:
  // The values without those of padded channels.
  std::span<const float> real(const float* values, size_t count, size_t lanes) {
    if (lanes == 0) return {values, count};
    packed_.clear();
    for (size_t i = 0; i < count; i += block_) packed_.insert(packed_.end(), values + i, values + i + lanes);
    return packed_;
  }

  Observer& observer_;
  size_t block_;
  std::vector<float> packed_;
};

template <class F>
OrtStatusPtr guarded(F f) {
  try {
    f();
    return nullptr;
  } catch (const std::exception& error) {
    return Ort::GetApi().CreateStatus(ORT_FAIL, error.what());
  }
}

// Shows its input and passes it on. The output shares the input's memory (GetAliasMap) except where it is an output
// of the graph, whose memory the caller owns.
struct ObserveKernel {
  Observer* observer;
  int64_t tensor;
  View view;

  ObserveKernel(Observer& o, const OrtKernelInfo* info)
      : observer(&o), tensor(int_of(info, "tensor")), view(int_of(info, "channels"), int_of(info, "block")) {}

  OrtStatusPtr ComputeV2(OrtKernelContext* raw) {
    return guarded([&] {
      Ort::KernelContext context(raw);
      Ort::ConstValue input = context.GetInput(0);
      auto info = input.GetTensorTypeAndShapeInfo();
      auto type = static_cast<DataType>(info.GetElementType());
      auto dims = info.GetShape();
      const size_t count = info.GetElementCount(), size = count * element_bits(type) / 8;
      const void* values = input.GetTensorRawData();
      if (type == DataType::kFloat) {
        Shower shower(*observer, view.block());
        view.for_each_run(static_cast<const float*>(values), count, dims,
                          [&](const float* v, size_t n, size_t lanes) { shower.show(tensor, v, n, lanes); });
      } else {
        observer->observe(static_cast<size_t>(tensor), type, {static_cast<const std::byte*>(values), size});
      }
      Ort::UnownedValue output = context.GetOutput(0, dims);
      if (void* target = output.GetTensorMutableRawData(); target != values) std::memcpy(target, values, size);
    });
  }
};

// Relu or Clip that shows its input and its output, in one way through memory.
struct ObserveClipKernel {
  Observer* observer;
  int64_t tensor, clipped_tensor;
  float lowest, highest;
  View view;

  ObserveClipKernel(Observer& o, const OrtKernelInfo* info)
      : observer(&o),
        tensor(int_of(info, "tensor")),
        clipped_tensor(int_of(info, "clipped_tensor")),
        lowest(float_of(info, "lowest")),
        highest(float_of(info, "highest")),
        view(int_of(info, "channels"), int_of(info, "block")) {}

  OrtStatusPtr ComputeV2(OrtKernelContext* raw) {
    return guarded([&] {
      Ort::KernelContext context(raw);
      Ort::ConstValue input = context.GetInput(0);
      auto info = input.GetTensorTypeAndShapeInfo();
      auto dims = info.GetShape();
      const size_t count = info.GetElementCount();
      const float* values = input.GetTensorData<float>();
      float* clipped = context.GetOutput(0, dims).GetTensorMutableData<float>();
      Shower shower(*observer, view.block());
      const bool both = tensor >= 0 && clipped_tensor >= 0;
      const ClippedValues pair{static_cast<size_t>(tensor), static_cast<size_t>(clipped_tensor), {}, lowest, highest};
      view.for_each_run(values, count, dims, [&](const float* run, size_t n, size_t lanes) {
        for (size_t begin = 0; begin < n; begin += kTile) {
          const size_t size = std::min(kTile, n - begin);
          const float* in = run + begin;
          float* out = clipped + (in - values);
          if (both) shower.show_clipped(pair, in, size, lanes);
          else shower.show(tensor, in, size, lanes);
          clip_values(in, size, lowest, highest, out);
          if (!both) shower.show(clipped_tensor, out, size, lanes);
        }
      });
    });
  }
};

size_t first_to_first(int** input, int** output) {
  *input = new int(0);
  *output = new int(0);
  return 1;
}
void release_map(int* input, int* output) {
  delete input;
  delete output;
}

template <class Op, class Kernel>
struct ObserverOp : Ort::CustomOpBase<Op, Kernel, true> {
  // All that derive from it stand below. NOLINTNEXTLINE(bugprone-crtp-constructor-accessibility)
  ObserverOp(Observer& o, ONNXTensorElementDataType t, uint32_t api_version) : observer(&o), type(t) {
    this->version = std::min<uint32_t>(this->version, api_version);
  }
  OrtStatusPtr CreateKernelV2(const OrtApi&, const OrtKernelInfo* info, void** kernel) const {
    return guarded([&] { *kernel = new Kernel(*observer, info); });
  }
  size_t GetInputTypeCount() const { return 1; }
  ONNXTensorElementDataType GetInputType(size_t) const { return type; }
  size_t GetOutputTypeCount() const { return 1; }
  ONNXTensorElementDataType GetOutputType(size_t) const { return type; }

  Observer* observer;
  ONNXTensorElementDataType type;
};

struct ObserveOp : ObserverOp<ObserveOp, ObserveKernel> {
  ObserveOp(Observer& o, ONNXTensorElementDataType t, uint32_t api_version) : ObserverOp(o, t, api_version) {
    GetAliasMap = first_to_first;
    ReleaseAliasMap = release_map;
  }
  const char* GetName() const { return "Observe"; }
};

// The runtime shares the memory where it can prove that it may; of shapes that it does not know it cannot.
struct ObserveClipOp : ObserverOp<ObserveClipOp, ObserveClipKernel> {
  ObserveClipOp(Observer& o, uint32_t api_version) : ObserverOp(o, ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT, api_version) {
    GetMayInplace = first_to_first;
    ReleaseMayInplace = release_map;
  }
  const char* GetName() const { return "ObserveClip"; }
};

// For inputs that are known to be nobody else's: always in place.
struct ObserveClipInPlaceOp : ObserverOp<ObserveClipInPlaceOp, ObserveClipKernel> {
  ObserveClipInPlaceOp(Observer& o, uint32_t api_version)
      : ObserverOp(o, ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT, api_version) {
    GetAliasMap = first_to_first;
    ReleaseAliasMap = release_map;
  }
  const char* GetName() const { return "ObserveClipInPlace"; }
};

}  // namespace

struct ObserveDomain::Impl {
  Impl(Observer& observer, uint32_t version)
      : float32(observer, ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT, version),
        float16(observer, ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT16, version),
        clip(observer, version),
        clip_in_place(observer, version),
        domain(kObserveDomain) {
    domain.Add(&float32);
    domain.Add(&float16);
    domain.Add(&clip);
    domain.Add(&clip_in_place);
  }
  ObserveOp float32, float16;
  ObserveClipOp clip;
  ObserveClipInPlaceOp clip_in_place;
  Ort::CustomOpDomain domain;
};

ObserveDomain::ObserveDomain(Observer& observer, uint32_t version) : impl_(std::make_unique<Impl>(observer, version)) {}
ObserveDomain::~ObserveDomain() = default;
OrtCustomOpDomain* ObserveDomain::get() const { return impl_->domain; }

}  // namespace seqto::internal
