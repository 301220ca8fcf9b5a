"""A hub on this machine whose every answer can be made to go wrong."""

import hashlib
import http.server
import json
import threading


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def end(self, status, headers=(), body=b"", length=None):
        self.send_response(status)
        for key, value in headers:
            self.send_header(key, value)
        self.send_header("Content-Length", str(len(body) if length is None else length))
        self.end_headers()
        self.wfile.write(body)
        self.wfile.flush()

    def do_GET(self):
        hub, path = self.server.hub, self.path
        with hub.lock:
            hub.requests.append((path, self.headers.get("Range")))
            way = hub.ways.get(path, {})
            errors = way.get("errors", [])
            error = errors.pop(0) if errors else None
        if error == "drop":
            self.close_connection = True
            return self.connection.close()
        if error:
            return self.end(error, body=b"an error page, longer than nothing")
        if "redirect" in way:
            return self.end(302, [("Location", way["redirect"])])
        body = hub.files.get(path)
        if body is None:
            return self.end(404, body=b"nothing here")
        start, status, headers = 0, 200, []
        wanted = self.headers.get("Range")
        if wanted and way.get("ranges", True):
            start = int(wanted.removeprefix("bytes=").rstrip("-"))
            if start >= len(body):
                return self.end(416, [("Content-Range", f"bytes */{len(body)}")])
            status, headers = 206, [("Content-Range", f"bytes {start}-{len(body) - 1}/{len(body)}")]
        if way.get("gate"):
            way["gate"].wait(30)
        rest = body[start:]
        cut = way.get("cut")
        cut = cut.pop(0) if isinstance(cut, list) and cut else cut if isinstance(cut, int) else None
        if cut is None or cut >= len(rest):
            return self.end(status, headers, rest)
        self.close_connection = True
        self.end(status, headers, rest[:cut], length=len(rest))
        if way.get("stay"):
            way["stay"].wait(30)
        self.connection.close()


class Hub:
    """`ways[path]`: what goes wrong there: errors, redirect, ranges, cut, gate, stay."""

    def __init__(self):
        self.files, self.ways, self.requests, self.models = {}, {}, [], []
        self.lock = threading.Lock()
        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.hub, self.server.daemon_threads = self, True
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()

    def close(self):
        self.server.shutdown()
        self.server.server_close()

    def add(self, name, body, opset=12, archive=None, path=None, **metadata):
        path = path or f"validated/vision/{name.lower().replace(' ', '-')}-{opset}.onnx"
        entry = {"model": name, "model_path": path, "onnx_version": "1.9", "opset_version": opset,
                 "metadata": {"model_sha": hashlib.sha256(body).hexdigest(), "model_bytes": len(body),
                              "tags": ["vision"],
                              "io_ports": {"inputs": [{"name": "x", "shape": ["N", 1, 8, 8], "type": "tensor(float)"}],
                                           "outputs": [{"name": "y", "shape": ["N", 10], "type": "tensor(float)"}]}}}
        self.files["/" + path] = body
        if archive is not None:
            packed = path.removesuffix(".onnx") + ".tar.gz"
            self.files["/" + packed] = archive
            entry["metadata"] |= {"model_with_data_path": packed,
                                  "model_with_data_sha": hashlib.sha256(archive).hexdigest(),
                                  "model_with_data_bytes": len(archive)}
        entry["metadata"] |= metadata
        self.models.append(entry)
        self.publish()
        return "/" + path

    def publish(self):
        self.files["/ONNX_HUB_MANIFEST.json"] = json.dumps(self.models).encode()

    def asked(self, path):
        with self.lock:
            return [wanted for asked, wanted in self.requests if asked == path]
