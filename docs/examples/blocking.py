from fairlane import MongoTransport

with MongoTransport.from_url("mongodb://localhost:27017", "app") as transport:
    transport.publish("order-42", {"kind": "paid"})
    lease = transport.claim("worker-1", visibility=30)
    if lease:
        print(lease.group_id, lease.event)
        transport.ack(lease)
