#include "fuzz/targets.h"

#include <fstream>

#include "base/locked_folder.h"

namespace seqto::fuzz {

std::span<const FuzzTarget> targets() {
  static constexpr FuzzTarget kTargets[] = {
      {"onnx", read_onnx},       {"external", read_external}, {"arrays", read_arrays}, {"tensor", read_tensor},
      {"image", read_image},     {"sound", read_sound},       {"labels", read_labels}, {"plan", read_plan},
      {"dialect", read_dialect}, {"ranges", read_ranges},     {"config", read_config}, {"settings", read_settings},
      {"study", read_study},     {"summary", read_summary},   {"hub", read_hub},       {"archive", read_archive},
      {"worker", read_worker},
  };
  return kTargets;
}

const std::filesystem::path& folder() {
  static const std::filesystem::path kMemory = "/dev/shm";
  static const LockedFolder made(
      std::filesystem::is_directory(kMemory) ? kMemory : std::filesystem::temp_directory_path(), "seqto-fuzz-");
  return made.path();
}

std::filesystem::path file(const std::string& name, std::string_view bytes) {
  const std::filesystem::path path = folder() / name;
  std::ofstream(path, std::ios::binary) << bytes;
  return path;
}

}  // namespace seqto::fuzz
