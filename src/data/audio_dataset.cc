// Sound files as a data set: windows of equal length, one after the other.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "base/files.h"
#include "base/hash.h"
#include "base/json.h"
#include "base/text.h"
#include "data/convert.h"
#include "data/datasets.h"
#include "data/labels.h"
#include "data/log_mel.h"
#include "data/select.h"
#include "data/shapes.h"
#include "data/sound_file.h"
#include "data/token_inputs.h"
#include "seqto/error.h"

namespace seqto::internal {
namespace {

namespace fs = std::filesystem;

struct AudioFile {
  fs::path path;
  std::string name;  // relative to the folder
  int64_t label = -1;
  std::string kind = {};
  int64_t frames = 0, windows = 0;
  uint64_t size_bytes = 0;
};

// Where a sample lies.
struct Place {
  size_t file = 0;
  int64_t window = 0;
  int64_t row = 0;  // among all windows of all files
};

bool is_audio_name(const fs::path& path) {
  const std::string extension = internal::lower(path.extension().string());
  return !path.filename().string().starts_with('.') && (extension == ".wav" || extension == ".flac");
}

std::vector<AudioFile> list_files(const fs::path& path, const std::string& labels) {
  std::vector<AudioFile> files;
  if (is_label_table(labels)) {
    const fs::path folder = fs::is_directory(path) ? path : path.parent_path();
    for (const LabelRow& row : read_labels(labels)) files.push_back({folder / row.file, row.file, row.label});
    return files;
  }
  if (!fs::is_directory(path)) return {{path, path.filename().string()}};
  for_each_file(path, [&](const fs::path& file) {
    if (is_audio_name(file)) files.push_back({file, file.lexically_relative(path).string()});
    return true;
  });
  std::sort(files.begin(), files.end(), [](const AudioFile& a, const AudioFile& b) { return a.name < b.name; });
  return files;
}

// What all files share.
struct Form {
  AudioWindows windows;  // with nothing left open
  int64_t channels = 0;
  bool masked = false;  // SoundExtractor::masked
};

void usage(const std::string& found, const std::string& expected) {
  throw Error(Code::kUsage, fmt::format("[data] {} found; {}", found, expected));
}

// Mel bands, where the input has the shape for them: [batch, bands, frames].
int64_t bands_of(const ValueInfo& input) {
  const bool fits = input.type != DataType::kInt16 && input.shape && input.shape->size() == 3;
  return fits ? std::max<int64_t>(0, (*input.shape)[1].value) : 0;
}

AudioWindows windows_of_log_mel(const ValueInfo& input, AudioWindows w) {
  const bool left_open = input.shape && input.shape->size() == 3 && (*input.shape)[1].value < 0;
  if (bands_of(input) < 1 && left_open)
    usage(fmt::format("--log-mel and the model input '{}' {}, which leaves the number of bands open,", input.name,
                      shape_text(input)),
          fmt::format("--dim {}=80 expected, or 128 of Whisper large-v3",
                      (*input.shape)[1].parameter.empty() ? input.name + ":1" : (*input.shape)[1].parameter));
  if (bands_of(input) < 1)
    usage(fmt::format("--log-mel and the model input '{}' {}", input.name, shape_text(input)),
          "one of floats [batch, bands, frames] with a number of bands expected; leave --log-mel out");
  const int64_t frames = input.shape->back().value;
  if (w.window == 0) w.window = frames > 0 ? frames * kWhisperHop : kWhisperWindow;
  if (w.window % kWhisperHop != 0 || w.window < kWhisperHop * 2)
    usage(fmt::format("--log-mel and windows of {} samples", w.window),
          fmt::format("a multiple of {}, {} or more, expected", kWhisperHop, 2 * kWhisperHop));
  if (w.hop == 0) w.hop = w.window;
  if (w.rate == 0) w.rate = kWhisperRate;
  if (w.rate != kWhisperRate) usage(fmt::format("--log-mel and a sample rate of {}", w.rate), "16000 expected");
  return w;
}

AudioWindows windows_of(const ValueInfo& input, AudioWindows w, const std::map<std::string, double>& constants) {
  if (w.window < 0 || w.hop < 0 || w.lead < 0 || w.rate < 0) {
    usage(fmt::format("a window of {}, a hop of {}, a lead of {} and a rate of {}", w.window, w.hop, w.lead, w.rate),
          "0 or more of each expected");
  }
  if (w.log_mel) return windows_of_log_mel(input, w);
  if (w.window == 0 && input.shape && !input.shape->empty()) w.window = std::max<int64_t>(0, input.shape->back().value);
  if (w.window == 0 && (w.hop > 0 || w.lead > 0))
    usage(fmt::format("a hop of {}, a lead of {} and no window for the model input '{}' {}", w.hop, w.lead, input.name,
                      shape_text(input)),
          "the samples of a window expected; say it with --window");
  if (w.hop == 0) w.hop = w.window;
  for (const char* name : {"sr", "sample_rate", "sampling_rate"}) {
    const auto constant = constants.find(name);
    if (w.rate == 0 && constant != constants.end()) w.rate = static_cast<int64_t>(constant->second);
  }
  return w;
}

int64_t count_windows(int64_t frames, const AudioWindows& w) {
  if (w.window == 0) return 1;
  return std::max<int64_t>(0, frames + w.lead - w.window) / w.hop + 1;
}

// Windows of one file are much alike.
SampleKind kind_of(const std::vector<AudioFile>& files, const Place& place) {
  return {files[place.file].kind, static_cast<int64_t>(place.file)};
}

// transformers' zero_mean_unit_var_norm.
void normalize(std::span<float> values) {
  double sum = 0, squares = 0;
  for (const float v : values) sum += v;
  const double mean = sum / static_cast<double>(std::max<size_t>(1, values.size()));
  for (const float v : values) squares += (v - mean) * (v - mean);
  const double variance = squares / static_cast<double>(std::max<size_t>(1, values.size()));
  for (float& v : values) v = static_cast<float>((v - mean) / std::sqrt(variance + 1e-7));
}

// What sound is given as: the sound, and what of it is no filling, where the model asks.
struct Given {
  ValueInfo sound;
  std::optional<ValueInfo> mask;
  bool mask_first = false;
};

std::optional<Given> given_as(std::span<const ValueInfo> inputs, const AudioWindows& windows) {
  if (inputs.size() == 1) return Given{inputs[0]};
  if (inputs.size() != 2 || windows.log_mel) return {};
  const auto is_mask = [](const ValueInfo& v) {
    return role_of(v.name) == TokenRole::kOnes && suits(v, TokenRole::kOnes);
  };
  const bool first = is_mask(inputs[0]);
  if (first == is_mask(inputs[1])) return {};
  return Given{inputs[first ? 1 : 0], inputs[first ? 0 : 1], first};
}

class AudioDataset : public Dataset {
 public:
  AudioDataset(std::vector<AudioFile> files, std::vector<Place> places, Form form, Given given, bool has_labels)
      : files_(std::move(files)),
        places_(std::move(places)),
        form_(form),
        input_(given.sound),
        mask_(std::move(given.mask)),
        mask_first_(given.mask_first),
        has_labels_(has_labels) {
    read(0);
  }

