// Room: data. Real inputs in a fixed order, read one at a time, and their split into disjoint parts.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "seqto/env.h"
#include "seqto/model.h"

namespace seqto {

// An object in an image. Corners as shares of the image's width and height, so that resizing does not change them.
struct Keypoint {
  float x = 0, y = 0;     // shares of the input
  bool labelled = false;  // its place is known
  bool operator==(const Keypoint&) const = default;
};

// The keypoints of an object, in the order that the data set gives them.
struct Pose {
  std::vector<Keypoint> points;  // empty: not known
  float area = 0;                // of the object, as share of the input's; 0: not known
  float aspect = 0;              // the input's width over its height, in pixels of the picture; 0: not known
  bool operator==(const Pose&) const = default;
};

// A corner of a shape, as shares of the input.
struct Corner {
  float x = 0, y = 0;
  bool operator==(const Corner&) const = default;
};
using Outline = std::vector<Corner>;  // the corners one after the other, the last one joined to the first

struct Box {
  float left = 0, top = 0, right = 0, bottom = 0;
  int64_t label = 0;   // class index, from 0
  bool crowd = false;  // stands for many: finding it, or not, does not count
  Pose pose;
  int64_t category = -1;  // COCO's own number of the class; -1: not known
  // Of an object whose shape is known, one for each part of it; the box is the least one around them. Of a turned box
  // its four corners.
  std::vector<Outline> outlines;
  bool operator==(const Box&) const = default;
};

// One sample: a tensor for every model input, in the model's order, batch dimension of 1 included.
struct Sample {
  std::vector<Tensor> inputs;
  int64_t label = -1;  // class index; -1: none
  // The numbers that are to be predicted, flattened: of a regression, or coordinates of landmarks; empty: none.
  std::vector<float> target;
  std::optional<std::vector<Box>> boxes;  // the objects of an image, as shares of the input; absent: not known
  int64_t classes = 0;                    // of boxes, that the data name; 0: not known
  Box picture{0, 0, 1, 1};                // where in the input the whole image lies, as shares of it
  std::optional<std::string> transcript;  // what is said in a sound file; absent: not known
  // Of a sequence: which positions count, those that the input attention_mask, [1, positions], does not hide (empty:
  // all), and the token ids of these, from input_ids, [1, positions], or the only input of integers (empty: none).
  std::vector<char> counted;
  std::vector<int64_t> tokens;
  std::string name;  // file name or index
  // Where it stands: samples of one sequence (a file) follow each other by their positions. What is between two of them
  // was left out by the choice of samples.
  int64_t sequence = 0, position = 0;
  // The file that it is a window of, as others may be; -1: it stands alone. Intervals take those of one as alike.
  int64_t source = -1;
  // What the model answered where the data came from, by output name; empty: not known.
  std::vector<Initializer> expected;
};

// What is known of a sample without reading it.
struct SampleKind {
  std::string kind;       // its label, or the class that folder or name of its file tell; empty: not known
  int64_t sequence = -1;  // samples of one stay together, in their order; -1: it stands alone
};

// Thread-safe; read() may decode again each time or answer from a bounded cache.
class Dataset {
 public:
  virtual ~Dataset() = default;
  virtual int64_t size() const = 0;
  virtual Sample read(int64_t index) const = 0;
  virtual bool has_labels() const = 0;
  virtual SampleKind kind(int64_t index) const;
  // Its number among all that the source holds, of which these may be a selection: what targets in an array go by.
  virtual int64_t row(int64_t index) const { return index; }
  // Numbers made up by shape: sizes and latencies mean something, losses and ranges do not.
  virtual bool is_random() const { return false; }
  // SHA-256 over names, sizes, labels, preprocessing and pieces of the contents: tells one data set from another
  // without reading all of it.
  virtual std::string fingerprint() const = 0;
};

// value = (pixel * scale - mean) / std, pixels 0..255. See docs/reference/preprocess.md for the JSON form.
struct Preprocess {
  enum class Filter { kNearest, kBox, kBilinear, kBicubic, kLanczos };
  int short_side = 0;         // resize so that the shorter side has this many pixels; 0: not
  bool truncates = false;     // the longer side's, as transformers does it; else they are rounded half to even
  int width = 0, height = 0;  // resize to exactly this; 0: not
  // 0 to 255: the image keeps its proportions within width x height, in the middle, and what is left over holds this
  // (a letterbox). Without width and height the model's input says them. -1: not.
  int fill = -1;
  Filter filter = Filter::kBilinear;
  int crop = 0;       // centre crop to crop x crop; 0: not
  bool bgr = false;   // channel order of the tensor
  bool nhwc = false;  // layout of the tensor
  bool grey = false;  // one channel, luma as Pillow's "L"; without being asked where the model reads one channel
  float scale = 1.0f / 255.0f;
  std::vector<float> mean{0, 0, 0}, std{1, 1, 1};
};
// "imagenet", "yolo", "unit", "none" or the path of a JSON file: of these fields (docs/reference/preprocess.md), or the
// preprocessor_config.json of an image processor of transformers. Throws Error{kInvalidInput} naming the bad key.
Preprocess load_preprocess(const std::string& name_or_path);

// Audio is cut into windows, all of `window` samples. What is left at the end is dropped; a file that is shorter than
// one window gets zeros behind it.
struct AudioWindows {
  int64_t window = 0;  // 0: the last dimension of the model's input; where that is open, each file is one window
  int64_t hop = 0;     // from the start of one window to that of the next; 0: the window
  int64_t lead = 0;    // zeros before the file, for models that take the end of the window before along
  int64_t rate = 0;    // expected in Hz; 0: that of a constant input sr or sample_rate, else the first file's
  // Windows become what Whisper reads: [bands, window / 160] logarithms of mel energies, of files at 16 kHz. Their
  // window is 160 x the last dimension of the model's input, or 30 s where that is open. Bands: the dimension before
  // it.
  bool log_mel = false;
  bool normalize = false;  // each window to mean 0 and variance 1, as wav2vec2's extractor does
};

// Text files become token ids by the Python package tokenizers, in a child process of $SEQTO_PYTHON, else of python3.
// The text of a language model is cut into windows of `length` tokens, a file's last one shorter. Where the tokenizer
// puts a token behind each text, as [SEP], each line is a sample of at most so many tokens.
struct TextOptions {
  std::string tokenizer;  // tokenizer.json, or the folder that holds it
  static constexpr int64_t kLength = 128;
  // Where the model leaves it open; 0: 128, and of texts that a pair writes as many as its generation_config.json says.
  int64_t length = 0;
};

// A recurrent model's state: what an output gives is an input of the next sample. See carry_states() of runner.h.
struct StateLink {
  std::string output, input;
  bool operator==(const StateLink&) const = default;
};
// When the states are zero again.
struct StateReset {
  bool each_file = true;  // false: only before the first sample that is used
  int64_t samples = 0;    // also after so many samples of a file; 0: not
};

// Which samples come first where not all are taken.
enum class SampleOrder {
  kGiven,  // as the data set has them
  kMixed,  // drawn by the seed so that any number of the first is like all of them: mixed_order()
};
std::string_view to_string(SampleOrder order);          // "given", "mixed"
SampleOrder parse_sample_order(std::string_view name);  // throws Error{kInvalidInput}

struct DatasetOptions {
  // What is known of the samples (docs/guide/data.md): a CSV with the column file and label, or target, target_x ...
  // (its order is the order of the data set); an .npz or .npy of targets; boxes in COCO's JSON or in a folder of YOLO's
  // text files.
  std::string labels;
  // As load_preprocess() takes; empty: none for arrays, "unit" for images, "yolo" for those of a data.yaml. Of audio:
  // the preprocessor_config.json of wav2vec2's or Whisper's extractor, which sets rate, normalize and log_mel.
  std::string preprocess;
  int64_t samples = 0;  // the first so many by `order`, in the data set's own order; 0: all
  SampleOrder order = SampleOrder::kGiven;
  int64_t random_samples = 0;  // so many drawn without replacement, in the data set's order; 0: off
  uint64_t seed = 0;
  int64_t cache_bytes = 256 << 20;          // decoded images (8 bit) kept at most; arrays are always held
  std::map<std::string, int64_t> dims;      // sizes of open dimensions, as set_dimensions() takes them
  std::map<std::string, double> constants;  // inputs that are this number in every sample: {"sr", 16000}
  AudioWindows audio;
  TextOptions text;
  // Their inputs get no values but a mark that tells where in its sequence a sample stands; carry_states() reads it.
  std::vector<StateLink> states;
  StateReset state_reset;
};

// `path` is a folder of .jpg/.jpeg/.png images, the .yaml of a YOLO data set (with its labels), an .npz (array x and
// labels y, or one array per model input; first axis: samples), or an .npy. It may be a folder of ONNX's
// test_data_set_<n> (input_<n>.pb, output_<n>.pb), the word "random" (100 samples unless options.samples says more or
// fewer), audio (.wav, .flac, a folder of them) or text (.txt, .md, a folder of them). `inputs` are the model's inputs
// without initializers; where their batch is fixed, so many samples are one (docs/guide/data.md). Throws
// Error{kInvalidInput}: nothing there, folder empty, image unreadable, shape or channel mismatch (checked on the first
// sample at once). Also for labels that name missing files, several inputs but one array, or an open dimension of
// random inputs, no batch, without a size. Throws Error{kUsage}: dims or constants that fit no input, labels beside
// those of a .yaml.
std::unique_ptr<Dataset> open_dataset(const std::filesystem::path& path, std::span<const ValueInfo> inputs,
                                      const DatasetOptions& = {});

// `options`, and for what they leave open the files that exporters put beside a model: tokenizer.json for text,
// preprocessor_config.json of transformers for images and sound. They are looked for in the folder of `model`, and in
// the one above where it is called onnx. What is taken is logged. Throws Error{kInvalidInput} for what cannot be
// followed.
DatasetOptions with_files_beside(const std::filesystem::path& model, const std::filesystem::path& data,
                                 DatasetOptions options, const Env& env);

// The model with inputs that became constants, each this number: {"sr", 16000}. Branches that they decide go when the
// runtime optimizes it (prepare.h). Throws Error{kUsage} where there is no such input or a dimension is open.
Model with_constant_inputs(Model model, const std::map<std::string, double>& values);

// All indices, drawn by the seed. The first so many hold each kind of sample in its share: of a folder that is sorted
// by class, some of every class. Sequences stay together, in their order.
std::vector<int64_t> mixed_order(const Dataset& data, uint64_t seed = 0);
// Of the labels or classes that are known.
int64_t count_kinds(const Dataset& data);

// Indices into a Dataset; the parts never overlap and follow its order: calibration first, then
// search, then evaluation.
struct Split {
  std::vector<int64_t> calibration, search, evaluation;
  std::vector<std::string> notes;  // said where the data were too few for what was asked
};
struct SplitOptions {
  int64_t calibration = 128;
  int64_t search = 0;
  int64_t evaluation = 0;  // 0: all that is left
};
// Throws Error{kInvalidInput} with both figures when fewer samples exist than asked for.
Split split(int64_t size, const SplitOptions& = {});

// The arrays of an .npz/.npy by name ("" for .npy), and their writer (stored, not compressed).
std::vector<Initializer> load_arrays(const std::filesystem::path& path);
void save_npz(const std::filesystem::path& path, std::span<const Initializer> arrays);

}  // namespace seqto
