// What exporters put beside a model and its data are read by: the tokenizer of its text, how its pictures and its sound
// are made ready.
#include <fmt/format.h>

#include "data/boxes.h"
#include "data/datasets.h"
#include "seqto/dataset.h"
#include "seqto/error.h"

namespace seqto {
namespace {

namespace fs = std::filesystem;

// Empty: there is none. Exporters of browsers' models put the model alone into a folder onnx.
fs::path beside(const fs::path& model, const char* name) {
  const fs::path folder = fs::absolute(model).parent_path();
  for (const fs::path& at : {folder, folder.filename() == "onnx" ? folder.parent_path() : folder})
    if (fs::is_regular_file(at / name)) return at / name;
  return {};
}

bool has_own(const AudioWindows& w) { return w.log_mel || w.normalize || w.window > 0 || w.hop > 0 || w.lead > 0; }

bool holds_images(const fs::path& data) {
  return fs::is_directory(data) && !internal::holds_test_data(data) && !internal::holds_text(data);
}

}  // namespace

DatasetOptions with_files_beside(const fs::path& model, const fs::path& data, DatasetOptions options, const Env& env) {
  if (!fs::is_regular_file(model) || data == "random" || !fs::exists(data)) return options;  // of a hub, not there
  const bool sound = internal::holds_audio(data);  // beside which its transcripts may lie
  if (!sound && options.text.tokenizer.empty() && internal::holds_text(data)) {
    options.text.tokenizer = beside(model, "tokenizer.json").string();
    if (!options.text.tokenizer.empty()) env.log(LogLevel::kInfo, "tokenizer: " + options.text.tokenizer);
    return options;
  }
  if (!options.preprocess.empty() || (sound ? has_own(options.audio) : !holds_images(data))) return options;
  const std::string file = beside(model, "preprocessor_config.json").string();
  if (file.empty()) return options;
  try {
    if (sound) internal::with_extractor(file, options.audio);
    else load_preprocess(file);
    options.preprocess = file;
    env.log(LogLevel::kInfo, "preprocessing: " + file);
  } catch (const Error& error) {
    env.log(LogLevel::kWarning, fmt::format("beside the model, not used: {}", error.what()));
  }
  return options;
}

}  // namespace seqto
