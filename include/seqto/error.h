// Room: base. The one exception of the library, with the exit code it leads to.
//
// Three kinds of trouble, three treatments: the caller or the world is wrong -> throw Error;
// a candidate does not work -> a Trial with outcome Failed; our own mistake -> assert.
#pragma once

#include <span>
#include <stdexcept>
#include <string>
#include <string_view>

namespace seqto {

// The value is the exit code of the command line tool.
enum class Code {
  kInternal = 1,
  kUsage = 2,
  kInvalidInput = 3,  // model, data or configuration
  kUnavailable = 4,   // runtime or device not there
  kGateNotMet = 5,
  kInterrupted = 130,  // the best so far is saved
};

// The message reads "[verb] what was found; what was expected; what to do".
class Error : public std::runtime_error {
 public:
  Error(Code code, const std::string& message) : std::runtime_error(message), code_(code) {}
  Code code() const { return code_; }

 private:
  Code code_;
};

// What is said where memory runs out (std::bad_alloc), which ends the command with kUnavailable.
inline constexpr std::string_view kNoMemory =
    "[memory] no more of it to be had; end other programs, or take a smaller model or fewer samples";

// --- What a misspelt name may have meant

// The candidate that a misspelt word most likely meant: the one of least edit distance, or one that begins with the
// word. "" where a third of the letters differ and more: such a guess helps nobody.
std::string nearest(std::string_view word, std::span<const std::string> candidates);

// "; did you mean 'chain'?" for the end of a message; "" where nothing is near.
std::string did_you_mean(std::string_view word, std::span<const std::string> candidates);

}  // namespace seqto
