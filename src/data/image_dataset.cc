// A folder of images as a data set: decoded, resized, cropped, kept as 8-bit pixels, given out as values.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <mutex>
#include <system_error>

#include "base/files.h"
#include "base/hash.h"
#include "base/text.h"
#include "data/boxes.h"
#include "data/convert.h"
#include "data/datasets.h"
#include "data/labels.h"
#include "data/preprocess.h"
#include "data/resize.h"
#include "data/select.h"
#include "data/shapes.h"
#include "seqto/error.h"

namespace seqto::internal {
namespace {

struct ImageFile {
  std::string name;  // relative to the folder
  int64_t label = -1;
  uint64_t size_bytes = 0;
  int64_t position = 0;  // among all that are there
  std::string kind{};    // Dataset::kind
};

void add_images(const std::filesystem::path& folder, const std::filesystem::path& within,
                std::vector<ImageFile>& files) {
  for (const auto& entry : std::filesystem::directory_iterator(folder / within)) {
    if (!entry.is_regular_file() || !is_image_name(entry.path())) continue;
    files.push_back({(within / entry.path().filename()).string(), -1, entry.file_size()});
  }
}

// The images of a folder, or where it holds none those of its folders: one a class.
std::vector<ImageFile> list_folder(const std::filesystem::path& folder) {
  std::vector<ImageFile> files;
  add_images(folder, {}, files);
  if (files.empty())
    for (const auto& entry : std::filesystem::directory_iterator(folder))
      if (entry.is_directory() && !entry.path().filename().string().starts_with('.'))
        add_images(folder, entry.path().filename(), files);
  if (files.empty()) {
    throw Error(Code::kInvalidInput,
                fmt::format("[data] {}: no images found; .jpg, .jpeg or .png files in the folder, or in "
                            "folders of it, expected; correct the path",
                            folder.string()));
  }
  std::sort(files.begin(), files.end(), [](const ImageFile& a, const ImageFile& b) { return a.name < b.name; });
  return files;
}

std::vector<ImageFile> list_labelled(const std::filesystem::path& folder, const std::filesystem::path& labels) {
  std::vector<ImageFile> files;
  for (const LabelRow& row : read_labels(labels)) {
    std::error_code error;
    const bool there = std::filesystem::is_regular_file(folder / row.file, error);
    const uint64_t size = there ? std::filesystem::file_size(folder / row.file, error) : 0;
    if (!there || error) {
      throw Error(Code::kInvalidInput,
                  fmt::format("[data] {}, line {}: {} is not in {}; a file of the folder expected; correct "
                              "the line or the path of the data",
                              labels.string(), row.line, row.file, folder.string()));
    }
    files.push_back({row.file, row.label, size});
  }
  return files;
}

// Their names are paths as seen from the data's root.
std::vector<ImageFile> list_described(const YoloData& data) {
  std::vector<ImageFile> files;
  const auto add = [&](const std::filesystem::path& image, uint64_t size) {
    files.push_back({image.lexically_proximate(data.root).string(), -1, size});
  };
  for (const std::filesystem::path& folder : data.folders)
    for (const ImageFile& file : list_folder(folder)) add(folder / file.name, file.size_bytes);
  for (const std::filesystem::path& image : data.images) add(image, std::filesystem::file_size(image));
  return files;
}

// Pixels are whole numbers, which an input of integers reads as they are.
void require_whole(const std::array<std::vector<float>, 3>& values, DataType type, const std::string& input) {
  if (type == DataType::kFloat || type == DataType::kFloat16 || type == DataType::kBfloat16 ||
      type == DataType::kDouble)
    return;
  for (const std::vector<float>& table : values)
    for (const float value : table)
      if (value != std::nearbyint(value))
        throw Error(
            Code::kInvalidInput,
            fmt::format("[data] the model input '{}' of {}, and preprocessing to values as {:.3g}, found; whole "
                        "numbers expected; give --preprocess none, which keeps pixels from 0 to 255",
                        input, to_string(type), value));
}

// An image ready for the model, in the tensor's layout and channel order; only the values are still pixels.
struct Pixels {
  std::vector<int64_t> dims;
  std::vector<uint8_t> values;
  Box picture{0, 0, 1, 1};  // Sample::picture
};

size_t channels_of(const Preprocess& recipe) { return recipe.grey ? 1 : 3; }

// Luma in all three channels, rounded as Pillow does.
Image to_grey(Image image) {
  for (size_t i = 0; i + 2 < image.rgb.size(); i += 3) {
    uint8_t* pixel = &image.rgb[i];
    const uint32_t luma = (pixel[0] * 19595u + pixel[1] * 38470u + pixel[2] * 7471u + 0x8000u) >> 16;
    std::fill_n(pixel, 3, static_cast<uint8_t>(luma));
  }
  return image;
}

// Whether the model reads one channel where the recipe puts channels.
bool reads_grey(const ValueInfo& input, const Preprocess& recipe) {
  return input.shape && input.shape->size() == 4 && (*input.shape)[recipe.nhwc ? 3 : 1].value == 1;
}

// A letterbox without a size gets that of the model's input.
void size_letterbox(Preprocess& recipe, const ValueInfo& input) {
  if (recipe.fill < 0 || recipe.width > 0) return;
  const auto side = [&](size_t axis) {
    return input.shape && input.shape->size() == 4 ? (*input.shape)[axis].value : int64_t{-1};
  };
  const int64_t height = side(recipe.nhwc ? 1 : 2), width = side(recipe.nhwc ? 2 : 3);
  if (height < 1 || width < 1 || height > 65535 || width > 65535)
    throw Error(
        Code::kInvalidInput,
        fmt::format("[data] a letterbox without a size and the model input '{}' {} found; width and height from "
                    "1 to 65535 expected there; give a preprocess file with \"resize\": {{\"width\": ..., "
                    "\"height\": ..., \"fill\": {}}}",
                    input.name, shape_text(input), recipe.fill));
  recipe.width = static_cast<int>(width), recipe.height = static_cast<int>(height);
}

Pixels arrange(const Image& image, const Preprocess& recipe) {
  const size_t count = static_cast<size_t>(image.width) * image.height, channels = channels_of(recipe);
  const auto depth = static_cast<int64_t>(channels);
  Pixels pixels;
  pixels.dims = recipe.nhwc ? std::vector<int64_t>{1, image.height, image.width, depth}
                            : std::vector<int64_t>{1, depth, image.height, image.width};
  pixels.values.resize(count * channels);
  const size_t next_pixel = recipe.nhwc ? channels : 1, next_channel = recipe.nhwc ? 1 : count;
  for (size_t c = 0; c < channels; ++c) {
    const uint8_t* in = image.rgb.data() + (recipe.bgr ? 2 - c : c);
    uint8_t* out = pixels.values.data() + c * next_channel;
    for (size_t i = 0; i < count; ++i) out[i * next_pixel] = in[i * 3];
  }
  return pixels;
}

template <class T>
Tensor look_up(const Pixels& pixels, const std::array<Tensor, 3>& tables, const Preprocess& recipe) {
  const size_t total = pixels.values.size(), channels = channels_of(recipe), count = total / channels;
  // Not initialised: every element is written below, and a clear of the whole costs as much as the work itself.
  const std::shared_ptr<T[]> owner(new T[total]);
  const uint8_t* in = pixels.values.data();
  T* out = owner.get();
  const T* table[3] = {tables[0].values<T>().data(), tables[1].values<T>().data(), tables[2].values<T>().data()};
  if (recipe.nhwc && channels == 3) {
    for (size_t i = 0; i < count; ++i) {
      for (size_t c = 0; c < 3; ++c) out[3 * i + c] = table[c][in[3 * i + c]];
    }
  } else {
    for (size_t c = 0; c < channels; ++c) {
      for (size_t i = c * count; i < (c + 1) * count; ++i) out[i] = table[c][in[i]];
    }
  }
  return {tables[0].type(), pixels.dims, owner, std::as_bytes(std::span<const T>(out, total))};
}

struct ImageFolder {
  std::filesystem::path path;
  std::vector<ImageFile> files;
  bool has_labels = false;
};

class ImageDataset : public Dataset {
 public:
  ImageDataset(ImageFolder folder, const ValueInfo& input, Preprocess recipe, int64_t cache_bytes)
      : folder_(std::move(folder)),
        input_(input),
        recipe_(std::move(recipe)),
        cache_bytes_(cache_bytes),
        cache_(folder_.files.size()) {
    const DataType type = input.type == DataType::kUndefined ? DataType::kFloat : input.type;
    const std::array<std::vector<float>, 3> values = value_tables(recipe_);
    require_whole(values, type, input.name);
    for (size_t c = 0; c < 3; ++c) {
      tables_[c] = convert(float_table(values[c]), type, fmt::format("model input '{}'", input.name));
    }
    load(0);
  }

