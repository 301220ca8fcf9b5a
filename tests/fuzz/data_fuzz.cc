// Files of data: arrays, ONNX's test data, images, sound, labels and boxes.
#include "data/boxes.h"
#include "data/decode_image.h"
#include "data/labels.h"
#include "fuzz/targets.h"
#include "seqto/dataset.h"
#include "seqto/improve.h"
#include "seqto/metrics.h"

namespace seqto::fuzz {
namespace {

// As a model with these inputs reads it: all samples, but of thousands the first.
void read_all(const std::filesystem::path& path, const char* inputs, const DatasetOptions& options = {}) {
  refusing([&] {
    const Model model = parse_model_text(std::string("<ir_version: 8, opset_import: [\"\" : 17]> g (") + inputs +
                                         ") => (float[4] y) { y = Neg(x) }");
    const auto data = open_dataset(path, model.graph.free_inputs(), options);
    for (int64_t i = 0; i < std::min<int64_t>(data->size(), 4); ++i) data->read(i);
    data->fingerprint();
  });
}

}  // namespace

void read_arrays(std::string_view bytes) {
  const bool npy = bytes.starts_with("\x93NUMPY");
  const auto path = file(npy ? "x.npy" : "x.npz", bytes);
  refusing([&] { save_npz(folder() / "copy.npz", load_arrays(path)); });
  refusing([&] { load_corrections(path); });
  read_all(path, "float[1,2] x");
  read_all(path, "int64[N,3] x");
}

void read_tensor(std::string_view bytes) {
  refusing([&] { element(parse_tensor(bytes, "x.pb").tensor, 0); });
  std::filesystem::create_directories(folder() / "test_data_set_0");
  file("test_data_set_0/input_0.pb", bytes);
  read_all(folder() / "test_data_set_0", "float[1,2] x");
}

void read_image(std::string_view bytes) {
  refusing([&] { internal::decode_image(bytes, "image"); });
}

void read_sound(std::string_view bytes) {
  const auto path = file("x.wav", bytes);
  read_all(path, "float[1,64] x");
  read_all(path, "float[1,8,4] x", {.audio = {.log_mel = true}});
  read_all(path, "float[1,N] x", {.audio = {.normalize = true}});
}

void read_labels(std::string_view bytes) {
  refusing([&] { internal::read_labels(file("labels.csv", bytes)); });
  refusing([&] { internal::read_coco(file("boxes.json", bytes)); });
  file("image.txt", bytes);
  refusing([&] { internal::read_yolo(folder() / "image.txt"); });
  refusing([&] { internal::read_yolo_data(file("data.yaml", bytes)); });
  const std::string vocabulary = file("vocab.json", bytes);
  for (const char* kind : {"wer=", "map50=", "nme="}) refusing([&] { make_metrics({.metrics = {kind + vocabulary}}); });
}

}  // namespace seqto::fuzz
