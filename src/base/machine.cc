#include "base/machine.h"

#include <cstdlib>
#include <fstream>

namespace seqto {

std::string processor_name() {
  std::ifstream info("/proc/cpuinfo");
  for (std::string line; std::getline(info, line);)
    if (size_t at = line.find(": "); line.starts_with("model name") && at != std::string::npos)
      return line.substr(at + 2);
  return "";
}

int64_t available_memory() {
  std::ifstream file("/proc/meminfo");
  for (std::string line; std::getline(file, line);)
    if (line.starts_with("MemAvailable:")) return 1024 * std::strtoll(line.c_str() + 13, nullptr, 10);
  return 0;
}

}  // namespace seqto
