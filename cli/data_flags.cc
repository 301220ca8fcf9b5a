// Flags of the data: where they lie, how they become samples.
#include <fmt/format.h>

#include <charconv>

#include "flags.h"
#include "seqto/error.h"
#include "seqto/prepare.h"
#include "seqto/runner.h"

namespace seqto::cli {
namespace {

// A flag that may be repeated, NAME=NUMBER each.
template <class Number>
void add_numbers(Command word, const std::string& flag, const char* help, std::map<std::string, Number>& numbers) {
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
  word.add_option_function<std::vector<std::string>>(flag, take, help)
      .one_value_each()  // what follows is not another
      .type_name("NAME=NUMBER");
}

void add_states(const std::vector<std::string>& links, std::vector<StateLink>& states) {
  for (const auto& link : links) {
    const size_t at = link.find('=');
    if (at == std::string::npos || at == 0 || at + 1 == link.size())
      throw Error(Code::kUsage, fmt::format("[data] --state {} found; OUTPUT=INPUT expected", link));
    states.push_back({link.substr(0, at), link.substr(at + 1)});
  }
}

StateReset parse_reset(const std::string& word) {
  if (word == "file") return {};
  if (word == "never") return {.each_file = false};
  StateReset reset;
  const char* end = word.data() + word.size();
  if (std::from_chars(word.data(), end, reset.samples) == std::from_chars_result{end, std::errc()} && reset.samples > 0)
    return reset;
  throw Error(Code::kUsage,
              fmt::format("[data] --state-reset {} found; file, never or a number of samples expected", word));
}

void add_recurrent_flags(Command word, DatasetOptions& o) {
  word.add_option_function<std::vector<std::string>>(
          "--state", [&o](const std::vector<std::string>& links) { add_states(links, o.states); },
          "OUTPUT=INPUT: a recurrent state, fed back from sample to sample; may be repeated")
      .one_value_each()
      .type_name("OUTPUT=INPUT");
  word.add_option_function<std::string>(
          "--state-reset", [&o](const std::string& rule) { o.state_reset = parse_reset(rule); },
          "When states are zero again: file (at each file), N (also after N samples of one), never")
      .type_name("file|never|N")
      .default_str("file");
}

void add_text_flags(Command input, TextOptions& t) {
  const Command detail = input.in_detail();
  detail
      .add_option("--tokenizer", t.tokenizer,
                  "Of text files, or to show token ids as text: tokenizer.json, or its folder")
      .type_name("PATH");
  detail.add_option("--length", t.length, "Text: tokens of a sample, where the model leaves it open").check_positive();
}

void add_audio_flags(Command word, AudioWindows& a) {
  word.add_option("--window", a.window, "Audio: samples of a window (0: as the model's input says)")
      .check_not_negative();
  word.add_option("--hop", a.hop, "Audio: samples from one window to the next (0: the window)").check_not_negative();
  word.add_option("--lead", a.lead, "Audio: zeros before each file").check_not_negative();
  word.add_flag("--log-mel", a.log_mel, "Audio: as Whisper's mel bands, for inputs [batch, bands, frames]");
  word.add_option("--sample-rate", a.rate,
                  "Audio: Hz that every file must have (0: those of --input sr, or of the "
                  "first file)")
      .check_not_negative();
}

}  // namespace

void add_dim_flag(Command word, std::map<std::string, int64_t>& dims) {
  add_numbers(word, "--dim", "NAME=SIZE of an open dimension, or INPUT:AXIS=SIZE; may be repeated", dims);
}

void add_fix_input_flag(Command word, std::map<std::string, double>& inputs) {
  add_numbers(word, "--fix-input", "NAME=NUMBER of an input that becomes a constant of the model; may be repeated",
              inputs);
}

void add_data_flags(Command word, DataFlags& f, bool required) {
  DatasetOptions& o = f.options;
  const Command input = word.under("Input"), detail = input.in_detail();
  const Option data =
      input.add_option("--data,--text", f.path, "Folder (images, audio, text), data.yaml, .npz, .npy, random");
  if (required) data.required();
  input.add_option("--labels", o.labels, "CSV of file,label or file,target; .npz of targets; boxes");
  input.add_option("--preprocess", o.preprocess, "Of images").type_name("imagenet|yolo|unit|none|FILE");
  input.add_option("--samples", o.samples, "Use N samples: the first, or (to quantize, tune) of each class")
      .check_not_negative();
  detail.add_option("--random-samples", o.random_samples, "Use K samples drawn at random").check_not_negative();
  detail.add_option("--seed", o.seed, "Seed of the drawing, of random data, and of strategies that draw plans");
  add_dim_flag(detail, o.dims);
  add_numbers(detail, "--input", "NAME=NUMBER of an input that is the same in every sample; may be repeated",
              o.constants);
  add_text_flags(input, o.text);
  add_audio_flags(detail, o.audio);
  add_recurrent_flags(detail, o);
}

std::unique_ptr<Dataset> open_data(const std::string& file, const Model& model, const DataFlags& data,
                                   const Context& context) {
  return open_dataset(data.path, model.graph.free_inputs(),
                      with_files_beside(file, data.path, data.options, context.env));
}

std::unique_ptr<Runner> runner_for(const Model& model, const DataFlags& data, const std::string& device,
                                   const RunnerOptions& options, const Context& context) {
  return carry_states(make_runner(device, options, context.env), model, data.options);
}

bool may_end_process(const Model& model, const std::string& device) {
  return device == "cpu" && computes_in_float16(model);
}

std::unique_ptr<Runner> safe_runner_for(const Model& model, const DataFlags& data, const std::string& device,
                                        const RunnerOptions& options, const Context& context) {
  RunnerOptions apart = options;
  apart.isolated |= may_end_process(model, device);
  use_this_program(apart);
  return runner_for(model, data, device, apart, context);
}

}  // namespace seqto::cli