  int64_t size() const override { return static_cast<int64_t>(places_.size()); }
  bool has_labels() const override { return has_labels_; }
  SampleKind kind(int64_t index) const override { return kind_of(files_, places_[index]); }
  int64_t row(int64_t index) const override { return places_[static_cast<size_t>(index)].row; }

  Sample read(int64_t index) const override {
    const auto [number, window, row] = places_[index];
    const AudioFile& file = files_[number];
    const Part part = part_of(file, window * form_.windows.hop - form_.windows.lead);
    std::vector<Tensor> inputs{sound(file, part)};
    if (mask_) inputs.insert(mask_first_ ? inputs.begin() : inputs.end(), mask(part));
    return {.inputs = std::move(inputs),
            .label = file.label,
            .name = is_cut(file) ? fmt::format("{}[{}]", file.name, window) : file.name,
            .sequence = static_cast<int64_t>(number),
            .position = window,
            .source = is_cut(file) ? static_cast<int64_t>(number) : -1};
  }

  std::string fingerprint() const override {
    const AudioWindows& w = form_.windows;
    std::string text = fmt::format("audio {} {} {} {} {}{}{}\n", w.window, w.hop, w.lead, w.rate, form_.channels,
                                   w.log_mel ? " log-mel" : "",
                                   !w.normalize   ? ""
                                   : form_.masked ? " normalized alone"
                                                  : " normalized");
    for (const AudioFile& f : files_)
      text += fmt::format("{}\t{}\t{}\t{}\n", f.name, f.size_bytes, xxh3_of_pieces(f.path), f.label);
    for (const auto& [file, window, row] : places_) text += fmt::format("{} {}\n", file, window);
    return sha256_hex(text);
  }

 private:
  // Whether no sample holds the whole file. What is left behind the last window is in none.
  bool is_cut(const AudioFile& file) const {
    const AudioWindows& w = form_.windows;
    return file.windows > 1 || (w.window > 0 && file.frames + w.lead > w.window);
  }

