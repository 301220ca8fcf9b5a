// Keyword arguments as the fields of option structs, both ways: values from Python, and the signature that tells of
// them.
#pragma once

#include <algorithm>
#include <cmath>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "option_fields.h"
#include "seqto/error.h"
#include "seqto/recipe.h"
#include "values.h"

namespace seqto::python {

// A struct whose fields are keyword arguments of their own, beside those of the struct that holds it.
template <class T>
concept Flat =
    std::is_same_v<T, DatasetOptions> || std::is_same_v<T, RunnerOptions> || std::is_same_v<T, CalibrateOptions> ||
    std::is_same_v<T, QuantizeOptions> || std::is_same_v<T, ImproveOptions> || std::is_same_v<T, MetricOptions> ||
    std::is_same_v<T, GateOptions> || std::is_same_v<T, GroupOptions> || std::is_same_v<T, StrategyOptions>;
// A struct that is a dict with its fields as keys.
template <class T>
concept Nested =
    std::is_same_v<T, AudioWindows> || std::is_same_v<T, TextOptions> || std::is_same_v<T, StateLink> ||
    std::is_same_v<T, StateReset> || std::is_same_v<T, WeightOnlyOptions> || std::is_same_v<T, Float16Options>;
// What no keyword gives: positional arguments, and what is made of other keywords.
template <class T>
concept Left = std::is_same_v<T, Metrics> || std::is_same_v<T, OwnParts>;

// --- one value: its type in Python, how it is set, and its default as Python writes it

template <class T>
struct Value;

template <class T>
void set_value(T& value, nb::handle given) {
  Value<T>::set(value, given);
}

template <class T>
concept Plain = std::is_arithmetic_v<T> || std::is_same_v<T, std::string> || std::is_same_v<T, std::filesystem::path>;

template <Plain T>
struct Value<T> {
  static std::string type() {
    if constexpr (std::is_same_v<T, bool>) return "bool";
    else if constexpr (std::is_integral_v<T>) return "int";
    else if constexpr (std::is_floating_point_v<T>) return "float";
    else if constexpr (std::is_same_v<T, std::string>) return "str";
    else return "str | os.PathLike[str]";
  }
  static void set(T& value, nb::handle given) { value = nb::cast<T>(given); }
  static nb::object get(const T& value) {
    if constexpr (std::is_same_v<T, std::filesystem::path>) return nb::str(value.c_str());
    else return nb::cast(value);
  }
};

template <class T>
  requires std::is_enum_v<T>
struct Value<T> {
  static std::string type() { return "str"; }
  static void set(T& value, nb::handle given) { parse_enum(value, nb::cast<std::string>(given)); }
  static nb::object get(const T& value) { return nb::cast(std::string(to_string(value))); }
};

template <class T>
struct Value<std::optional<T>> {
  static std::string type() { return Value<T>::type() + " | None"; }
  static void set(std::optional<T>& value, nb::handle given) {
    if (given.is_none()) value.reset();
    else Value<T>::set(value.emplace(), given);
  }
  static nb::object get(const std::optional<T>& value) { return value ? Value<T>::get(*value) : nb::none(); }
};

template <class T>
struct Value<std::vector<T>> {
  static std::string type() { return "collections.abc.Sequence[" + Value<T>::type() + "]"; }
  static void set(std::vector<T>& value, nb::handle given) {
    value.clear();
    for (nb::handle item : list_of(given)) Value<T>::set(value.emplace_back(), item);
  }
  static nb::object get(const std::vector<T>& value) {
    nb::list list;
    for (const T& item : value) list.append(Value<T>::get(item));
    return nb::tuple(list);
  }
};

template <class T>
void set_pairs(nb::handle given, T&& take) {
  if (!nb::hasattr(given, "items"))
    throw nb::type_error((nb::cast<std::string>(nb::repr(given)) + " found; a dict expected").c_str());
  for (nb::handle item : nb::borrow<nb::iterable>(given.attr("items")())) take(item[0], item[1]);
}

template <class T>
struct Value<std::map<std::string, T>> {
  static std::string type() { return "collections.abc.Mapping[str, " + Value<T>::type() + "]"; }
  static void set(std::map<std::string, T>& value, nb::handle given) {
    value.clear();
    set_pairs(given, [&](nb::handle k, nb::handle v) { Value<T>::set(value[nb::cast<std::string>(k)], v); });
  }
  static nb::object get(const std::map<std::string, T>& value) {
    nb::dict dict;
    for (const auto& [k, v] : value) dict[k.c_str()] = Value<T>::get(v);
    return dict;
  }
};

// In their order: patterns and methods.
template <class T>
struct Value<std::vector<std::pair<std::string, T>>> {
  static std::string type() { return Value<std::map<std::string, T>>::type(); }
  static void set(std::vector<std::pair<std::string, T>>& value, nb::handle given) {
    value.clear();
    set_pairs(given, [&](nb::handle k, nb::handle v) {
      Value<T>::set(value.emplace_back(nb::cast<std::string>(k), T{}).second, v);
    });
  }
  static nb::object get(const std::vector<std::pair<std::string, T>>&) { return nb::dict(); }
};

template <>
struct Value<TensorOverrides> {
  static std::string type() {
    return "collections.abc.Mapping[str, collections.abc.Sequence[collections.abc.Mapping[str, typing.Any]]]";
  }
  static void set(TensorOverrides& value, nb::handle given) { value = tensor_overrides_from_json(to_json(given)); }
  static nb::object get(const TensorOverrides&) { return nb::dict(); }
};

// {"size_bytes": 40000}: at most; of figures that are better when higher, at least.
template <>
struct Value<std::vector<Limit>> {
  static std::string type() { return "collections.abc.Mapping[str, float]"; }
  static void set(std::vector<Limit>& value, nb::handle given) {
    value.clear();
    set_pairs(given, [&](nb::handle k, nb::handle v) {
      const auto name = nb::cast<std::string>(k);
      const auto bound = nb::cast<double>(v);
      if (std::isnan(bound)) throw nb::value_error((name + ": nan found; a number expected").c_str());
      value.push_back({name, bound, !higher_is_better(name), "limits"});
    });
  }
  static nb::object get(const std::vector<Limit>&) { return nb::dict(); }
};

// What the caller reads itself: a type, and the default as Python writes it.
struct Opaque {
  std::string type, otherwise = "None";
};

template <Nested T>
struct Value<T> {
  static std::string type() { return "collections.abc.Mapping[str, typing.Any]"; }
  static void set(T& value, nb::handle given);
  static nb::object get(const T&) { return nb::dict(); }
};

// --- all of a call

// Each is to be taken by one of the structs; what is left at the end is an error that names the nearest keyword.
class Keywords {
 public:
  Keywords(std::string function, nb::handle given) : function_(std::move(function)), left_(nb::dict()) {
    left_.update(nb::borrow<nb::dict>(given));
  }

