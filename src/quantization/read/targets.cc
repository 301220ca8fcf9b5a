// Tables of targets, read.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "base/files.h"
#include "base/toml.h"
#include "model/type_variables.h"
#include "quantization/read/target_files.h"
#include "runner/runtimes.h"
#include "seqto/error.h"
#include "seqto/target.h"

namespace seqto {
namespace {

class Reader {
 public:
  Reader(const toml::table& table, std::string file) : table_(table), file_(std::move(file)) {}

  [[noreturn]] void fail(const toml::node& at, const std::string& found, const std::string& expected) const {
    throw Error(Code::kInvalidInput, fmt::format("[target] {}:{}: {} found; {} expected; see docs/reference/targets.md",
                                                 file_, at.source().begin.line, found, expected));
  }

  // `needed`: what is expected where the key is missing; null: nothing.
  std::string text(const char* key, const char* needed = nullptr) {
    const toml::node* node = take(key, needed);
    if (!node) return {};
    if (!node->is_string()) fail(*node, fmt::format("another value of {}", key), "a text");
    return std::string(node->as_string()->get());
  }
  std::vector<std::string> texts(const char* key, const char* needed = nullptr) {
    std::vector<std::string> values;
    const toml::node* node = take(key, needed);
    if (!node) return values;
    const auto refuse = [&] { fail(*node, fmt::format("another value of {}", key), "a list of texts"); };
    if (!node->is_array()) refuse();
    for (const toml::node& entry : *node->as_array()) {
      if (!entry.is_string()) refuse();
      values.emplace_back(entry.as_string()->get());
    }
    return values;
  }
  // Of `known` alone.
  std::vector<std::string> words(const char* key, const char* what, const std::vector<std::string>& known,
                                 const char* needed = nullptr) {
    std::vector<std::string> found = texts(key, needed);
    for (const std::string& word : found)
      if (std::ranges::count(known, word) == 0)
        fail(*table_.get(key), fmt::format("'{}' in {}", word, key),
             known.size() > kShown ? fmt::format("{}{}", what, did_you_mean(word, known))
                                   : fmt::format("{} of {}", what, fmt::join(known, ", ")));
    return found;
  }
  std::vector<std::string> operators(const char* key, const char* needed = nullptr) {
    return words(key, "an operator of ai.onnx", internal::standard_operators(), needed);
  }
  std::vector<DataType> types(const char* key) {
    std::vector<DataType> types;
    for (const std::string& name : words(key, "one", kCodeTypes)) types.push_back(parse_data_type(name));
    return types;
  }
  bool flag(const char* key, bool otherwise) {
    const toml::node* node = take(key, nullptr);
    if (!node) return otherwise;
    if (!node->is_boolean()) fail(*node, fmt::format("another value of {}", key), "true or false");
    return node->as_boolean()->get();
  }
  std::optional<double> number(const char* key) {
    const toml::node* node = take(key, nullptr);
    if (!node) return {};
    if (!node->is_number()) fail(*node, fmt::format("another value of {}", key), "a number");
    return node->value<double>();
  }
  int64_t whole(const char* key) {
    const double value = number(key).value_or(0);
    if (!(std::abs(value) < 1e9)) fail(table_, fmt::format("{} = {}", key, value), "a number below a billion");
    return static_cast<int64_t>(value);
  }
  const toml::array* tables(const char* key) {
    const toml::node* node = take(key, nullptr);
    if (node && !node->is_array_of_tables()) fail(*node, fmt::format("another value of {}", key), "tables [[rule]]");
    return node ? node->as_array() : nullptr;
  }
  const toml::table* table(const char* key) {
    const toml::node* node = take(key, nullptr);
    if (node && !node->is_table())
      fail(*node, fmt::format("another value of {}", key), fmt::format("a table [{}]", key));
    return node ? node->as_table() : nullptr;
  }
  bool has(const char* key) const { return table_.contains(key); }
  void finish() const {
    for (const auto& [key, node] : table_)
      if (std::ranges::count(taken_, key.str()) == 0)
        fail(node, fmt::format("the key {}", key.str()),
             fmt::format("one of {}{}", fmt::join(taken_, " "), did_you_mean(std::string(key.str()), taken_)));
  }

