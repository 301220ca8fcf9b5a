// The order in which samples are taken where not all are: like the whole, the same every time, sequences kept together.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <ranges>

#include "data/pictures.h"
#include "data/select.h"

namespace seqto::internal {
namespace {

std::map<std::string, int> count(const std::vector<SampleKind>& kinds, std::span<const int64_t> of) {
  std::map<std::string, int> found;
  for (const int64_t i : of) ++found[kinds[static_cast<size_t>(i)].kind];
  return found;
}

TEST(MixedOrder, EveryBeginningIsLikeTheWhole) {
  std::vector<SampleKind> kinds;  // sorted by class: 100 of a, 100 of b, 50 of c
  for (int i = 0; i < 250; ++i) kinds.push_back({i < 100 ? "a" : i < 200 ? "b" : "c"});
  const std::vector<int64_t> order = mixed(kinds, 0);
  EXPECT_EQ(order, mixed(kinds, 0));
  EXPECT_NE(order, mixed(kinds, 1));
  std::vector<int64_t> sorted = order;
  std::ranges::sort(sorted);
  for (int64_t i = 0; i < 250; ++i) EXPECT_EQ(sorted[static_cast<size_t>(i)], i);
  for (const int some : {10, 50, 123, 200}) {
    auto found = count(kinds, std::span(order).first(static_cast<size_t>(some)));
    EXPECT_NEAR(found["a"], some * 0.4, 1) << some;
    EXPECT_NEAR(found["b"], some * 0.4, 1) << some;
    EXPECT_NEAR(found["c"], some * 0.2, 1) << some;
  }
}

TEST(MixedOrder, UnknownKindsAreShuffled) {
  const std::vector<int64_t> order = mixed(std::vector<SampleKind>(100), 0);
  EXPECT_GT(*std::ranges::max_element(std::span(order).first(20)), 50);
  EXPECT_LT(*std::ranges::min_element(std::span(order).first(20)), 50);
}

TEST(MixedOrder, SequencesStayTogetherInTheirOrder) {
  std::vector<SampleKind> kinds;
  for (int64_t file = 0; file < 10; ++file)
    for (int i = 0; i < 5; ++i) kinds.push_back({"", file});
  const std::vector<int64_t> order = mixed(kinds, 3);
  EXPECT_FALSE(std::ranges::is_sorted(order));
  for (size_t i = 0; i < order.size(); ++i) {
    if (i % 5 == 0) EXPECT_EQ(order[i] % 5, 0);
    else EXPECT_EQ(order[i], order[i - 1] + 1);
  }
}

TEST(MixedOrder, OfNothingIsEmpty) { EXPECT_TRUE(mixed({}, 0).empty()); }

TEST(Classes, AreThoseOfFoldersOrNames) {
  const std::vector<std::string> folders{"cat/1.png", "cat/2.png", "dog/1.png"};
  EXPECT_EQ(classes_of(folders), (std::vector<std::string>{"cat", "cat", "dog"}));
  std::vector<std::string> names;
  for (int i = 0; i < 8; ++i) names.push_back((i < 4 ? "airplane_000" : "ship-") + std::to_string(i) + ".png");
  EXPECT_EQ(classes_of(names).front(), "airplane");
  EXPECT_EQ(classes_of(names).back(), "ship");
  const std::vector<std::string> numbers{"1.png", "2.png", "3.png", "4.png"}, words{"sun.png", "sea.png", "sky.png"};
  EXPECT_TRUE(classes_of(numbers).empty());
  EXPECT_TRUE(classes_of(words).empty());
}

TEST(Select, TakesSomeOfEveryClassAsTuneDoes) {
  const auto kind_of = [](int64_t i) { return SampleKind{i < 50 ? "a" : "b"}; };
  const std::vector<int64_t> taken = select(100, {.samples = 20, .order = SampleOrder::kMixed}, kind_of);
  ASSERT_EQ(taken.size(), 20U);
  std::vector<SampleKind> kinds;
  for (int64_t i = 0; i < 100; ++i) kinds.push_back(kind_of(i));
  EXPECT_TRUE(std::ranges::equal(taken, mixed(kinds, 0) | std::views::take(20)));
  EXPECT_NEAR(static_cast<double>(std::ranges::count_if(taken, [](int64_t i) { return i < 50; })), 10, 1);
  EXPECT_EQ(select(100, {.samples = 3}, kind_of), (std::vector<int64_t>{0, 1, 2}));
}

TEST(Select, RecurrentSamplesStayInOrder) {
  DatasetOptions options{.samples = 4, .order = SampleOrder::kMixed};
  options.states.push_back({"h", "h0"});
  EXPECT_EQ(select(10, options), (std::vector<int64_t>{0, 1, 2, 3}));
}

TEST(Kinds, OfImagesInFoldersOfTheirClasses) {
  const Folder folder("seqto-classes");
  for (const char* name : {"cat", "dog"}) {
    std::filesystem::create_directories(folder.path / name);
    for (const char* file : {"1.png", "2.png"}) folder.add("rgb.png", std::string(name) + "/" + file);
  }
  const ValueInfo info{.name = "x", .type = DataType::kFloat, .shape = std::vector<Dimension>{{1}, {3}, {13}, {19}}};
  const auto data = open_dataset(folder.path, std::span(&info, 1));
  ASSERT_EQ(data->size(), 4);
  EXPECT_EQ(data->read(2).name, "dog/1.png");
  EXPECT_EQ(data->kind(0).kind, "cat");
  EXPECT_EQ(data->kind(3).kind, "dog");
  EXPECT_EQ(count_kinds(*data), 2);
  EXPECT_FALSE(data->has_labels());
  folder.write("labels.csv", "file,label\ncat/1.png,7\ndog/2.png,7\n");
  const auto labelled =
      open_dataset(folder.path, std::span(&info, 1), {.labels = (folder.path / "labels.csv").string()});
  EXPECT_EQ(labelled->kind(1).kind, "7");
}

}  // namespace
}  // namespace seqto::internal