  int64_t size() const override { return static_cast<int64_t>(folder_.files.size()); }
  bool has_labels() const override { return folder_.has_labels; }
  SampleKind kind(int64_t index) const override { return {folder_.files[index].kind}; }
  int64_t row(int64_t index) const override { return folder_.files[static_cast<size_t>(index)].position; }

  Sample read(int64_t index) const override {
    const std::shared_ptr<const Pixels> pixels = load(index);
    const ImageFile& file = folder_.files[index];
    return {.inputs = {to_tensor(*pixels)},
            .label = file.label,
            .picture = pixels->picture,
            .name = file.name,
            .position = file.position};
  }

  std::string fingerprint() const override {
    std::string text = "images " + preprocess_to_json(recipe_) + (recipe_.truncates ? " truncated\n" : "\n");
    for (const ImageFile& file : folder_.files)
      text += fmt::format("{}\t{}\t{}\t{}\n", file.name, file.size_bytes, xxh3_of_pieces(folder_.path / file.name),
                          file.label);
    return sha256_hex(text);
  }

 private:
  static Tensor float_table(std::vector<float> values) {
    // Read before the move: the order in which arguments are made is not defined.
    const int64_t count = static_cast<int64_t>(values.size());
    return Tensor::from(DataType::kFloat, {count}, std::move(values));
  }

