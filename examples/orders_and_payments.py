"""A shop: orders come in, and the payment service answers each with exactly one payment.

The payments and the offsets of the orders they answer are in one transaction: a payment is there if and only if its order counts
as read.  Run it twice: the second run pays only what is new.
"""

import uuid

from headrace import Consumer, Producer

RUN = uuid.uuid4().hex[:6]

with Producer(keys=str, values="json") as shop:
    for number in range(10):
        shop.send("orders", {"id": f"{RUN}-{number}", "total": 10 + number}, key=f"customer-{number % 3}")

paid = 0
with (
    Consumer("orders", group="payments", values="json", delivery="exactly_once") as orders,
    Producer(transactional_id="payments-1", keys=str, values="json") as payments,
):
    print(f"{sum(orders.lag().values())} orders wait")
    while batch := orders.batch(100, timeout=3):
        with payments.transaction(orders):
            for order in batch:
                payments.send("payments", {"order": order.value["id"], "amount": order.value["total"]}, key=order.value["id"])
        paid += len(batch)
        print(f"paid {len(batch)} orders")

with Consumer("payments", values="json") as reader:
    mine = [record.value["order"] for record in reader.to_end() if record.value["order"].startswith(RUN)]
print(f"{len(mine)} payments for the 10 orders of this run, {len(mine) - len(set(mine))} of them twice")