  std::vector<int64_t> sample_dims(int64_t window) const {
    if (form_.windows.log_mel) return log_mel_dims();
    const std::vector<int64_t> line{window}, planes{form_.channels, window};
    if (form_.channels == 1) {
      if (auto dims = match_shape(line, input_)) return *dims;
    }
    // An open first dimension is the batch, not the channels.
    const bool batch_only = input_.shape && input_.shape->size() == 2 && input_.shape->front().value < 0;
    if (auto dims = batch_only ? std::nullopt : match_shape(planes, input_)) return *dims;
    // [2, samples] may be left and right of one sound.
    const bool stereo = input_.shape && input_.shape->size() == 2 && input_.shape->front().value == 2;
    if (!stereo && form_.channels == 1) check_batch(line, input_);
    if (!stereo) check_batch(planes, input_);
    throw Error(Code::kInvalidInput,
                fmt::format("[data] {}: windows of {} with {} channel{} found; the model input '{}' {} expected; give "
                            "--window, or files with as many channels; --log-mel, where it reads Whisper's mel bands",
                            files_.front().name, window, form_.channels, form_.channels == 1 ? "" : "s", input_.name,
                            shape_text(input_)));
  }

  std::vector<int64_t> log_mel_dims() const {
    const std::vector<int64_t> mel{bands_of(input_), form_.windows.window / kWhisperHop};
    const auto dims = match_shape(mel, input_);
    if (form_.channels == 1 && dims) return *dims;
    if (form_.channels == 1) check_batch(mel, input_);
    throw Error(
        Code::kInvalidInput,
        fmt::format("[data] {}: {} channel{}, {} frames of a window found; the model input '{}' {} and one channel "
                    "expected; mix the files down, or correct --window",
                    files_.front().name, form_.channels, form_.channels == 1 ? "" : "s", mel.back(), input_.name,
                    shape_text(input_)));
  }

  // One channel after the other; zeros before and behind the file.
  template <class T>
  std::vector<T> planes(const std::vector<T>& frames, int64_t window, int64_t before) const {
    const auto channels = static_cast<size_t>(form_.channels), width = static_cast<size_t>(window);
    std::vector<T> values(channels * width);
    for (size_t i = 0; i < frames.size(); ++i) {
      values[i % channels * width + static_cast<size_t>(before) + i / channels] = frames[i];
    }
    return values;
  }

  // A window: zeros, `count` frames of the file, zeros.
  struct Part {
    int64_t window = 0, before = 0, from = 0, count = 0;
  };

  Part part_of(const AudioFile& file, int64_t first) const {
    Part part{.window = form_.windows.window > 0 ? form_.windows.window : file.frames,
              .before = std::max<int64_t>(0, -first)};
    part.from = std::min(first + part.before, file.frames);
    part.count = std::max<int64_t>(0, std::min(part.window - part.before, file.frames - part.from));
    return part;
  }

  Tensor mask(const Part& part) const {
    std::vector<int64_t> values(static_cast<size_t>(part.window));
    std::fill_n(values.begin() + part.before, part.count, 1);
    return token_row(std::move(values), 2, mask_->type, mask_->name);
  }

  Tensor sound(const AudioFile& file, const Part& part) const {
    const auto [window, before, from, count] = part;
    SoundFile sound(file.path);
    const std::vector<int64_t> dims = sample_dims(window);
    if (input_.type == DataType::kInt16) {
      return Tensor::from(DataType::kInt16, dims, planes(sound.read_int16(from, count), window, before));
    }
    std::vector<float> read = sound.read_floats(from, count);
    if (form_.windows.normalize && form_.masked) normalize(read);
    std::vector<float> values = planes(read, window, before);
    if (form_.windows.normalize && !form_.masked) normalize(values);
    if (form_.windows.log_mel) values = whisper_log_mel(values, bands_of(input_));
    return convert(Tensor::from(DataType::kFloat, dims, std::move(values)), input_.type, file.name);
  }