  Tensor to_tensor(const Pixels& pixels) const {
    switch (tables_[0].bytes().size() / 256) {
      case 1:
        return look_up<uint8_t>(pixels, tables_, recipe_);
      case 2:
        return look_up<uint16_t>(pixels, tables_, recipe_);
      case 4:
        return look_up<uint32_t>(pixels, tables_, recipe_);
      default:
        return look_up<uint64_t>(pixels, tables_, recipe_);
    }
  }

  // What is kept stays: the usual reader goes round all samples in order, where dropping the oldest would drop what
  // comes next.
  std::shared_ptr<const Pixels> load(int64_t index) const {
    {
      const std::lock_guard lock(mutex_);
      if (cache_[index]) return cache_[index];
    }
    const std::string name = (folder_.path / folder_.files[index].name).string();
    Image image = decode_image(read_file(name), name);
    if (recipe_.grey) image = to_grey(std::move(image));
    Box picture{0, 0, 1, 1};
    if (recipe_.fill >= 0) {
      picture = picture_in(within_letterbox(image.width, image.height, recipe_));
      image = letterbox(std::move(image), recipe_);
    } else {
      image = fit(std::move(image), recipe_, name);
    }
    Pixels arranged = arrange(image, recipe_);
    arranged.picture = picture;
    auto pixels = std::make_shared<const Pixels>(std::move(arranged));
    check_shape(pixels->dims, name);
    const std::lock_guard lock(mutex_);
    const auto bytes = static_cast<int64_t>(pixels->values.size());
    if (!cache_[index] && cached_bytes_ + bytes <= cache_bytes_) {
      cache_[index] = pixels;
      cached_bytes_ += bytes;
    }
    return pixels;
  }

