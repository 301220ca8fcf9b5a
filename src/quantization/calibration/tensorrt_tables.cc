// TensorRT's calibration tables, as onnxruntime's write_calibration_table makes them.
#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "base/files.h"
#include "quantization/calibration/ranges.h"

namespace seqto {
namespace {

// Just enough of FlatBuffers for `table TrtTable { dict: [KeyValue]; } table KeyValue { key: string; value: string; }`.
// A buffer is built from its end, so bytes are kept in reverse; an offset counts from the end.
class TableBuilder {
 public:
  uint32_t add_string(const std::string& text) {
    align(4, text.size() + 1);
    reversed_.push_back(0);
    reversed_.append(text.rbegin(), text.rend());
    put<uint32_t>(static_cast<uint32_t>(text.size()));
    return offset();
  }

  // A table whose fields are all references. Equal layouts share one vtable.
  uint32_t add_table(const std::vector<uint32_t>& fields) {
    const uint32_t end = offset();
    std::vector<uint16_t> layout;
    std::vector<uint32_t> ends;
    for (uint32_t field : fields) {
      put_reference(field);
      ends.push_back(offset());
    }
    align(4, 0);
    put<int32_t>(0);  // where the vtable is; filled in below
    const uint32_t table = offset();
    for (uint32_t e : ends) layout.push_back(static_cast<uint16_t>(table - e));
    layout.push_back(static_cast<uint16_t>(table - end));
    auto [known, is_new] = vtables_.try_emplace(layout, 0);
    if (is_new) {
      for (size_t i = fields.size(); i-- > 0;) put<uint16_t>(layout[i]);
      put<uint16_t>(layout.back());
      put<uint16_t>(static_cast<uint16_t>((fields.size() + 2) * sizeof(uint16_t)));
      known->second = offset();
    }
    const int32_t distance = static_cast<int32_t>(known->second) - static_cast<int32_t>(table);
    for (size_t b = 0; b < 4; ++b)
      reversed_[table - 1 - b] = static_cast<char>(static_cast<uint32_t>(distance) >> (8 * b));
    return table;
  }

  uint32_t add_vector(const std::vector<uint32_t>& items) {
    align(4, 4 * items.size());
    for (uint32_t item : items) put_reference(item);
    put<uint32_t>(static_cast<uint32_t>(items.size()));
    return offset();
  }

  std::string finish(uint32_t root) {
    align(4, 4);
    put_reference(root);
    return {reversed_.rbegin(), reversed_.rend()};
  }

 private:
  uint32_t offset() const { return static_cast<uint32_t>(reversed_.size()); }
  // Zeros, so that after `more` bytes a number of `size` bytes is aligned.
  void align(size_t size, size_t more) {
    while ((reversed_.size() + more) % size != 0) reversed_.push_back(0);
  }
  template <class T>
  void put(T value) {
    for (size_t b = sizeof(T); b-- > 0;)
      reversed_.push_back(static_cast<char>(static_cast<std::make_unsigned_t<T>>(value) >> (8 * b)));
  }
  void put_reference(uint32_t target) {
    align(4, 0);
    put<uint32_t>(offset() - target + 4);
  }

  std::string reversed_;
  std::map<std::vector<uint16_t>, uint32_t> vtables_;
};

// As Python writes a float.
std::string python_text(double value) {
  std::string text = fmt::format("{}", value);
  return text.find_first_of(".einf") == std::string::npos ? text + ".0" : text;
}

}  // namespace

void save_tensorrt_tables(const Ranges& ranges, const std::filesystem::path& prefix, CalibrationMethod method) {
  std::map<std::string, std::string> values;
  for (const auto& [tensor, range] : ranges)
    values[tensor] = python_text(static_cast<double>(std::max(range.highest, range.lowest)));
  TableBuilder builder;
  std::vector<uint32_t> entries;
  std::string lines;
  for (const auto& [tensor, value] : values) {
    uint32_t key = builder.add_string(tensor), text = builder.add_string(value);
    entries.push_back(builder.add_table({key, text}));
    lines += tensor + " " + value + "\n";
  }
  write_file_atomic(prefix.string() + ".json", internal::tensors_data(ranges, method).dump());
  write_file_atomic(prefix.string() + ".flatbuffers", builder.finish(builder.add_table({builder.add_vector(entries)})));
  write_file_atomic(prefix.string() + ".cache", lines);
}

}  // namespace seqto
