#include "data/targets.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>

#include "base/files.h"
#include "base/hash.h"
#include "data/arrays.h"
#include "data/boxes.h"
#include "data/labels.h"
#include "data/shapes.h"
#include "seqto/error.h"

namespace seqto::internal {
namespace {

namespace fs = std::filesystem;

// What tells a sample's truth; one of many forms.
class Truths {
 public:
  virtual ~Truths() = default;
  virtual void add_to(Sample& sample, int64_t row) const = 0;
};

// A window's name is its file's with the window's number behind it.
std::string file_of(const std::string& name) { return name.ends_with(']') ? name.substr(0, name.rfind('[')) : name; }

class TableTargets : public Truths {
 public:
  explicit TableTargets(std::vector<LabelRow> rows) {
    for (LabelRow& row : rows) rows_.emplace(row.file, std::move(row));
  }
  void add_to(Sample& sample, int64_t /*row*/) const override {
    const auto found = rows_.find(file_of(sample.name));
    if (found == rows_.end()) return;
    sample.target = found->second.target;
    // Of a part of a file nobody knows which of the words are said there.
    if (found->first == sample.name) sample.transcript = found->second.transcript;
  }

 private:
  std::map<std::string, LabelRow> rows_;
};

class ArrayTargets : public Truths {
 public:
  ArrayTargets(const ArrayFile& file, const std::string& name) : file_(file.file()), array_(file.load(name)) {
    if (array_.type() == DataType::kString || array_.dims().empty())
      throw Error(Code::kInvalidInput,
                  fmt::format("[data] {}: targets of shape {} found; an array of numbers expected whose first axis "
                              "counts the samples",
                              file_, shape_text(array_.dims())));
  }
  void add_to(Sample& sample, int64_t row) const override {
    const int64_t rows = array_.dims()[0];
    if (row >= rows)
      throw Error(Code::kInvalidInput,
                  fmt::format("[data] {}: {} targets found, none for sample '{}'; one for each sample expected, in "
                              "the data set's order",
                              file_, rows, sample.name));
    const int64_t size = array_.element_count() / rows;
    sample.target.resize(static_cast<size_t>(size));
    for (int64_t i = 0; i < size; ++i) sample.target[i] = static_cast<float>(element(array_, row * size + i));
  }

 private:
  std::string file_;
  Tensor array_;
};

class CocoBoxes : public Truths {
 public:
  CocoBoxes(const fs::path& file, const fs::path& data) : data_(read_coco(file)) {
    std::error_code error;
    const auto is_there = [&](const auto& image) { return fs::exists(data / image.first, error); };
    if (data_.boxes.empty() || !fs::is_directory(data) || std::ranges::any_of(data_.boxes, is_there)) return;
    throw Error(Code::kInvalidInput,
                fmt::format("[data] {}: {} names of files as \"{}\" found, none of them in {}; names as seen from that "
                            "folder expected; give the folder that they are in, or correct \"file_name\"",
                            file.string(), data_.boxes.size(), data_.boxes.begin()->first, data.string()));
  }
  void add_to(Sample& sample, int64_t /*row*/) const override {
    const auto found = data_.boxes.find(sample.name);
    if (found == data_.boxes.end()) return;
    sample.boxes = found->second;
    sample.classes = data_.classes;
  }

 private:
  CocoData data_;
};

class YoloBoxes : public Truths {
 public:
  explicit YoloBoxes(fs::path folder) : folder_(std::move(folder)) {}
  void add_to(Sample& sample, int64_t /*row*/) const override {
    const fs::path file = fs::path(sample.name).replace_extension(".txt");
    sample.boxes = read_yolo(folder_ / (fs::exists(folder_ / file) ? file : file.filename()));
  }

 private:
  fs::path folder_;
};

// The text files beside the images of a data.yaml.
class DescribedBoxes : public Truths {
 public:
  explicit DescribedBoxes(YoloData data) : data_(std::move(data)) {}
  void add_to(Sample& sample, int64_t /*row*/) const override {
    sample.boxes = read_yolo(yolo_labels_of(data_.root / sample.name), data_.keypoints);
    sample.classes = data_.classes;
  }