  bool given(const char* name) const { return given_.contains(name) || left_.contains(name); }
  // Given, and neither None, False, zero nor empty.
  bool asks(const char* name) const { return asked_.contains(name); }
  bool given_any(std::span<const char* const> names) const {
    return std::ranges::any_of(names, [&](const char* name) { return given(name); });
  }
  template <class T>
  T pop(const char* name, T otherwise) {
    known_.push_back(name);
    if (left_.contains(name)) take(name, otherwise);
    return otherwise;
  }
  nb::object pop_object(const char* name) {
    known_.push_back(name);
    return left_.contains(name) ? left_.attr("pop")(name) : nb::none();
  }
  template <class Options>
  void set(Options& options) {
    for_each_field(options, [&]<class T>(const char* name, T& field, const char*) {
      if constexpr (Flat<T>) set(field);
      else if constexpr (!Left<T>) {
        known_.push_back(name);
        if (left_.contains(name)) take(name, field);
      }
    });
  }
  void refuse_others() const {
    for (nb::handle key : left_.keys()) {
      const auto name = nb::cast<std::string>(key);
      throw nb::type_error((function_ + "() has no keyword '" + name + "'" + meant(name)).c_str());
    }
  }

 private:
  // A flag's name has often more words than the field's, or fewer: --smooth-quant is smooth.
  std::string meant(const std::string& name) const {
    const std::string near = nearest(name, known_);
    std::string shared;
    for (const std::string& known : known_)
      if (known.size() > shared.size() &&
          (name.starts_with(known + "_") || name.ends_with("_" + known) || known.ends_with("_" + name)))
        shared = known;
    if (shared.empty() || shared == near) return did_you_mean(name, known_);
    return "; did you mean '" + shared + (near.empty() ? "" : "' or '" + near) + "'?";
  }
  template <class T>
  void take(const char* name, T& field) {
    nb::object value = left_[name];
    try {
      set_value(field, value);
    } catch (const nb::cast_error&) {
      wrong(name, Value<T>::type(), value);
    } catch (const nb::builtin_exception& error) {
      throw nb::type_error((function_ + "(" + name + "=...): " + error.what()).c_str());
    }
    given_.insert(name);
    if (PyObject_IsTrue(value.ptr()) == 1) asked_.insert(name);
    left_.attr("pop")(name);
  }
  [[noreturn]] void wrong(const char* name, const std::string& type, nb::handle value) const {
    throw nb::type_error(
        (function_ + "(" + name + "=...): " + nb::cast<std::string>(nb::repr(value)) + " found; " + type + " expected")
            .c_str());
  }

