"""The link to Ray's dashboard, which itself is tried in tests/cluster."""

import http.server
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from http.cookiejar import CookieJar

import pytest

from xagents_ray.cluster.ray.authentication import DashboardLink


@pytest.fixture
def dashboard() -> Iterator[str]:
    """A server that answers with the cookies that it gets, at an address."""

    class Echo(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()
            self.wfile.write(self.headers.get("Cookie", "").encode())

    with http.server.HTTPServer(("127.0.0.1", 0), Echo) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"127.0.0.1:{server.server_port}"
        server.shutdown()


def test_the_link_brings_the_token_along(dashboard: str) -> None:
    link = DashboardLink(dashboard, "secret")
    browser = urllib.request.build_opener(
        urllib.request.HTTPCookieProcessor(CookieJar())
    )
    with browser.open(link.url) as page:
        assert page.url == f"http://{dashboard}/"
        assert page.read() == b"ray-authentication-token=secret"
    link.close()


def test_nobody_else_gets_it(dashboard: str) -> None:
    link = DashboardLink(dashboard, "secret")
    assert link.url.startswith("http://127.0.0.1:")
    with pytest.raises(urllib.error.HTTPError, match="404") as error:
        urllib.request.urlopen(f"{link.url.rpartition('/')[0]}/guess")
    assert error.value.headers["Set-Cookie"] is None
    error.value.close()
    link.close()
