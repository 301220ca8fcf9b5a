// Flags of the data: where they lie, how they become samples.
#include <fmt/format.h>

#include <charconv>

#include "flags.h"
#include "seqto/error.h"

namespace seqto::cli {
namespace {

// A flag that may be repeated, NAME=NUMBER each.
template <class Number>
void add_numbers(CLI::App* word, const std::string& flag, const char* help, std::map<std::string, Number>& numbers) {
  auto take = [flag, &numbers](const std::vector<std::string>& pairs) {
    for (const auto& pair : pairs) {
      const size_t at = pair.rfind('=');
      Number number{};
      const char* end = pair.data() + pair.size();
      const bool good = at != std::string::npos && at > 0 &&
                        std::from_chars(pair.data() + at + 1, end, number) == std::from_chars_result{end, std::errc()};
      if (!good) throw Error(Code::kUsage, fmt::format("[data] {} {} found; NAME=NUMBER expected", flag, pair));
      numbers[pair.substr(0, at)] = number;
    }
  };
  word->add_option_function<std::vector<std::string>>(flag, take, help)
      ->allow_extra_args(false)  // what follows is not another
      ->type_name("NAME=NUMBER");
}

}  // namespace

void add_dim_flag(CLI::App* word, std::map<std::string, int64_t>& dims) {
  add_numbers(word, "--dim", "NAME=SIZE of an open dimension, or INPUT:AXIS=SIZE; may be repeated", dims);
}

void add_data_flags(CLI::App* word, DataFlags& f, bool required) {
  DatasetOptions& o = f.options;
  auto* data = word->add_option("--data", f.path,
                                "Folder of images, .npz, .npy, folder of test_data_set_<n>, or random (docs/data.md)");
  if (required) data->required();
  word->add_option("--labels", o.labels, "CSV with the columns file,label; its order is the data set's");
  word->add_option("--preprocess", o.preprocess, "JSON file, or one of imagenet, unit, none");
  word->add_option("--samples", o.samples, "Use the first N samples (0: all)")->check(CLI::NonNegativeNumber);
  word->add_option("--random-samples", o.random_samples, "Use K samples drawn at random")
      ->check(CLI::NonNegativeNumber);
  word->add_option("--seed", o.seed, "Seed of the drawing, and of random data");
  add_dim_flag(word, o.dims);
  add_numbers(word, "--input", "NAME=NUMBER of an input that is the same in every sample; may be repeated",
              o.constants);
}

}  // namespace seqto::cli
