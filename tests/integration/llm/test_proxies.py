"""Tests that requests to this machine, and private texts without https, are not sent to a proxy.

Upper and lower case in schemes and hosts make no difference.
"""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.integration.llm.conftest import Bench, wishes
from tests.integration.llm.server import KEY, always_good, letter
from tests.integration.llm.test_before_any_spend import OPENAI, folder, told
from tests.integration.llm.test_extraction import CODES, TEXTS, good, labeller

Start = Callable[..., Bench]
__all__ = ["folder"]

ADDRESSES = (
    "http://127.0.0.1:{}/v1",
    "HTTP://127.0.0.1:{}/v1",
    "Http://LOCALHOST:{}/v1",
    "HTTP://LocalHost:{}/v1",
)


@pytest.fixture
def proxy(bench: Start, monkeypatch: pytest.MonkeyPatch) -> Bench:
    """Start a proxy, and set all environment variables for proxies to its address.

    The proxy answers requests itself.
    """
    server = bench(behave=good)
    for name in ("HTTP_PROXY", "ALL_PROXY", "HTTPS_PROXY", "http_proxy", "all_proxy"):
        monkeypatch.setenv(name, f"http://127.0.0.1:{server.server.port}")
    for name in ("NO_PROXY", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
    return server


@pytest.mark.parametrize("address", ADDRESSES)
def test_no_proxy_sees_a_private_text_however_the_address_is_written(
    bench: Start, proxy: Bench, address: str
) -> None:
    run = bench(behave=good)
    own = labeller(run, base_url=address.format(run.server.port))
    own.check("a text")
    assert own.codes(TEXTS).tolist() == CODES
    assert len(run.server.asked) == 5
    assert not proxy.server.raw


@pytest.mark.parametrize("address", ADDRESSES)
@pytest.mark.parametrize("mode", ["direct", "batch"])
def test_no_proxy_sees_what_a_generator_sends_to_this_machine(
    bench: Start, proxy: Bench, address: str, mode: str
) -> None:
    run = bench(behave=always_good)
    own = run.generator(base_url=address.format(run.server.port), mode=mode)
    own.check()
    assert all(answer.text for answer in own.generate(wishes(2)).value)
    assert len(run.server.asked) == 3
    assert not proxy.server.raw


@pytest.mark.parametrize("mode", ["direct", "batch"])
def test_no_value_of_the_environment_but_the_key_is_sent(
    bench: Start, monkeypatch: pytest.MonkeyPatch, mode: str
) -> None:
    monkeypatch.setenv("OPENAI_ORG_ID", "org-of-somebody")
    monkeypatch.setenv("OPENAI_PROJECT_ID", "project-of-somebody")
    custom = "X-Gateway: gateway-of-somebody\nAuthorization: Bearer token-of-somebody"
    monkeypatch.setenv("OPENAI_CUSTOM_HEADERS", custom)
    run = bench(behave=always_good)
    own = run.generator(mode=mode)
    own.check()
    assert all(answer.text for answer in own.generate(wishes(2)).value)
    assert b"of-somebody" not in run.server.raw
    assert f"Bearer {KEY}".encode() in run.server.raw


@pytest.mark.parametrize("scheme", ["http", "HTTP", "Http"])
def test_no_proxy_sees_a_private_text_for_an_endpoint_on_ipv6(
    bench: Start, proxy: Bench, scheme: str
) -> None:
    run = bench(behave=good)
    with _on_ipv6(run.server.port) as port:
        own = labeller(run, base_url=f"{scheme}://[::1]:{port}/v1")
        assert own.codes(TEXTS).tolist() == CODES
    assert not proxy.server.raw


@pytest.mark.parametrize("scheme", ["http", "HTTP", "Http"])
def test_a_proxy_is_used_for_another_machine_unless_the_text_is_private(
    bench: Start, proxy: Bench, scheme: str
) -> None:
    away = f"{scheme}://endpoint.invalid/v1"
    with pytest.raises(Exception, match="cannot be reached"):
        labeller(proxy, base_url=away, max_retries=0).check("a text")
    assert not proxy.server.raw
    # The proxy answers 404, because a request to a proxy contains the whole address.
    with pytest.raises(Exception, match="404"):
        proxy.generator(base_url=away, max_retries=0).check()
    assert b"endpoint.invalid" in proxy.server.raw


@pytest.mark.filterwarnings(
    "ignore:_NoneStep:DeprecationWarning", "ignore:unclosed:ResourceWarning"
)
@pytest.mark.parametrize("address", ADDRESSES)
def test_a_check_of_this_machine_warns_of_nothing_however_the_address_is_written(
    bench: Start, proxy: Bench, folder: Path, address: str
) -> None:
    run = bench(behave=letter)  # the rehearsal is good
    written = address.format(run.server.port)
    labels = {"trusted": True, "base_url": written}
    code, said = told("check", run, labels=labels, **{f"{OPENAI}base_url": written})
    assert code == 0, said
    assert "labels ok" in said
    assert "UNENCRYPTED" not in said
    assert not proxy.server.raw


@contextlib.contextmanager
def _on_ipv6(port: int) -> Iterator[int]:
    """Open a port on ::1 that forwards all bytes to `port` on 127.0.0.1.

    The test is skipped if the machine has no IPv6.
    """
    try:
        listening = socket.create_server(("::1", 0), family=socket.AF_INET6)
    except OSError:
        pytest.skip("no IPv6 on this machine")
    sockets = [listening]

    def pump(source: socket.socket, target: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                target.sendall(data)
        with contextlib.suppress(OSError):
            target.shutdown(socket.SHUT_WR)

    def accept() -> None:
        with contextlib.suppress(OSError):
            while True:
                inner, _ = listening.accept()
                outer = socket.create_connection(("127.0.0.1", port))
                sockets.extend([inner, outer])
                for pair in ((inner, outer), (outer, inner)):
                    threading.Thread(target=pump, args=pair, daemon=True).start()

    threading.Thread(target=accept, daemon=True).start()
    try:
        yield listening.getsockname()[1]
    finally:
        with contextlib.suppress(OSError):
            listening.shutdown(socket.SHUT_RDWR)
        for one in sockets:
            one.close()