  Box picture_in(const Window& at) const {
    const auto share = [](int pixels, int of) { return static_cast<float>(pixels) / static_cast<float>(of); };
    return {share(at.x, recipe_.width), share(at.y, recipe_.height), share(at.x + at.width, recipe_.width),
            share(at.y + at.height, recipe_.height)};
  }

  void check_shape(const std::vector<int64_t>& dims, const std::string& name) const {
    if (!input_.shape) return;
    const auto fits = [this](const std::vector<int64_t>& shape) {
      return input_.shape->size() == shape.size() && match_shape(shape, input_).has_value();
    };
    if (fits(dims)) return;
    check_batch(dims, input_);
    const std::vector<int64_t> swapped = recipe_.nhwc ? std::vector<int64_t>{1, dims[3], dims[1], dims[2]}
                                                      : std::vector<int64_t>{1, dims[2], dims[3], dims[1]};
    const std::string advice =
        fits(swapped) ? fmt::format("set \"layout\":\"{}\" in the preprocess file", recipe_.nhwc ? "nchw" : "nhwc")
                      : "give a preprocess file whose resize, crop and layout yield that shape";
    throw Error(Code::kInvalidInput,
                fmt::format("[data] {}: shape {} found after preprocessing; the model input '{}' {} expected; {}", name,
                            shape_text(dims), input_.name, shape_text(input_), advice));
  }

  ImageFolder folder_;
  ValueInfo input_;
  Preprocess recipe_;
  std::array<Tensor, 3> tables_;  // of the input's type, 256 entries each, by the tensor's channel

  int64_t cache_bytes_;
  mutable std::mutex mutex_;
  mutable std::vector<std::shared_ptr<const Pixels>> cache_;  // by index; guarded by mutex_, as is the next
  mutable int64_t cached_bytes_ = 0;
};

}  // namespace

bool holds_no_images_but(const std::filesystem::path& folder, bool (*is_one)(const std::filesystem::path&)) {
  bool found = false, images = false;
  for_each_file(folder, [&](const std::filesystem::path& file) {
    images |= is_image_name(file);
    found |= is_one(file);
    return !images;
  });
  return found && !images;
}

bool is_image_name(const std::filesystem::path& path) {
  const std::string extension = internal::lower(path.extension().string());
  const bool hidden = path.filename().string().starts_with('.');
  return !hidden && (extension == ".jpg" || extension == ".jpeg" || extension == ".png");
}

std::unique_ptr<Dataset> open_images(const std::filesystem::path& folder, std::span<const ValueInfo> inputs,
                                     const DatasetOptions& options) {
  if (inputs.size() > 1) {
    std::vector<std::string_view> names;
    for (const ValueInfo& input : inputs) names.push_back(input.name);
    throw Error(
        Code::kInvalidInput,
        fmt::format("[data] {}: a folder of images found; the model has {} inputs ({}); give an .npz with an array for "
                    "each of them, or --input NAME=NUMBER for those that never change",
                    folder.string(), inputs.size(), fmt::join(names, ", ")));
  }
  const bool described = is_yolo_data(folder);
  Preprocess recipe = load_preprocess(!options.preprocess.empty() ? options.preprocess : described ? "yolo" : "unit");
  recipe.grey |= reads_grey(inputs[0], recipe);
  size_letterbox(recipe, inputs[0]);
  const bool has_labels = is_label_table(options.labels);
  std::filesystem::path root = folder;
  std::vector<ImageFile> all;
  if (described) {
    const YoloData data = read_yolo_data(folder);
    all = list_described(data);
    root = data.root;
  } else {
    all = has_labels ? list_labelled(folder, options.labels) : list_folder(folder);
    tell_kinds(all);
  }
  std::vector<ImageFile> files;
  const auto kind_of = [&all](int64_t i) { return SampleKind{all[i].kind}; };
  for (const int64_t index : select(static_cast<int64_t>(all.size()), options, kind_of)) {
    all[index].position = index;
    files.push_back(all[index]);
  }
  return std::make_unique<ImageDataset>(ImageFolder{std::move(root), std::move(files), has_labels}, inputs[0],
                                        std::move(recipe), options.cache_bytes);
}

}  // namespace seqto::internal