  std::vector<AudioFile> files_;
  std::vector<Place> places_;
  Form form_;
  ValueInfo input_;
  std::optional<ValueInfo> mask_;
  bool mask_first_;
  bool has_labels_;
};

// Opens every file once: all have the same form.
Form look_at(std::vector<AudioFile>& files, AudioWindows windows) {
  Form form{windows};
  for (AudioFile& file : files) {
    const SoundFile sound(file.path);
    if (form.windows.rate == 0) form.windows.rate = sound.rate();
    if (form.channels == 0) form.channels = sound.channels();
    if (sound.rate() != form.windows.rate) {
      throw Error(Code::kInvalidInput,
                  fmt::format("[data] {}: a sample rate of {} Hz found; {} Hz expected; resample the file, or correct "
                              "--sample-rate",
                              file.path.string(), sound.rate(), form.windows.rate));
    }
    if (sound.channels() != form.channels) {
      throw Error(Code::kInvalidInput, fmt::format("[data] {}: {} channels found; {} as in {} expected; mix it down",
                                                   file.path.string(), sound.channels(), form.channels, files[0].name));
    }
    file.frames = sound.frames();
    if (file.frames == 0 && form.windows.window == 0)
      throw Error(
          Code::kInvalidInput,
          fmt::format("[data] {}: no sound found in it; some expected, as the model reads whole files; take the "
                      "file out of the folder, or give --window",
                      file.path.string()));
    file.windows = count_windows(file.frames, form.windows);
    file.size_bytes = fs::file_size(file.path);
  }
  return form;
}

}  // namespace

bool holds_audio(const fs::path& path) {
  if (!fs::is_directory(path)) return is_audio_name(path);
  const auto is_audio = [](const auto& entry) { return entry.is_regular_file() && is_audio_name(entry.path()); };
  if (std::any_of(fs::directory_iterator(path), fs::directory_iterator(), is_audio)) return true;
  return holds_no_images_but(path, is_audio_name);
}

namespace {

bool flag(const nlohmann::json& json, const char* name, bool otherwise) {
  const auto at = json.find(name);
  return at != json.end() && at->is_boolean() ? at->get<bool>() : otherwise;
}

}  // namespace

SoundExtractor with_extractor(const std::string& file, AudioWindows windows) {
  const auto fail = [&](const std::string& found) {
    throw Error(Code::kInvalidInput,
                fmt::format("[data] {}: {} found; the preprocessor_config.json of a Wav2Vec2FeatureExtractor or a "
                            "WhisperFeatureExtractor expected; save what the model reads as an .npz",
                            file, found));
  };
  if (!fs::is_regular_file(file)) fail("preprocessing of sound by that name, and no such file,");
  const nlohmann::json json = parse_json_if_any(read_file(file));
  if (!json.is_object()) fail("no JSON object");
  const auto text = json.find("feature_extractor_type");
  const std::string type = text != json.end() && text->is_string() ? text->get<std::string>() : "";
  if (type == "Wav2Vec2FeatureExtractor") windows.normalize = flag(json, "do_normalize", true);
  else if (type == "WhisperFeatureExtractor") windows.log_mel = true;
  else fail(type.empty() ? "no feature_extractor_type" : fmt::format("the extractor {}", type));
  if (const auto rate = json.find("sampling_rate"); windows.rate == 0)
    windows.rate = rate != json.end() && rate->is_number_integer() ? rate->get<int64_t>() : 16000;
  return {windows, flag(json, "return_attention_mask", false)};
}

std::unique_ptr<Dataset> open_audio(const fs::path& path, std::span<const ValueInfo> inputs,
                                    const DatasetOptions& options) {
  SoundExtractor extractor{.windows = options.audio};
  if (!options.preprocess.empty() && options.preprocess != "none")
    extractor = with_extractor(options.preprocess, options.audio);
  std::optional<Given> given = given_as(inputs, extractor.windows);
  if (!given) {
    std::vector<std::string_view> names;
    for (const ValueInfo& input : inputs) names.push_back(input.name);
    throw Error(Code::kInvalidInput, fmt::format("[data] {}: audio found for the inputs {}; one input expected, with "
                                                 "attention_mask where the model has it; give the others with --input "
                                                 "NAME=NUMBER, or --state OUTPUT=INPUT where they are recurrent states",
                                                 path.string(), fmt::join(names, ", ")));
  }
  std::vector<AudioFile> files = list_files(path, options.labels);
  tell_kinds(files);
  Form form = look_at(files, windows_of(given->sound, extractor.windows, options.constants));
  form.masked = extractor.masked;
  std::vector<Place> all, places;
  for (size_t f = 0; f < files.size(); ++f) {
    for (int64_t w = 0; w < files[f].windows; ++w) all.push_back({f, w, std::ssize(all)});
  }
  for (const int64_t i :
       select(static_cast<int64_t>(all.size()), options, [&](int64_t window) { return kind_of(files, all[window]); }))
    places.push_back(all[i]);
  const bool has_labels =
      is_label_table(options.labels) && std::ranges::any_of(files, [](const AudioFile& f) { return f.label >= 0; });
  return std::make_unique<AudioDataset>(std::move(files), std::move(places), form, std::move(*given), has_labels);
}

}  // namespace seqto::internal
