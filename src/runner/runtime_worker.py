"""Runs ONNX files on another runtime, openvino or opencv: a worker of docs/reference/worker_protocol.md with the verbs that
`seqto validate --runtimes` asks. Replies are in base64 whatever their size, and one thread answers all.

arguments: RUNTIME --threads N --blobs FOLDER [--blobs FOLDER ...]
"""
import base64
import json
import os
import re
import sys
import time

import numpy as np


def fields(message):
    """Number and value of each field of a serialized protobuf message; lengths and integers alone matter here."""
    at = 0

    def varint():
        nonlocal at
        value = shift = 0
        while True:
            byte, at = message[at], at + 1
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value

    while at < len(message):
        key = varint()
        kind = key & 7
        size = varint() if kind in (0, 2) else {1: 8, 5: 4}[kind]
        yield key >> 3, message[at:at + size] if kind == 2 else size
        at += 0 if kind == 0 else size


def names(graph, place, of=1):
    return [bytes(n).decode() for number, entry in fields(graph) if number == place for k, n in fields(entry) if k == of]


def inputs_and_outputs(file):
    """As the model calls them: runtimes may use names of their own."""
    with open(file, "rb") as stream:
        model = memoryview(stream.read())
    graph = next(entry for number, entry in fields(model) if number == 7)
    constants = set(names(graph, 5, of=8))
    return [n for n in names(graph, 11) if n not in constants], names(graph, 12)


class OpenVino:
    def __init__(self, threads):
        import openvino
        self.core, self.options = openvino.Core(), {"INFERENCE_NUM_THREADS": threads}
        self.name = f"OpenVINO {openvino.__version__.split('-')[0]} (CPU)"

    def load(self, file, inputs, outputs):
        compiled = self.core.compile_model(self.core.read_model(file), "CPU", self.options)

        def run(tensors):
            found = compiled(tensors)
            return [found[output] for output in compiled.outputs]

        return run


class OpenCv:
    def __init__(self, threads):
        import cv2
        cv2.setNumThreads(threads)
        self.dnn = cv2.dnn
        self.name = f"OpenCV {cv2.__version__} (dnn)"

    def load(self, file, inputs, outputs):
        net = self.dnn.readNetFromONNX(file)

        def run(tensors):
            for name, tensor in zip(inputs, tensors):
                net.setInput(tensor, name)
            return net.forward(outputs)

        return run


RUNTIMES = {"openvino": OpenVino, "opencv": OpenCv}


class Worker:
    def __init__(self, device, threads, blobs):
        self.device, self.blobs, self.sessions = device, blobs, {}
        self.runtime = RUNTIMES[device](threads)
        self.threads = threads

    def tensor(self, message):
        if "blob" in message:
            folder = next(f for f in self.blobs if os.path.exists(os.path.join(f, message["blob"])))
            with open(os.path.join(folder, message["blob"]), "rb") as stream:
                data = bytearray(stream.read())
        else:
            data = bytearray(base64.b64decode(message["base64"]))
        return np.frombuffer(data, message["type"]).reshape(message["dims"])

    @staticmethod
    def message(array):
        array = np.asarray(array)
        return {"type": array.dtype.name, "dims": array.shape, "base64": base64.b64encode(array.tobytes()).decode()}

    def answer(self, request):
        verb = request["verb"]
        if verb == "hello":
            return {"protocol": 1, "device": self.device, "runner": self.runtime.name, "threads": self.threads}
        if verb == "load":
            inputs, outputs = inputs_and_outputs(request["file"])
            number = request["id"]
            self.sessions[number] = self.runtime.load(request["file"], inputs, outputs)
            return {"session": number, "inputs": inputs, "outputs": outputs}
        if verb == "run":
            tensors = [self.tensor(t) for t in request["inputs"]]
            begin = time.perf_counter_ns()
            outputs = self.sessions[request["session"]](tensors)
            return {"ns": time.perf_counter_ns() - begin, "outputs": [self.message(o) for o in outputs]}
        if verb == "unload":
            del self.sessions[request["session"]]
            return {}
        if verb == "cancel":
            return {"found": False}
        if verb == "shutdown":
            return {}
        raise ValueError(f"verb '{verb}' found; {self.device} knows hello, load, run, unload, cancel and shutdown")


def main():
    device, *words = sys.argv[1:]
    values = dict.fromkeys(("--threads", "--blobs"), ())
    for flag, value in zip(words[::2], words[1::2]):
        values[flag] += (value,)
    replies = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what a runtime prints is for people
    worker = Worker(device, int(values["--threads"][0]), values["--blobs"])
    for line in sys.stdin:
        request = json.loads(line)
        try:
            reply = {"ok": worker.answer(request)}
        except Exception as error:  # the runtime's refusal, in its words, without places in its source
            said = re.sub(r"Exception from \S+:\d+: *", "", " ".join(str(error).split()))
            reply = {"error": {"code": "invalid_input", "message": f"[{device}] {said}"}}
        print(json.dumps({"id": request["id"], **reply}), file=replies, flush=True)
        if request["verb"] == "shutdown":
            break


if __name__ == "__main__":
    main()
