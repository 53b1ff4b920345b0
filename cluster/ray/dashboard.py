"""A link that opens Ray's dashboard in a browser, with the token it requires."""

import http.server
import secrets
import threading

_COOKIE = "ray-authentication-token"


class Link:
    """Serves one page on 127.0.0.1 that sets a cookie and redirects to the dashboard.

    Ray reads the token from a cookie, and browsers share cookies between the ports of
    a host.

    Args:
        dashboard: host:port.
        token: that the dashboard requires.
    Attributes:
        url: of the page; whoever knows it can use the dashboard.
    """

    def __init__(self, dashboard: str, token: str) -> None:
        path = f"/{secrets.token_urlsafe(16)}"

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                if not secrets.compare_digest(self.path.encode(), path.encode()):
                    self.send_error(404)
                    return
                self.send_response(302)
                cookie = f"{_COOKIE}={token}; Path=/; HttpOnly; SameSite=Strict"
                self.send_header("Set-Cookie", cookie)
                self.send_header("Cache-Control", "no-store")
                self.send_header("Location", f"http://{dashboard}/")
                self.end_headers()

            def log_message(self, *arguments: object) -> None:
                pass

        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_port}{path}"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def close(self) -> None:
        """Stop serving the page."""
        self._server.shutdown()
        self._server.server_close()
