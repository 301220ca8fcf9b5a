#include "base/utf8.h"

#include <fmt/format.h>
#include <locale.h>

#include <algorithm>
#include <climits>
#include <cstdint>
#include <cwchar>
#include <cwctype>

#include "base/text.h"

namespace seqto::internal {

bool is_utf8(std::string_view text) {
  for (size_t i = 0; i < text.size();) {
    auto byte = [&](size_t k) { return k < text.size() ? static_cast<uint8_t>(text[k]) : uint8_t{0}; };
    const uint8_t first = byte(i);
    const size_t length = first < 0x80 ? 1 : first < 0xe0 ? 2 : first < 0xf0 ? 3 : 4;
    uint32_t character = length == 1 ? first : first & (0x7f >> length);
    for (size_t k = 1; k < length; ++k) {
      if ((byte(i + k) & 0xc0) != 0x80) return false;
      character = character << 6 | (byte(i + k) & 0x3f);
    }
    constexpr uint32_t kLowest[] = {0, 0, 0x80, 0x800, 0x10000};
    const bool surrogate = character >= 0xd800 && character < 0xe000;
    const bool leads = length == 1 || (first >= 0xc0 && first < 0xf8);
    if (!leads || character < kLowest[length] || character > 0x10ffff || surrogate) return false;
    i += length;
  }
  return true;
}

std::string lower_case(const std::string& text) {
  static const locale_t utf8 = newlocale(LC_CTYPE_MASK, "C.UTF-8", nullptr);
  if (!utf8 || !is_utf8(text)) return lower(text);
  const locale_t before = uselocale(utf8);  // of this thread
  std::wstring wide(text.size(), L'\0');
  const char* from = text.c_str();
  std::mbstate_t state{};
  wide.resize(std::min(wide.size(), std::mbsrtowcs(wide.data(), &from, wide.size(), &state)));
  std::ranges::transform(wide, wide.begin(), [](wchar_t c) { return static_cast<wchar_t>(std::towlower(c)); });
  std::string result(wide.size() * MB_LEN_MAX, '\0');
  const wchar_t* back = wide.c_str();
  state = {};
  result.resize(std::min(result.size(), std::wcsrtombs(result.data(), &back, result.size(), &state)));
  uselocale(before);
  return result;
}

std::string ascii(std::string_view text) {
  std::string result;
  for (const char c : text)
    if (c >= ' ' && c <= '~') result += c;
    else result += fmt::format("\\x{:02X}", static_cast<uint8_t>(c));
  return result;
}

}  // namespace seqto::internal
