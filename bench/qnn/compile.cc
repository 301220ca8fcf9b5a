// What Qualcomm's compiler for the HTP makes of ONNX files, as a Windows program: its vendor ships it for x86-64 on
// Windows alone. Paths of models come on stdin, one a line. The answer is what the QNN provider says of each group of
// nodes, and a last line "compiled" or "failed: WHY". Arguments: the provider's library, then names and values of its
// options.
#include <onnxruntime_c_api.h>

#include <cstdio>
#include <iostream>
#include <string>
#include <vector>

namespace {

const OrtApi* api;

std::string narrow(const wchar_t* text) {
  std::string out;
  for (; *text; ++text) out += static_cast<char>(*text);
  return out;
}

std::wstring widen(const std::string& text) { return {text.begin(), text.end()}; }

// The message of what went wrong; empty where nothing did.
std::string failure(OrtStatus* status) {
  if (!status) return {};
  std::string message = api->GetErrorMessage(status);
  api->ReleaseStatus(status);
  for (char& c : message)
    if (c == '\n' || c == '\r') c = ' ';
  return message.empty() ? "no reason given" : message;
}

void ORT_API_CALL log(void*, OrtLoggingLevel, const char*, const char*, const char*, const char* message) {
  if (std::string_view(message).find("OrtNodeUnit") == std::string_view::npos) return;
  std::fputs(message, stdout);
  std::fputs("\n", stdout);
}

std::string compile(OrtEnv* env, const OrtEpDevice* device, const std::vector<std::string>& words,
                    const std::string& model) {
  std::vector<const char*> keys, values;
  for (size_t i = 0; i + 1 < words.size(); i += 2)
    keys.push_back(words[i].c_str()), values.push_back(words[i + 1].c_str());
  OrtSessionOptions* options = nullptr;
  OrtSession* session = nullptr;
  std::string why = failure(api->CreateSessionOptions(&options));
  if (why.empty())
    why = failure(api->SessionOptionsAppendExecutionProvider_V2(options, env, &device, 1, keys.data(), values.data(),
                                                                keys.size()));
  if (why.empty()) why = failure(api->AddSessionConfigEntry(options, "ep.context_enable", "1"));
  if (why.empty()) why = failure(api->AddSessionConfigEntry(options, "ep.context_embed_mode", "1"));
  if (why.empty()) why = failure(api->AddSessionConfigEntry(options, "ep.context_file_path", (model + ".ctx").c_str()));
  if (why.empty()) why = failure(api->CreateSession(env, widen(model).c_str(), options, &session));
  if (session) api->ReleaseSession(session);
  if (options) api->ReleaseSessionOptions(options);
  return why;
}

}  // namespace

int wmain(int count, wchar_t** words) {
  api = OrtGetApiBase()->GetApi(ORT_API_VERSION);
  if (!api || count < 2) {
    std::printf("failed: this ONNX Runtime is %s\n", OrtGetApiBase()->GetVersionString());
    return 1;
  }
  OrtEnv* env = nullptr;
  const OrtEpDevice* const* devices = nullptr;
  size_t found = 0;
  std::string why = failure(api->CreateEnvWithCustomLogger(log, nullptr, ORT_LOGGING_LEVEL_VERBOSE, "qnn", &env));
  if (why.empty()) why = failure(api->RegisterExecutionProviderLibrary(env, "QNNExecutionProvider", words[1]));
  if (why.empty()) why = failure(api->GetEpDevices(env, &devices, &found));
  const OrtEpDevice* device = nullptr;
  for (size_t i = 0; i < found && why.empty(); ++i)
    if (std::string(api->EpDevice_EpName(devices[i])) == "QNNExecutionProvider") device = devices[i];
  if (!device) {
    std::printf("failed: %s\n", why.empty() ? "the provider has no device" : why.c_str());
    return 1;
  }
  std::vector<std::string> options;
  for (int i = 2; i < count; ++i) options.push_back(narrow(words[i]));
  for (std::string model; std::getline(std::cin, model);) {
    if (!model.empty() && model.back() == '\r') model.pop_back();
    why = compile(env, device, options, model);
    std::printf("%s\n", why.empty() ? "compiled" : ("failed: " + why).c_str());
    std::fflush(stdout);
  }
  return 0;
}
