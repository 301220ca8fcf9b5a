// What is fuzzed: each kind of bytes that a stranger may have written, with what reads them.
#pragma once

#include <filesystem>
#include <span>
#include <string>
#include <string_view>

#include "seqto/error.h"

namespace seqto::fuzz {

// Reads the bytes, or refuses them with an Error about them. Whatever else happens is a finding.
struct FuzzTarget {
  std::string_view name;
  void (*read)(std::string_view bytes);
};
std::span<const FuzzTarget> targets();

void read_onnx(std::string_view bytes);
void read_external(std::string_view bytes);
void read_arrays(std::string_view bytes);
void read_tensor(std::string_view bytes);
void read_image(std::string_view bytes);
void read_sound(std::string_view bytes);
void read_labels(std::string_view bytes);
void read_plan(std::string_view bytes);
void read_dialect(std::string_view bytes);
void read_ranges(std::string_view bytes);
void read_config(std::string_view bytes);
void read_settings(std::string_view bytes);
void read_study(std::string_view bytes);
void read_summary(std::string_view bytes);
void read_hub(std::string_view bytes);
void read_archive(std::string_view bytes);
void read_worker(std::string_view bytes);

// A change of a model's bytes that leaves a ModelProto, of at most `most` bytes.
std::string mutate_model(std::string_view bytes, size_t most, unsigned seed);

// Several readers may refuse the same bytes, each for itself.
template <class Read>
void refusing(Read&& read) {
  try {
    read();
  } catch (const Error& error) {
    if (error.code() == Code::kInternal) throw;
  }
}

// A folder of this process, in memory where the machine has such files.
const std::filesystem::path& folder();
// A file in it that holds the bytes.
std::filesystem::path file(const std::string& name, std::string_view bytes);

}  // namespace seqto::fuzz
