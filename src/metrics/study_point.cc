#include "metrics/study_point.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <vector>

#include "base/files.h"
#include "seqto/error.h"
#include "seqto/gate.h"
#include "seqto/metrics.h"

namespace seqto {
namespace internal {
namespace {

using Json = nlohmann::ordered_json;

constexpr size_t kFewestDigits = 4;  // 12 is a name, and the thirteenth of twelve no hash

std::vector<const Json*> points_of(const Json& front) {
  std::vector<const Json*> points{&front.at("baseline"), &front.at("fully_quantized")};
  for (const char* list : {"front", "others"})
    if (const auto found = front.find(list); found != front.end())
      for (const Json& point : *found) points.push_back(&point);
  return points;
}

// A summary of an earlier version has no names.
std::string name_of(const Json& point) { return point.value("name", point.value("id", "")); }

}  // namespace

const Json& point_called(const Json& front, const std::string& called, const std::string& verb) {
  const std::string wanted = called == "selected"          ? front.at("selected").get<std::string>()
                             : called == "fully_quantized" ? front.at("fully_quantized").at("id").get<std::string>()
                                                           : called;
  const std::vector<const Json*> points = points_of(front);
  std::vector<const Json*> begun;
  for (const Json* point : points) {
    const std::string id = point->value("id", "");
    if (id == wanted || name_of(*point) == wanted) return *point;
    const bool known = std::ranges::any_of(begun, [&](const Json* other) { return other->value("id", "") == id; });
    if (wanted.size() >= kFewestDigits && id.starts_with(wanted) && !known) begun.push_back(point);
  }
  if (begun.size() == 1) return *begun.front();
  std::vector<std::string> names;
  for (const Json* point : begun.empty() ? points : begun) {
    const std::string name = name_of(*point), id = point->value("id", "");
    names.push_back(name == id || begun.empty() ? name : fmt::format("{} ({})", name, id));
  }
  throw Error(
      Code::kInvalidInput,
      fmt::format("[{}] the candidate {} found{}; selected, fully_quantized or one of {} expected; choose one", verb,
                  called, begun.empty() ? "" : ", which is the beginning of several ids", fmt::join(names, ", ")));
}

}  // namespace internal

StudyFiles files_in_study(const std::filesystem::path& dir, const std::string& called) {
  using Json = nlohmann::ordered_json;
  const std::filesystem::path path = StudyFolder{dir}.summary();
  try {
    const auto summary = internal::parse_json<Json>(read_file(path));
    const Json& point = internal::point_called(summary, called, "study");
    const auto file = [&](const char* key) {
      const Json name = point.value(key, Json());
      return name.is_string() ? dir / name.get<std::string>() : std::filesystem::path();
    };
    return {file("file"), file("plan")};
  } catch (const Json::exception& error) {
    throw Error(Code::kInvalidInput,
                fmt::format("[study] {}: {}; a summary of version 1 was expected; draw it again with `seqto report`",
                            path.string(), error.what()));
  }
}

}  // namespace seqto