  std::string function_;
  nb::dict left_;
  std::vector<std::string> known_;
  std::set<std::string> given_, asked_;
};

template <Nested T>
void Value<T>::set(T& value, nb::handle given) {
  if (!nb::hasattr(given, "keys"))
    throw nb::type_error((nb::cast<std::string>(nb::repr(given)) + " found; a dict expected").c_str());
  Keywords keywords("options", given);
  keywords.set(value);
  keywords.refuse_others();
}

// Writes what Keywords reads: "strategy: str = 'chain', ..." and a line of documentation each.
class Signature {
 public:
  // `head`: "tune(model: ..., data: ..., ", `result`: "Study". `about`: the first lines of the documentation.
  Signature(std::string head, std::string result, std::string about)
      : text_("def " + std::move(head)), result_(std::move(result)), doc_(std::move(about) + "\n\nKeywords:\n") {}

  template <class T>
  Signature& with(const char* name, const T& otherwise, const char* about) {
    if (!seen_.insert(name).second) return *this;
    text_ += std::string(", ") + name + ": " + Value<T>::type() + " = " +
             nb::cast<std::string>(nb::repr(Value<T>::get(otherwise)));
    doc_ += std::string("    ") + name + ": " + about + "\n";
    return *this;
  }
  Signature& with(const char* name, const Opaque& otherwise, const char* about) {
    if (!seen_.insert(name).second) return *this;
    text_ += std::string(", ") + name + ": " + otherwise.type + " = " + otherwise.otherwise;
    doc_ += std::string("    ") + name + ": " + about + "\n";
    return *this;
  }
  template <class Options>
  Signature& with_fields(Options options = {}) {
    for_each_field(options, [&]<class T>(const char* name, T& field, const char* about) {
      if constexpr (Flat<T>) with_fields(field);
      else if constexpr (!Left<T>) with(name, field, about);
    });
    return *this;
  }
  // Made by other arguments.
  Signature& without(std::initializer_list<const char*> names) {
    seen_.insert(names.begin(), names.end());
    return *this;
  }
  std::string text() const { return text_ + ") -> " + result_; }
  const std::string& doc() const { return doc_; }

 private:
  std::string text_, result_, doc_;
  std::set<std::string> seen_;
};

// Binds a function of (positional arguments ..., kwargs) under a signature.
template <class F, class... Arguments>
void def(nb::module_& m, const char* name, const Signature& signature, F&& function, const Arguments&... arguments) {
  m.def(name, std::forward<F>(function), arguments..., nb::sig(signature.text().c_str()), signature.doc().c_str());
}

inline NamedOptions named_options(const Keywords& k) {
  return {k.given("headroom_16_bits"), k.given("unify_concat"), k.given("float_unlike_concat")};
}

}  // namespace seqto::python
