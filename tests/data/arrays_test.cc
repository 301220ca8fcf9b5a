// .npz and .npy against numpy's files (make_golden.py), conversion of elements, labels.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <map>

#include "base/files.h"
#include "data/convert.h"
#include "data/labels.h"
#include "data/npy.h"
#include "data/pictures.h"
#include "data/zip.h"
#include "seqto/dataset.h"

namespace seqto::internal {
namespace {

template <class T>
std::vector<T> values(const Tensor& tensor) {
  const auto span = tensor.values<T>();
  return {span.begin(), span.end()};
}

template <class T>
std::vector<T> counted() {  // numpy's arange(24)
  std::vector<T> result;
  for (int i = 0; i < 24; ++i) result.push_back(static_cast<T>(i));
  return result;
}

std::map<std::string, Tensor> by_name(const std::filesystem::path& path) {
  std::map<std::string, Tensor> result;
  for (const auto& [name, tensor] : load_arrays(path)) result[name] = tensor;
  return result;
}

TEST(LoadArrays, ReadsWhatNumpyStores) {
  auto arrays = by_name(golden("stored.npz"));
  ASSERT_EQ(arrays.size(), 2U);
  EXPECT_EQ(arrays["x"].type(), DataType::kFloat);
  EXPECT_EQ(arrays["x"].dims(), (std::vector<int64_t>{2, 3, 4}));
  EXPECT_EQ(values<float>(arrays["x"]), counted<float>());
  EXPECT_EQ(values<int64_t>(arrays["y"]), (std::vector<int64_t>{3, 1}));
}

TEST(LoadArrays, ReadsEveryTypeCompressed) {
  auto arrays = by_name(golden("types.npz"));
  EXPECT_EQ(values<uint16_t>(arrays["f2"]), (std::vector<uint16_t>{0, 0x3c00, 0xc100, 0x7bff, 1, 0x7c00}));
  EXPECT_EQ(arrays["f4"].dims(), std::vector<int64_t>{});
  EXPECT_EQ(values<float>(arrays["f4"]), std::vector<float>{1.5f});
  EXPECT_EQ(values<double>(arrays["f8"]), std::vector<double>{0.1});
  EXPECT_EQ(values<int8_t>(arrays["i1"]), (std::vector<int8_t>{-128, 127}));
  EXPECT_EQ(values<int16_t>(arrays["i2"]), std::vector<int16_t>{-32768});
  EXPECT_EQ(values<int32_t>(arrays["i4"]), std::vector<int32_t>{std::numeric_limits<int32_t>::min()});
  EXPECT_EQ(values<int64_t>(arrays["i8"]),
            (std::vector<int64_t>{std::numeric_limits<int64_t>::min(), std::numeric_limits<int64_t>::max()}));
  EXPECT_EQ(values<uint8_t>(arrays["u1"]), std::vector<uint8_t>{255});
  EXPECT_EQ(values<uint16_t>(arrays["u2"]), std::vector<uint16_t>{65535});
  EXPECT_EQ(values<uint32_t>(arrays["u4"]), std::vector<uint32_t>{4294967295U});
  EXPECT_EQ(values<uint64_t>(arrays["u8"]), std::vector<uint64_t>{std::numeric_limits<uint64_t>::max()});
  EXPECT_EQ(arrays["b1"].type(), DataType::kBool);
  EXPECT_EQ(values<uint8_t>(arrays["b1"]), (std::vector<uint8_t>{1, 0}));
  EXPECT_EQ(arrays["none"].dims(), (std::vector<int64_t>{0, 3}));
  EXPECT_EQ(arrays["fortran"].dims(), (std::vector<int64_t>{2, 3, 4}));
  EXPECT_EQ(values<int32_t>(arrays["fortran"]), counted<int32_t>());
}

TEST(LoadArrays, ReadsNpyOfAllVersions) {
  EXPECT_EQ(load_arrays(golden("plain.npy")).at(0).name, "");
  EXPECT_EQ(values<double>(load_arrays(golden("plain.npy"))[0].tensor), counted<double>());
  EXPECT_EQ(values<uint8_t>(load_arrays(golden("version2.npy"))[0].tensor), counted<uint8_t>());
  EXPECT_EQ(values<uint8_t>(load_arrays(golden("version3.npy"))[0].tensor), counted<uint8_t>());
}

TEST(LoadArrays, SaysWhatItCannotRead) {
  EXPECT_PRED2(says, error_of([] { load_arrays(golden("odd.npz")); }), "big: the element type >f4 found");
  EXPECT_PRED2(says, error_of([] { load_arrays(golden("rgb.png")); }), "neither an .npz nor an .npy");
  const Folder folder("seqto-arrays");
  const std::string empty(22, '\0');
  EXPECT_PRED2(says, error_of([&] { load_arrays(folder.write("empty.npz", "PK\5\6" + empty.substr(4))); }),
               "no arrays");
  const auto npy = [](std::string_view header) {
    return "\x93NUMPY\1" + std::string(1, '\0') + static_cast<char>(header.size()) + std::string(1, '\0') +
           std::string(header);
  };
  const auto words = [&](std::string_view header) {
    return error_of([&] { load_arrays(folder.write("a.npy", npy(header) + "12345678")); });
  };
  EXPECT_EQ(words("{'descr': '<f4', 'fortran_order': False, 'shape': (2,), }"), "");
  EXPECT_PRED2(says, words("{'descr': '<f4', 'fortran_order': False, 'shape': (3,), }"), "8 bytes of 12 found");
  EXPECT_PRED2(says, words("{'descr': '<f4', 'fortran_order': False, 'shape': (-3,), }"), "a broken shape");
  EXPECT_PRED2(says, words("{'descr': '<f4', 'fortran_order': False, 'shape': (4294967296, 4294967296), }"),
               "broken shape");
  EXPECT_PRED2(says, words("{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (1,), }"), "records");
  EXPECT_PRED2(says, words("{'descr': '|O', 'fortran_order': False, 'shape': (1,), }"), "|O");
  EXPECT_PRED2(says, words("{'descr': '<f4', 'shape': (1,), }"), "without fortran_order");
  EXPECT_PRED2(says, words("{"), "without descr");
  EXPECT_PRED2(says, error_of([&] { load_arrays(folder.write("b.npy", npy("{}").substr(0, 9))); }), "header cut short");
}

// Whatever byte is missing or wrong: an error or other numbers, never a crash.
TEST(LoadArrays, SurvivesDamage) {
  const auto load = [](std::string_view file) {
    const auto bytes = std::as_bytes(std::span(file));
    if (is_npy(bytes)) return static_cast<void>(parse_npy(bytes, "f"));
    for (const ZipMember& member : list_zip(bytes, "f")) {
      std::vector<std::byte> storage;
      parse_npy(read_member(bytes, member, "f", storage), member.name);
    }
  };
  for (const char* name : {"types.npz", "stored.npz", "version2.npy"}) {
    const std::string whole = read_file(golden(name));
    for (size_t i = 0; i < whole.size(); ++i) {
      std::string changed = whole;
      changed[i] = static_cast<char>(~changed[i]);
      error_of([&] { load(changed); });
      EXPECT_PRED2(says, error_of([&] { load(std::string_view(whole).substr(0, i)); }), "[data]") << name << " " << i;
    }
  }
}

TEST(SaveNpz, ReadsBackAsWritten) {
  const Folder folder("seqto-save");
  const std::vector<Initializer> arrays = {{"out/put 1", float_tensor({2, 2}, {1, -2, NAN, 0})},
                                           {"scalar", int64_tensor({}, {7})},
                                           {"empty", float_tensor({0, 3}, {})},
                                           {"half", Tensor::from<uint16_t>(DataType::kFloat16, {1}, {0x3c00})},
                                           {"bool", Tensor::from<uint8_t>(DataType::kBool, {2}, {1, 0})}};
  save_npz(folder.path / "a.npz", arrays);
  const std::vector<Initializer> read = load_arrays(folder.path / "a.npz");
  ASSERT_EQ(read.size(), arrays.size());
  for (size_t i = 0; i < read.size(); ++i) {
    EXPECT_EQ(read[i].name, arrays[i].name);
    EXPECT_TRUE(read[i].tensor.equals(arrays[i].tensor)) << read[i].name;
  }
  save_npz(folder.path / "b.npz", arrays);
  EXPECT_EQ(read_file(folder.path / "a.npz"), read_file(folder.path / "b.npz"));
  const std::vector<Initializer> bfloat = {{"w", Tensor::from<uint16_t>(DataType::kBfloat16, {1}, {0})}};
  EXPECT_PRED2(says, error_of([&] { save_npz(folder.path / "c.npz", bfloat); }), "w: elements of type bfloat16");
}

// As numpy's reader expects: without the flag names are of another character set.
TEST(Zip, NamesBeyondAsciiAreMarkedAsUtf8) {
  const Folder folder("seqto-names");
  save_npz(folder.path / "a.npz", {{{"größe", float_tensor({1}, {1})}}});
  save_npz(folder.path / "b.npz", {{{"size", float_tensor({1}, {1})}}});
  EXPECT_EQ(read_file(folder.path / "a.npz")[7] & 0x08, 0x08);
  EXPECT_EQ(read_file(folder.path / "b.npz")[7], 0);
}

TEST(Zip, LargeFormatReadsBackToo) {
  const std::vector<ZipSource> sources = {{"a.npy", "head", "body"}, {"b", "", ""}};
  std::vector<std::string> storage;
  std::string archive;
  for (const std::string_view piece : write_zip(sources, storage, true)) archive += piece;
  const auto bytes = std::as_bytes(std::span<const char>(archive));
  const std::vector<ZipMember> members = list_zip(bytes, "f");
  ASSERT_EQ(members.size(), 2U);
  EXPECT_EQ(members[0].bytes, 8U);
  std::vector<std::byte> unused;
  const auto content = read_member(bytes, members[0], "f", unused);
  EXPECT_EQ(std::string(reinterpret_cast<const char*>(content.data()), content.size()), "headbody");
}

TEST(Convert, HalvesAreNumpys) {
  const struct {
    float value;
    uint16_t bits;
  } kCases[] = {{0, 0},
                {-0.0f, 0x8000},
                {1, 0x3c00},
                {-2.5f, 0xc100},
                {65504, 0x7bff},
                {65519, 0x7bff},
                {65520, 0x7c00},
                {1.0f + 0x1p-11f, 0x3c00},
                {1.0f + 0x3p-11f, 0x3c02},
                {0x1p-24f, 1},
                {0x1p-25f, 0},
                {0x1.8p-25f, 1},
                {0x1.ff8p-15f, 0x3ff},
                {0x1.ffcp-15f, 0x400},
                {INFINITY, 0x7c00}};
  for (const auto& [value, bits] : kCases) EXPECT_EQ(to_half(value), bits) << value;
  for (uint32_t bits = 0; bits < 0x7c00; ++bits) ASSERT_EQ(to_half(from_half(static_cast<uint16_t>(bits))), bits);
  EXPECT_TRUE(std::isnan(from_half(to_half(NAN))));
}

TEST(Convert, KeepsValuesOrSaysWhichDoesNotFit) {
  const Tensor doubles = Tensor::from<double>(DataType::kDouble, {3}, {1, -2, 0.1});
  EXPECT_EQ(values<float>(convert(doubles, DataType::kFloat, "a")), (std::vector<float>{1, -2, 0.1f}));
  EXPECT_PRED2(says, error_of([&] { convert(doubles, DataType::kInt64, "f.npz, x"); }),
               "f.npz, x: the value 0.1 found");
  const Tensor longs = int64_tensor({2}, {255, 256});
  EXPECT_PRED2(says, error_of([&] { convert(longs, DataType::kUint8, "x"); }),
               "the value 256 found; the model reads uint8");
  EXPECT_EQ(values<int32_t>(convert(longs, DataType::kInt32, "x")), (std::vector<int32_t>{255, 256}));
  EXPECT_EQ(values<uint8_t>(convert(longs, DataType::kBool, "x")), (std::vector<uint8_t>{1, 1}));
  EXPECT_PRED2(says, error_of([] { convert(float_tensor({1}, {NAN}), DataType::kInt32, "x"); }), "nan");
  EXPECT_PRED2(says, error_of([] { convert(float_tensor({1}, {1e19f}), DataType::kInt64, "x"); }), "9.99");
  EXPECT_PRED2(says, error_of([] { convert(float_tensor({1}, {1}), DataType::kString, "x"); }), "float32 found");
}

TEST(Labels, ReadsCsvAsSpreadsheetsWriteIt) {
  const Folder folder("seqto-labels");
  const auto rows =
      read_labels(folder.write("a.csv", "\xef\xbb\xbflabel,other,file\r\n3,x,\"b, \"\"1\"\".png\"\r\n\r\n 4 ,,a.png"));
  ASSERT_EQ(rows.size(), 2U);
  EXPECT_EQ(rows[0].file, "b, \"1\".png");
  EXPECT_EQ(rows[0].label, 3);
  EXPECT_EQ(rows[1].file, "a.png");
  EXPECT_EQ(rows[1].label, 4);
  EXPECT_EQ(rows[1].line, 4);
}

TEST(Labels, ErrorsNameTheLine) {
  const Folder folder("seqto-label-errors");
  const auto words = [&](const char* text) { return error_of([&] { read_labels(folder.write("l.csv", text)); }); };
  EXPECT_PRED2(says, words(""), "no rows");
  EXPECT_PRED2(says, words("file,label\n"), "no rows");
  EXPECT_PRED2(says, words("name,label\na.png,1\n"), "add the column file");
  EXPECT_PRED2(says, words("file,class\na.png,1\n"), "add the column label");
  EXPECT_PRED2(says, words("file,label\na.png,1\nb.png\n"), "line 3: no label");
  EXPECT_PRED2(says, words("file,label\na.png,\n"), "line 2: no label found for a.png");
  EXPECT_PRED2(says, words("file,label\na.png,cat\n"), "line 2: the label \"cat\"");
  EXPECT_PRED2(says, words("file,label\na.png,1.5\n"), "line 2");
  EXPECT_PRED2(says, words("file,label\na.png,-7\n"), "line 2");
  EXPECT_PRED2(says, words("file,label\na.png,1\na.png,2\n"), "line 3: a.png found again, first on line 2");
  EXPECT_PRED2(says, error_of([] { read_labels("/nowhere/l.csv"); }), "/nowhere/l.csv");
}

}  // namespace
}  // namespace seqto::internal
