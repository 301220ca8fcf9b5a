// Runs a fuzz target without libFuzzer: replays corpora, then feeds random changes of their files.
//
//   TARGET [-max_total_time=SECONDS] [-artifact_prefix=FOLDER/] FOLDER_OR_FILE...
//
// The input at hand is kept in FOLDER/last_input, so that it is there after a crash.
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace {

using Bytes = std::vector<std::uint8_t>;

Bytes read(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

void run(const Bytes& input, const std::string& kept) {
  std::ofstream(kept, std::ios::binary)
      .write(reinterpret_cast<const char*>(input.data()), static_cast<std::streamsize>(input.size()));
  LLVMFuzzerTestOneInput(input.data(), input.size());
}

Bytes mutate(Bytes input, std::mt19937& random) {
  const auto below = [&](std::size_t n) { return n == 0 ? 0 : random() % n; };
  for (std::size_t change = 0, changes = 1 + below(4); change < changes; ++change) {
    switch (below(4)) {
      case 0:  // flip a bit
        if (!input.empty()) input[below(input.size())] ^= static_cast<std::uint8_t>(1U << below(8));
        break;
      case 1:  // a byte that counts: lengths and signs live at the ends of the range
        if (!input.empty()) input[below(input.size())] = below(2) ? 0xFF : static_cast<std::uint8_t>(below(256));
        break;
      case 2:  // cut
        input.resize(below(input.size() + 1));
        break;
      default:  // repeat a piece
        if (!input.empty()) {
          const std::size_t from = below(input.size());
          const Bytes piece(input.begin() + static_cast<std::ptrdiff_t>(from),
                            input.begin() + static_cast<std::ptrdiff_t>(from + below(input.size() - from)));
          input.insert(input.begin() + static_cast<std::ptrdiff_t>(from), piece.begin(), piece.end());
        }
    }
  }
  return input;
}

}  // namespace

int main(int argc, char** argv) {
  double seconds = 0;
  std::string kept = "last_input";
  std::vector<Bytes> corpus;
  for (int i = 1; i < argc; ++i) {
    const std::string argument = argv[i];
    if (argument.rfind("-max_total_time=", 0) == 0) {
      seconds = std::atof(argument.c_str() + 16);
    } else if (argument.rfind("-artifact_prefix=", 0) == 0) {
      kept = argument.substr(17) + "last_input";
    } else if (std::filesystem::is_directory(argument)) {
      for (const auto& entry : std::filesystem::directory_iterator(argument)) corpus.push_back(read(entry.path()));
    } else {
      corpus.push_back(read(argument));
    }
  }
  for (const Bytes& input : corpus) run(input, kept);
  if (corpus.empty()) corpus.emplace_back();

  std::mt19937 random(1);  // NOLINT: the same inputs each time
  std::size_t runs = corpus.size();
  const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
  for (; std::chrono::steady_clock::now() < end; ++runs) run(mutate(corpus[random() % corpus.size()], random), kept);
  std::filesystem::remove(kept);
  std::printf("%zu runs\n", runs);
}
