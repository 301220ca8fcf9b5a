#include "base/yaml.h"

#include <fmt/format.h>
#include <yaml.h>

#include "base/json.h"
#include "seqto/error.h"

namespace seqto::internal {
namespace {

using Json = nlohmann::json;

class YamlReader {
 public:
  YamlReader(std::string_view text, const std::string& name) : name_(name) {
    if (!yaml_parser_initialize(&parser_)) throw std::bad_alloc();
    yaml_parser_set_input_string(&parser_, reinterpret_cast<const unsigned char*>(text.data()), text.size());
  }
  YamlReader(const YamlReader&) = delete;
  YamlReader& operator=(const YamlReader&) = delete;
  ~YamlReader() {
    yaml_event_delete(&event_);
    yaml_parser_delete(&parser_);
  }

  Json document() {
    next();  // the stream begins
    next();
    if (event_.type == YAML_STREAM_END_EVENT) return nullptr;
    next();
    return value(0);
  }

 private:
  void next() {
    yaml_event_delete(&event_);
    if (yaml_parser_parse(&parser_, &event_)) return;
    event_ = {};
    const size_t line = parser_.problem_mark.line + 1;
    if (parser_.error == YAML_MEMORY_ERROR) throw std::bad_alloc();
    refuse(parser_.problem ? parser_.problem : "bytes that are no text", "YAML", line);
  }

  [[noreturn]] void refuse(std::string_view found, std::string_view expected, size_t line) const {
    throw Error(Code::kInvalidInput, fmt::format("[data] {}, line {}: {} found; {} expected; correct the line", name_,
                                                 line, found, expected));
  }

  std::string scalar() const {
    return {reinterpret_cast<const char*>(event_.data.scalar.value), event_.data.scalar.length};
  }

  // Of the event that was read last, up to its own end.
  Json value(int depth) {
    const size_t line = event_.start_mark.line + 1;
    if (depth > kDeepestJson) refuse("lists and mappings inside each other", "at most 100 levels", line);
    switch (event_.type) {
      case YAML_SCALAR_EVENT:
        return scalar();
      case YAML_SEQUENCE_START_EVENT: {
        Json list = Json::array();
        for (next(); event_.type != YAML_SEQUENCE_END_EVENT; next()) list.push_back(value(depth + 1));
        return list;
      }
      case YAML_MAPPING_START_EVENT: {
        Json mapping = Json::object();
        for (next(); event_.type != YAML_MAPPING_END_EVENT; next()) {
          const size_t at = event_.start_mark.line + 1;
          if (event_.type != YAML_SCALAR_EVENT) refuse("a key that is no text", "a text", at);
          const std::string key = scalar();
          if (mapping.contains(key)) refuse(fmt::format("the key '{}' again", key), "each key once", at);
          next();
          mapping[key] = value(depth + 1);
        }
        return mapping;
      }
      default:
        refuse("an alias", "what it stands for, written out", line);
    }
  }

  const std::string& name_;
  yaml_parser_t parser_{};
  yaml_event_t event_{};
};

}  // namespace

Json parse_yaml(std::string_view text, const std::string& name) { return YamlReader(text, name).document(); }

}  // namespace seqto::internal
