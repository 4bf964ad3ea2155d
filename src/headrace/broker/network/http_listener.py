"""An HTTP address of the broker's own, for those who watch over it: nothing at all where none is set."""

from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING

from headrace.model.listeners import Address, parse_address

if TYPE_CHECKING:
    from aiohttp import web

    Page = Callable[[web.Request], Awaitable[web.Response]]


def http_address(text: str) -> Address:
    """Where to listen; it speaks HTTP and may be written so."""
    return parse_address(text.removeprefix("http://"))


class HttpListener:
    """Pages by path, at the address that a setting names."""

    def __init__(self, setting: str, wanted: str | None, pages: "Mapping[str, Page]") -> None:
        """`wanted` is the address that was set."""
        self._setting = setting
        self._wanted = wanted
        self._pages = pages
        self._runner: web.AppRunner | None = None
        self.address: Address | None = None

    async def start(self) -> None:
        if (wanted := self._wanted) is None:
            return
        # Most brokers do without, and start sooner for it.
        from aiohttp import web

        application = web.Application()
        application.add_routes([web.get(path, page) for path, page in self._pages.items()])
        self._runner = web.AppRunner(application, access_log=None)
        await self._runner.setup()
        site = web.TCPSite(self._runner, *http_address(wanted))
        try:
            await site.start()
        except OSError as error:
            await self.close()
            raise OSError(f"{self._setting}={wanted}: {error.strerror}") from None
        host, port, *_ = self._runner.addresses[0]
        self.address = Address(host, port)

    async def close(self) -> None:
        if self._runner is not None:
            await self._runner.cleanup()
