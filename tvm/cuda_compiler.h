// seqto-tvm: kernels for NVIDIA GPUs, compiled where they run.
#pragma once

namespace seqto::on_tvm {

// Registers what TVM's CUDA runtime asks when it loads a model: NVRTC, which compiles CUDA C for the GPU of this
// machine. The machine that made the model then needs neither CUDA nor a GPU. Without libnvrtc loading such a model
// throws Error{kUnavailable}; nothing is looked for before.
void register_cuda_compiler();

}  // namespace seqto::on_tvm
