import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class Server:
    def __init__(self):
        self.requests = []
        self.answer = lambda path, body: (200, {})
        self.headers = {}
        owner = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self):
                body = json.loads(self.rfile.read(int(self.headers["content-length"])))
                path = self.path.rsplit("/", 1)[-1]
                owner.requests.append((path, body, self.headers["authorization"]))
                status, document = owner.answer(path, body)
                self.send_response(status)
                for name, value in owner.headers.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(json.dumps(document).encode())

            def log_message(self, *_):
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def bodies(self, path):
        return [body for requested_path, body, _ in self.requests if requested_path == path]
