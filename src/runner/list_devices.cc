#include <string_view>

#include "base/run_command.h"
#include "runner/providers.h"
#include "seqto/error.h"
#include "seqto/runner.h"

namespace seqto {
namespace {

// Which machines there are, only their user knows.
DeviceStatus linked(const char* device, const char* program, const char* what) {
  try {
    run_command({program, program == std::string_view("ssh") ? "-V" : "version"}, 0, plain_env(), "device");
    return {device, true, what};
  } catch (const Error& error) {
    return {device, false, error.what()};
  }
}

}  // namespace

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
  result.push_back(linked("ssh:HOST", "ssh", "a worker on a machine that the ssh client reaches"));
  result.push_back(linked("adb:SERIAL", "adb", "a worker on a device that adb reaches"));
  return result;
}

}  // namespace seqto
