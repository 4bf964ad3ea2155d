"""A web service that sends and reads with asyncio: orders come in by HTTP, and totals are kept by a reader in the same process.

uvicorn fastapi_orders:app         (with a broker at HEADRACE_BOOTSTRAP)
python fastapi_orders.py --demo    (brings its own broker and calls itself)
"""

import asyncio
import sys
from collections import defaultdict
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from fastapi import FastAPI
from pydantic import BaseModel

from headrace import AsyncConsumer, AsyncProducer, Record

totals: dict[str, float] = defaultdict(float)


class Order(BaseModel):
    customer: str
    total: float


async def add(record: Record[str, Any]) -> None:
    totals[record.key] += record.value["total"]


@asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncIterator[None]:
    async with (
        AsyncProducer(keys=str, values="json", linger=0) as producer,
        AsyncConsumer("web-orders", group="totals", keys=str, values="json", missing_topics="wait") as consumer,
    ):
        app.state.producer = producer
        async with consumer.on_message(add, workers=8):
            yield


app = FastAPI(lifespan=lifespan)


@app.post("/orders")
async def order(given: Order) -> dict[str, int]:
    delivery = await app.state.producer.send("web-orders", given.model_dump(), key=given.customer)
    return {"partition": delivery.partition, "offset": delivery.offset}


@app.get("/totals/{customer}")
async def total(customer: str) -> float:
    return totals[customer]


async def demo() -> None:
    import httpx

    async with lifespan(app), httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://shop") as client:
        for amount in (5, 7.5):
            print("sent:", (await client.post("/orders", json={"customer": "ann", "total": amount})).json())
        for _ in range(100):
            if (await client.get("/totals/ann")).json() == 12.5:
                break
            await asyncio.sleep(0.1)
        print("total:", (await client.get("/totals/ann")).json())


if __name__ == "__main__" and "--demo" in sys.argv:
    import os

    from headrace.testing import Broker

    with Broker() as broker:
        os.environ["HEADRACE_BOOTSTRAP"] = broker.bootstrap
        asyncio.run(demo())
