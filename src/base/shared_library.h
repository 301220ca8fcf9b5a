// Room: base. Libraries that are looked for only once they are needed.
#pragma once

#include <initializer_list>
#include <string>

namespace seqto {

// Never closed.
class SharedLibrary {
 public:
  // The first of these names that the system finds. Throws Error{kUnavailable, "[verb] ..."}, where `needed` says what
  // for and how to install it.
  SharedLibrary(std::string verb, std::initializer_list<const char*> names, const std::string& needed);

  // Throws Error{kUnavailable} where the library lacks it.
  template <class Function>
  void find(const char* symbol, Function& function) const {
    function = reinterpret_cast<Function>(address(symbol));
  }

 private:
  void* address(const char* symbol) const;

  std::string verb_, name_;
  void* handle_ = nullptr;
};

}  // namespace seqto
