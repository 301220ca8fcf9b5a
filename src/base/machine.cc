#include "base/machine.h"

#include <fstream>

namespace seqto {

std::string processor_name() {
  std::ifstream info("/proc/cpuinfo");
  for (std::string line; std::getline(info, line);)
    if (size_t at = line.find(": "); line.starts_with("model name") && at != std::string::npos)
      return line.substr(at + 2);
  return "";
}

}  // namespace seqto