 private:
  YoloData data_;
};

std::unique_ptr<Truths> array_truths(const fs::path& path) {
  const ArrayFile file(path);
  if (file.has("y")) return std::make_unique<ArrayTargets>(file, "y");
  if (file.names().size() == 1) return std::make_unique<ArrayTargets>(file, file.names()[0]);
  throw Error(Code::kInvalidInput, fmt::format("[data] {}: the arrays {} found; an array y of targets expected; rename "
                                               "one of them",
                                               path.string(), fmt::join(file.names(), ", ")));
}

// Boxes are of the whole image; what is cut off would have to be cut off them as well.
void refuse_crop(const std::string& boxes, const DatasetOptions& options) {
  if (options.preprocess.empty()) return;
  const Preprocess recipe = load_preprocess(options.preprocess);
  if (recipe.crop > 0)
    throw Error(Code::kInvalidInput,
                fmt::format("[data] {}: boxes found, and preprocessing that crops to {} pixels; boxes are of the whole "
                            "image; use \"resize\" with \"width\" and \"height\" instead",
                            boxes, recipe.crop));
}

std::unique_ptr<Truths> truths_of(const fs::path& path, std::span<const ValueInfo> inputs,
                                  const DatasetOptions& options) {
  const fs::path labels = options.labels;
  if (is_yolo_data(path)) {
    if (!labels.empty())
      throw Error(Code::kUsage,
                  fmt::format("[data] labels {} beside {} found; the labels of such data lie in the folder "
                              "labels beside images; give the folder of images instead to use others",
                              options.labels, path.string()));
    YoloData data = read_yolo_data(path);
    if (yolo_label_folders(data).empty()) return nullptr;
    refuse_crop(path.string(), options);
    return std::make_unique<DescribedBoxes>(std::move(data));
  }
  if (is_label_table(options.labels)) {
    std::vector<LabelRow> rows = read_labels(labels);
    if (rows[0].target.empty() && !rows[0].transcript) return nullptr;
    return std::make_unique<TableTargets>(std::move(rows));
  }
  if (fs::is_directory(labels)) {
    refuse_crop(options.labels, options);
    return std::make_unique<YoloBoxes>(labels);
  }
  if (labels.extension() == ".json") {
    refuse_crop(options.labels, options);
    return std::make_unique<CocoBoxes>(labels, path);
  }
  if (!labels.empty()) return array_truths(labels);
  const bool is_input = std::ranges::any_of(inputs, [](const ValueInfo& input) { return input.name == "y"; });
  if (path.extension() != ".npz" || is_input) return nullptr;
  const ArrayFile file(path);
  if (!file.has("y")) return nullptr;
  const Tensor y = file.load("y");
  if (y.type() == DataType::kString || y.dims().empty()) return nullptr;
  return std::make_unique<ArrayTargets>(file, "y");
}

// Of all text files below the folder.
std::string hash_of_texts(const fs::path& folder) {
  std::vector<fs::path> files;
  for_each_file(folder, [&](const fs::path& file) {
    if (file.extension() == ".txt") files.push_back(file);
    return true;
  });
  std::ranges::sort(files);
  std::string text;
  for (const fs::path& file : files)
    text += fmt::format("{}\t{}\n", file.lexically_relative(folder).string(), sha256_file(file));
  return sha256_hex(text);
}

// "": the fingerprint of the data covers the truth.
std::string hash_of_truths(const fs::path& data, const fs::path& labels) {
  if (is_yolo_data(data)) {
    std::string text;
    for (const fs::path& folder : yolo_label_folders(read_yolo_data(data))) text += hash_of_texts(folder);
    return sha256_hex(text);
  }
  if (labels.empty()) return {};
  return fs::is_directory(labels) ? hash_of_texts(labels) : sha256_file(labels);
}

class TargetDataset : public Dataset {
 public:
  TargetDataset(std::unique_ptr<Dataset> data, std::unique_ptr<Truths> truths, std::string own_hash)
      : data_(std::move(data)), truths_(std::move(truths)), own_hash_(std::move(own_hash)) {}

  int64_t size() const override { return data_->size(); }
  bool has_labels() const override { return data_->has_labels(); }
  bool is_random() const override { return data_->is_random(); }
  SampleKind kind(int64_t index) const override { return data_->kind(index); }

  Sample read(int64_t index) const override {
    Sample sample = data_->read(index);
    truths_->add_to(sample, data_->row(index));
    if (sample.boxes) place(*sample.boxes, sample.picture);
    return sample;
  }

  std::string fingerprint() const override {
    return own_hash_.empty() ? data_->fingerprint() : sha256_hex(data_->fingerprint() + "\n" + own_hash_);
  }

 private:
  // Shares of the image become those of the input that it lies in.
  static void place(std::vector<Box>& boxes, const Box& picture) {
    const float width = picture.right - picture.left, height = picture.bottom - picture.top;
    for (Box& box : boxes) {
      box.left = picture.left + box.left * width, box.right = picture.left + box.right * width;
      box.top = picture.top + box.top * height, box.bottom = picture.top + box.bottom * height;
      for (Keypoint& point : box.pose.points)
        point.x = picture.left + point.x * width, point.y = picture.top + point.y * height;
      for (Outline& outline : box.outlines)
        for (Corner& c : outline) c.x = picture.left + c.x * width, c.y = picture.top + c.y * height;
      box.pose.area *= width * height;
      box.pose.aspect *= height / width;
    }
  }

  std::unique_ptr<Dataset> data_;
  std::unique_ptr<Truths> truths_;
  std::string own_hash_;  // empty: the fingerprint of the data covers them
};

}  // namespace

std::unique_ptr<Dataset> with_targets(std::unique_ptr<Dataset> data, const fs::path& path,
                                      std::span<const ValueInfo> inputs, const DatasetOptions& options) {
  auto truths = truths_of(path, inputs, options);
  if (!truths) return data;
  return std::make_unique<TargetDataset>(std::move(data), std::move(truths), hash_of_truths(path, options.labels));
}

}  // namespace seqto::internal