 private:
  static constexpr size_t kShown = 12;
  inline static const std::vector<std::string> kCodeTypes{"int8", "uint8", "int16", "uint16",
                                                          "int4", "uint4", "int2",  "uint2"};

  const toml::node* take(const char* key, const char* needed) {
    taken_.emplace_back(key);
    const toml::node* node = table_.get(key);
    if (!node && needed) fail(table_, fmt::format("no {}", key), fmt::format("{} = {}", key, needed));
    return node;
  }

  const toml::table& table_;
  std::string file_;
  std::vector<std::string> taken_;
};

TargetRule::As parse_as(Reader& reader, const toml::table& table) {
  const std::string word = reader.text("as");
  if (word.empty() || word == "integers") return TargetRule::As::kIntegers;
  if (word == "moved") return TargetRule::As::kMoved;
  if (word == "stored") return TargetRule::As::kStored;
  reader.fail(table, fmt::format("as = \"{}\"", word), "integers, moved or stored");
}

TargetRule::Second parse_second(Reader& reader, const toml::table& table) {
  const std::string word = reader.text("second");
  if (word.empty()) return TargetRule::Second::kAny;
  if (word == "constant") return TargetRule::Second::kConstant;
  if (word == "activation") return TargetRule::Second::kActivation;
  reader.fail(table, fmt::format("second = \"{}\"", word), "constant or activation");
}

std::optional<Arithmetic> read_arithmetic(const toml::table* table, const std::string& file) {
  if (!table) return {};
  Reader r(*table, file);
  Arithmetic a;
  const std::string rounding = r.text("rounding");
  if (rounding == "half_up") a.rounding = Arithmetic::Rounding::kHalfUp;
  else if (!rounding.empty() && rounding != "half_even")
    r.fail(*table, fmt::format("rounding = \"{}\"", rounding), "half_even or half_up");
  if (const auto bits = r.number("accumulator_bits")) {
    if (!(*bits >= 8 && *bits <= 64)) r.fail(*table, fmt::format("accumulator_bits = {}", *bits), "8 to 64");
    a.accumulator_bits = static_cast<int64_t>(*bits);
  }
  a.pairs_saturate = r.flag("pairs_saturate", false);
  if (a.pairs_saturate && (table->contains("rounding") || table->contains("accumulator_bits")))
    r.fail(*table, "pairs_saturate = true beside rounding or accumulator_bits", "either it or these");
  r.finish();
  return a;
}

std::map<std::string, std::vector<std::string>> read_operator_codes(const toml::table* table, const std::string& file) {
  if (!table) return {};
  static const std::vector<std::string> kCodes{"int4", "uint4", "uint8:2", "uint8:4", "uint8:8"};
  Reader r(*table, file);
  std::map<std::string, std::vector<std::string>> codes;
  for (const char* op_type : {"MatMulNBits", "GatherBlockQuantized"})
    if (auto taken = r.words(op_type, "some", kCodes); r.has(op_type)) codes[op_type] = std::move(taken);
  r.finish();
  return codes;
}

TargetRule read_rule(const toml::table& table, const std::string& file) {
  Reader r(table, file);
  TargetRule rule;
  rule.ops = r.operators("ops", "a list of operators");
  rule.as = parse_as(r, table);
  rule.second = parse_second(r, table);
  rule.activations = r.types("activations");
  rule.weights = r.types("weights");
  rule.same_types = r.flag("same_types", true);
  rule.equal_inputs = r.flag("equal_inputs", false);
  rule.signed_weights_for = r.types("signed_weights_for");
  rule.per_channel = r.flag("per_channel", true);
  rule.symmetric_activations = r.flag("symmetric_activations", false);
  rule.symmetric_weights = r.flag("symmetric_weights", false);
  rule.power_of_two = r.flag("power_of_two", false);
  rule.propagates = r.flag("propagates", false);
  rule.quantizes_constants = r.flag("quantizes_constants", false);
  rule.pairs_scalars = r.flag("pairs_scalars", false);
  rule.bias_beside_factors = r.flag("bias_beside_factors", false);
  rule.int32_bias = r.flag("int32_bias", false);
  rule.needs_output = r.flag("needs_output", true);
  rule.least_inner = r.whole("least_inner");
  rule.least_outer = r.whole("least_outer");
  rule.least_rows = r.whole("least_rows");
  rule.output_scale = r.number("output_scale");
  if (const auto zero = r.number("output_zero_point")) rule.output_zero_point = static_cast<int64_t>(*zero);
  rule.from_opset = r.whole("from_opset");
  rule.mode = r.text("mode");
  rule.why = r.text("why");
  r.finish();
  return rule;
}

bool has_op(const TargetRule& rule, const std::string& op) { return std::ranges::count(rule.ops, op) > 0; }

// Rules for operators that `own` has rules for, of the same kind, give way to these; operators of `without` lose
// theirs.
std::vector<TargetRule> extended(std::vector<TargetRule> rules, std::vector<TargetRule> own,
                                 const std::vector<std::string>& without) {
  for (TargetRule& rule : rules)
    std::erase_if(rule.ops, [&](const std::string& op) {
      return std::ranges::count(without, op) > 0 ||
             std::ranges::any_of(own, [&](const TargetRule& o) { return o.as == rule.as && has_op(o, op); });
    });
  std::erase_if(rules, [](const TargetRule& rule) { return rule.ops.empty(); });
  own.insert(own.end(), rules.begin(), rules.end());
  return own;
}

Target read_target(std::string_view text, const std::string& file);

std::optional<Target> embedded(const std::string& name) {
  for (const auto& target : internal::target_files())
    if (target.name == name) return read_target(target.text(), fmt::format("targets/{}.toml", name));
  return {};
}

[[noreturn]] void refuse_name(const std::string& name, const char* expected) {
  const std::vector<std::string> names = target_names();
  throw Error(Code::kUsage, fmt::format("[target] '{}' found; {}one of {} expected{}", name, expected,
                                        fmt::join(names, " "), did_you_mean(name, names)));
}

const std::vector<std::string> kFloats{"float32", "float16", "bfloat16", "float64"};
constexpr const char* kFloatsExpected =
    "a list of some of float32, float16, bfloat16, float64, or [] where layers in float are refused";

std::string read_device(Reader& r, const toml::table& table, const char* key) {
  std::string device = r.text(key);
  if (!device.empty() && !internal::is_runtime(device))
    r.fail(*table.get(key), fmt::format("device = \"{}\"", device),
           fmt::format("a device as --device takes it, openvino, opencv, web, or a worker of {}",
                       internal::runtimes_folder()));
  return device;
}

// Where the table does not say: int8 where a rule takes convolutions or products on codes, and what layers in float
// may be in.
std::vector<std::string> schemes_of(const Target& target) {
  std::vector<std::string> schemes;
  const auto takes = [&](const TargetRule& rule) {
    return rule.as == TargetRule::As::kIntegers &&
           (has_op(rule, "Conv") || has_op(rule, "MatMul") || has_op(rule, "Gemm"));
  };
  if (std::ranges::any_of(target.rules, takes)) schemes.emplace_back("int8");
  for (const char* type : {"float16", "float32"})
    if (std::ranges::count(target.floats, type) > 0) schemes.emplace_back(type);
  return schemes;
}

Target read_target(std::string_view text, const std::string& file) {
  const toml::parse_result parsed = internal::parse_toml(text, file);
  if (!parsed)
    throw Error(Code::kInvalidInput,
                fmt::format("[target] {}:{}: no TOML found: {}; a target's table expected; see "
                            "docs/reference/targets.md",
                            file, parsed.error().source().begin.line, parsed.error().description()));
  const toml::table& table = parsed.table();
  Reader r(table, file);
  Target target;
  const std::string base = r.text("extends");
  if (!base.empty()) {
    auto found = embedded(base);
    if (!found) refuse_name(base, "");
    target = std::move(*found);
  }
  const auto take = [&](auto& value, const char* key, auto read) {
    auto found = read(key);
    if (base.empty() || r.has(key)) value = std::move(found);
  };
  const auto word = [&](const char* key) { return r.text(key); };
  const auto words = [&](const char* key) { return r.texts(key); };
  const auto flag = [&](const char* key) { return r.flag(key, false); };
  target.name = r.text("name", "a text");
  take(target.known, "known", [&](const char* key) {
    return r.text(key, base.empty() ? "\"run\", \"compiled\" or \"documented\"" : nullptr);
  });
  if (target.known != "run" && target.known != "compiled" && target.known != "documented")
    r.fail(table, fmt::format("known = \"{}\"", target.known), "run, compiled or documented");
  take(target.title, "title", word);
  take(target.sources, "sources", words);
  take(target.floats, "floats",
       [&](const char* key) { return r.words(key, "some", kFloats, base.empty() ? kFloatsExpected : nullptr); });
  take(target.operators, "operators", words);
  take(target.operator_codes, "operator_codes",
       [&](const char* key) { return read_operator_codes(r.table(key), file); });
  take(target.lacks, "lacks", [&](const char* key) { return r.operators(key); });
  take(target.device, "device", [&](const char* key) { return read_device(r, table, key); });
  take(target.schemes, "schemes", words);
  for (const std::string& scheme : target.schemes) parse_detailed_scheme(scheme);
  take(target.fixed_shapes, "fixed_shapes", flag);
  take(target.pairs_behind, "pairs_behind", [&](const char* key) {
    auto found = r.operators(key);
    return r.has(key) ? std::optional(std::move(found)) : std::nullopt;
  });
  take(target.float_between_products, "float_between_products", flag);
  take(target.sums_for_adds, "sums_for_adds", flag);
  take(target.add_joins_product, "add_joins_product", flag);
  take(target.clips_join_layers, "clips_join_layers", flag);
  take(target.float_biases, "float_biases", flag);
  take(target.min_real_range, "min_real_range", [&](const char* key) { return r.number(key); });
  take(target.optimizes_pairs, "optimizes_pairs", flag);
  take(target.refuses_clips_of_inputs, "refuses_clips_of_inputs", flag);
  take(target.signed_pairs_become_unsigned, "signed_pairs_become_unsigned", flag);
  const auto whole = [&](const char* key) { return r.whole(key); };
  take(target.most_opset, "most_opset", whole);
  take(target.most_ir_version, "most_ir_version", whole);
  take(target.arithmetic, "arithmetic", [&](const char* key) { return read_arithmetic(r.table(key), file); });
  const std::vector<std::string> without = r.operators("without");
  std::vector<TargetRule> own;
  if (const toml::array* rules = r.tables("rule"))
    for (const toml::node& rule : *rules) own.push_back(read_rule(*rule.as_table(), file));
  target.rules = extended(std::move(target.rules), std::move(own), without);
  if (base.empty() && !r.has("schemes")) target.schemes = schemes_of(target);
  r.finish();
  return target;
}

}  // namespace

std::vector<std::string> target_names() {
  std::vector<std::string> names;
  for (const auto& file : internal::target_files()) names.emplace_back(file.name);
  return names;
}

Target load_target(const std::string& name_or_file) {
  if (auto target = embedded(name_or_file)) return *target;
  if (std::filesystem::is_regular_file(name_or_file)) return read_target(read_file(name_or_file), name_or_file);
  refuse_name(name_or_file, "a TOML file, or ");
}

}  // namespace seqto
