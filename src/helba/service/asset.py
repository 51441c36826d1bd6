"""The page's files, from the package, with headers that let a browser load nothing else."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.resources import files

from fastapi import Request, Response

from helba.service.failure import NotFound

INDEX = "index.html"
TYPES = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml",
}
HEADERS = {
    "Content-Security-Policy": "default-src 'self'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'; object-src 'none'",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-cache",  # kept, and asked for again by its tag
}


@dataclass(frozen=True, kw_only=True)
class Asset:
    """A file of the page."""

    data: bytes
    type: str

    @property
    def tag(self) -> str:
        """What changes when the file does."""
        return f'"{hashlib.sha256(self.data).hexdigest()[:32]}"'


def load_assets() -> Mapping[str, Asset]:
    """Return the page's files by name."""
    found: dict[str, Asset] = {}
    for path in (files("helba.service") / "page").iterdir():
        ending = path.name[path.name.rfind(".") :]
        if path.is_file() and ending in TYPES:
            found[path.name] = Asset(data=path.read_bytes(), type=TYPES[ending])
    return found


def send_asset(assets: Mapping[str, Asset], name: str, *, request: Request) -> Response:
    """Return the response with a file, or that the browser has it; `NotFound` if there is none."""
    asset = assets.get(name)
    if asset is None:
        raise NotFound("the page has no such file")
    headers = {**HEADERS, "ETag": asset.tag}
    known = request.headers.get("if-none-match", "")
    if asset.tag in (each.strip().removeprefix("W/") for each in known.split(",")):
        return Response(status_code=304, headers=headers)
    return Response(asset.data, media_type=asset.type, headers=headers)
