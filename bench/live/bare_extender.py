"""An extender that says nothing of any node: what is left of its cost is that of having one.

It is written with aiohttp, as Stowplan's own is, and neither follows the cluster nor looks at a question.
It runs in a process of its own: `python bench/live/bare_extender.py PORT`.
"""

import sys

from aiohttp import web

LARGEST_BODY_BYTES = 1 << 26


async def answer_nothing(request: web.Request) -> web.Response:
    """Read the question and prefer no node."""
    await request.read()
    return web.Response(body=b"[]", content_type="application/json")


if __name__ == "__main__":
    app = web.Application(client_max_size=LARGEST_BODY_BYTES)
    app.router.add_post("/prioritize", answer_nothing)
    web.run_app(app, host="127.0.0.1", port=int(sys.argv[1]), access_log=None, print=None)
