#include "runner/providers.h"
#include "seqto/error.h"
#include "seqto/runner.h"

namespace seqto {

std::vector<DeviceStatus> list_devices(const RunnerOptions& options) {
  std::vector<std::string> devices{"cpu"};
  for (const internal::Provider& provider : internal::providers()) devices.emplace_back(provider.device);
  devices.emplace_back("tvm:llvm");
  std::vector<DeviceStatus> result;
  for (const std::string& device : devices) {
    RunnerOptions tried = options;
    tried.isolated = true;  // a driver that crashes takes only the worker with it
    try {
      result.push_back({device, true, make_runner(device, tried)->description()});
    } catch (const Error& error) {
      result.push_back({device, false, error.what()});
    }
  }
  return result;
}

}  // namespace seqto
